"""C programs are compiled once a session and shared by its tests: see `compiled.build`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compiled import folder_for_programs


@pytest.fixture(scope="session", autouse=True)
def _folder_for_programs() -> Iterator[None]:
    with folder_for_programs():
        yield
