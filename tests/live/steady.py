"""A guaranteed job that is watched alone and beside its guests in turn: whether it is slower there than its bound.

Its own step times are compared, in one run and minutes apart at most; how far those alone differ among each other is
the noise floor, and nothing below that can be seen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from weft.client import Client
from weft.core.errors import WeftError
from weft.node.sharing.throttle import StepDurations
from weft.node.task.handle import Task, attach
from weft.system.home import Home

ROUNDS, BLOCK_S, LOOK_S = 3, 4.0, 0.2
BOUND = 0.03
"""So much slower it may be beside guests that are held back for it."""
LOUD = 0.25
"""Where alone differs from alone by more than this, nothing is shown."""
A_LITTLE = ("4", "2", "0")
HOLDER = ("plain", "1000000", "0", "4", "6", *A_LITTLE)
"""Four tenths of its time it computes, and waits for the rest."""
GUEST = ("plain", "1000000", "0", "8", "1", *A_LITTLE)
NEEDS_BYTES = 8 << 20


@dataclass
class Observed:
    """Median step times, and how many steps the guests made beside it."""

    alone_s: list[float] = field(default_factory=list)
    beside_s: list[float] = field(default_factory=list)
    guest_steps: int = 0
    was_overloaded: bool = False
    """Others used the machine meanwhile."""

    @property
    def slower(self) -> float:
        """Each time beside against the times alone before and after it."""
        around_s = [statistics.mean(both) for both in pairwise(self.alone_s)]
        return statistics.median(it / alone - 1 for it, alone in zip(self.beside_s, around_s, strict=False))

    @property
    def floor(self) -> float:
        return max(abs(one / two - 1) for one, two in pairwise(self.alone_s))

    @property
    def shows(self) -> bool:
        is_whole = len(self.alone_s) > 1 and bool(self.beside_s) and bool(self.guest_steps)
        return is_whole and self.floor <= LOUD and not self.was_overloaded

    @property
    def is_slow(self) -> bool:
        return self.shows and self.slower > BOUND + self.floor

    def __str__(self) -> str:
        if len(self.alone_s) < 2 or not self.beside_s:
            return "cut short"
        times = f"{len(self.beside_s)} times beside guests that made {self.guest_steps} steps"
        others = "; others used the machine meanwhile" if self.was_overloaded else ""
        return f"{self.slower:+.1%} ({times}; noise floor {self.floor:.1%}{others})"


class Observation:
    def __init__(self, home: Home, holder_id: str) -> None:
        self._home, self._holder_id = home, holder_id
        self._held: set[str] = set()

    def watch(self, rounds: int = ROUNDS) -> Observed:
        """Alone, beside, alone, ... Whatever comes in between, a job that is cancelled, say, cuts it short."""
        seen = Observed()
        with suppress(WeftError, TimeoutError, OSError), Client(self._home, timeout_s=2.0) as client:
            holder = self._task(client, self._holder_id)
            for _ in range(rounds):
                self._alone(client, holder, seen)
                self._beside(client, holder, seen)
            self._alone(client, holder, seen)
        return seen

    def _alone(self, client: Client, holder: Task, seen: Observed) -> None:
        """All who wait are held, so that nobody takes the seats of those who leave."""
        waiting = [job["id"] for job in client.queue() if job["guest"] or job["state"] == "PENDING"]
        for job_id in waiting:
            with suppress(WeftError):  # it has just got devices of its own, or has ended
                self._held |= set(client.hold(job_id))
        _until(lambda: not client.status(self._holder_id)["beside"])
        time.sleep(1.0)
        seen.alone_s.append(_median_s(holder))

    def _beside(self, client: Client, holder: Task, seen: Observed) -> None:
        self.release(client)
        _until(lambda: bool(client.status(self._holder_id)["beside"]))
        guests = [self._task(client, job_id) for job_id in client.status(self._holder_id)["beside"]]
        before = [guest.step for guest in guests]
        _until(lambda: any(guest.step > step for guest, step in zip(guests, before, strict=True)))
        time.sleep(1.0)
        before = [guest.step for guest in guests]
        beside_s = _median_s(holder)
        if client.status(self._holder_id)["beside"]:
            seen.beside_s.append(beside_s)
            seen.guest_steps += sum(guest.step - step for guest, step in zip(guests, before, strict=True))

    def release(self, client: Client) -> None:
        for job_id in list(self._held):
            with suppress(WeftError):  # it has ended
                client.release(job_id)
            self._held.discard(job_id)

    def _task(self, client: Client, job_id: str) -> Task:
        _until(lambda: bool(client.status(job_id)["steps"]))
        return attach(self._home.page(job_id, client.status(job_id)["attempt"], 0))


def _median_s(task: Task) -> float:
    steps, durations_s, until_s = StepDurations(task), list[float](), time.monotonic() + BLOCK_S
    steps.new_durations_s()
    while time.monotonic() < until_s:
        time.sleep(LOOK_S)
        durations_s += steps.new_durations_s()
    if not durations_s:
        raise TimeoutError("it makes no steps")
    return statistics.median(durations_s)


def _until(holds: Callable[[], bool], timeout_s: float = 25.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError
        time.sleep(LOOK_S)
