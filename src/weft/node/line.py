"""How long a task computed, and stood in line for its cores meanwhile, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from weft.core.value import value
from weft.node.idling import threads


@value
class Spent:
    """Of the time since the last look: computed by all threads together; waited by the one that did so longest."""

    computed_s: float
    waited_s: float


class Line:
    """The processes that step, not all their family: who loads data ahead may well wait."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}

    def spent(self, pids: Iterable[int]) -> Spent | None:
        """Since the last look; None where the kernel does not count it."""
        now = {thread: counted for thread in threads(set(pids)) if (counted := _counted_ns(thread)) is not None}
        before, self._before = self._before, now
        if not now:
            return None
        new = [(counted, before.get(thread, counted)) for thread, counted in now.items()]
        return Spent(sum(it[0] - was[0] for it, was in new) / 1e9, max(it[1] - was[1] for it, was in new) / 1e9)


def _counted_ns(thread: int) -> tuple[int, int] | None:
    try:
        computed, waited, _ = Path(f"/proc/{thread}/schedstat").read_text().split()
    except (OSError, ValueError):  # it has ended, or this kernel was built without
        return None
    return int(computed), int(waited)
