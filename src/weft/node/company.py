"""All attempts on this node, and how they stand to each other: who may be beside whom, who waits for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from weft.node import laning
from weft.node.holding import Holding, Key
from weft.node.order import State

if TYPE_CHECKING:
    from weft.node.attempt import Attempt


class Company:
    def __init__(self) -> None:
        self.attempts: dict[Key, Attempt] = {}
        self.holding = Holding(on_free=self.wake_all)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self.attempts.values()))

    def wake_all(self) -> None:
        for attempt in self:
            attempt.wake()

    def wake_comers(self) -> None:
        """Those who want to be on devices where they are not: somebody there may be welcome now."""
        for attempt in self:
            if attempt.is_coming:
                attempt.wake()

    def take(self, comer: Attempt, devices: Collection[int]) -> bool:
        """Be on these devices, as soon as all others there may stay beside the comer."""

        def is_welcome(key: Key, device: int) -> bool:
            other = self.attempts.get(key)
            return other is not None and other.is_welcome(device, beside_guest=comer.order.seat.is_guest)

        return self.holding.take(comer.record.key, devices, is_welcome)

    def beside(self, attempt: Attempt) -> list[Attempt]:
        """The others on one of its devices, in the order of their names."""
        keys = self.holding.on(attempt.record.devices) - {attempt.record.key}
        return [self.attempts[key] for key in sorted(keys) if key in self.attempts]

    def neighbours(self, attempt: Attempt) -> list[str]:
        """The jobs that compute on one of its devices beside it."""
        if attempt.state is not State.RUNNING:
            return []
        return sorted({each.record.job for each in self.beside(attempt) if each.is_computing})

    def has_older(self, job: str, number: int) -> bool:
        return any(key[0] == job and key[1] < number for key in self.attempts)

    def held_bytes(self, whose: Attempt, but_for: Collection[str]) -> int:
        """The memory that others have of an attempt's devices, but for jobs with these ids: those who pause, and those
        who will go on there."""
        indexes = set(whose.record.devices)
        others = [each for each in self if each is not whose and each.record.job not in but_for]
        return sum(each.occupied_bytes for each in others if indexes & set(each.record.devices))

    def lane_pages(self, run: Path) -> set[Path]:
        """Of all lanes that somebody is in."""
        pages = [laning.page_of(run, each.record) for each in self if not each.is_over]
        return {page for page in pages if page}
