"""For how long a holder stood in line for its cores: how much of it guests are to blame for."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from weft.node.devices.cpu import RunQueueTime
from weft.node.sharing.throttle import Throttle


class Counted:
    """What the kernel would say."""

    def __init__(self, computed_s: float, waited_s: float) -> None:
        self._spent = RunQueueTime(computed_s, waited_s)

    def spent(self, pids: Iterable[int]) -> RunQueueTime:
        return self._spent


@pytest.fixture
def throttle() -> Any:
    task: Any = SimpleNamespace(roots={1}, ranks=[])
    throttle: Any = Throttle(task, on_cores=True)
    throttle._line = Counted(0.05, 0.03)
    throttle._seated = {"2": SimpleNamespace(task=task, line=Counted(0.01, 0.0))}
    return throttle


def test_beside_guests_it_cannot_have_waited_for_them_for_longer_than_they_computed(throttle: Any) -> None:
    assert throttle._waited_s(is_alone=False) == 0.01


def test_what_it_waits_while_it_is_alone_counts_in_full_so_that_guests_are_not_blamed_for_strangers(
    throttle: Any,
) -> None:
    assert throttle._waited_s(is_alone=True) == 0.03
