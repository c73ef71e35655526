"""Every office that a test opens is checked when the test is over: its log makes the very control state it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from office import Office, Open, devices

from weft.core.view import Decider


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Open]:
    """An office no node has come to."""
    opened: list[Office] = []

    def make(policy: str | Callable[[], Decider] = "fifo", **quotas: int) -> Office:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Office(folder, policy, **quotas))
        return opened[-1]

    yield make
    for office in opened:
        office.check_disk()
        office.store.close()


@pytest.fixture
def office(empty: Open) -> Open:
    """An office with a node of so many devices."""

    def make(count: int = 2, policy: str | Callable[[], Decider] = "fifo", **quotas: int) -> Office:
        made = empty(policy, **quotas)
        made.hello(devices(count))
        return made

    return make
