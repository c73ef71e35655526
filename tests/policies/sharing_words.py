"""A scheduler with a policy that shares, and small words for what happens to it."""

from __future__ import annotations

from typing import Any

from weft.core.commands import Command, Preempt, Seat, Seating, Start, Tell, Unseat, WakeAt
from weft.core.events import Event, Measured, Submitted, Woken
from weft.core.job import Job
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, Node
from weft.core.view import Decider
from weft.policies.base import Placer
from weft.policies.migrate.migration import Migration
from weft.policies.order.keyed import Fifo
from weft.policies.order.quota import QuotaClasses
from weft.policies.policy import Policy
from weft.policies.share.mixed import MixedSharing
from weft.policies.share.opportunistic import IdleFill

GB = 1 << 30


def filling(place: Placer | None = None, migration: Migration | None = None, **parameters: Any) -> Policy:
    """As antman has it: whoever waits fills what holders leave idle."""
    order = QuotaClasses(Fifo(strict=False))
    share = MixedSharing(order, None, IdleFill(**parameters), has_lanes=False)
    return Policy(order, place=place, share=share, migration=migration)


class Stage:
    """One scheduler; time passes between what is told, and wake-ups come when they were asked for."""

    def __init__(self, policy: Decider, *sizes: int, memory_bytes: int | None = 16 * GB) -> None:
        nodes = tuple(Node(f"n{i}", size, "any", memory_bytes) for i, size in enumerate(sizes))
        self.scheduler = Scheduler(Cluster(nodes), policy)
        self.now = 0.0
        self.wake_at = float("inf")
        self.log: list[tuple[float, Command]] = []

    def tell(self, now: float, *events: Event) -> list[Command]:
        """What happens at this instant; before it, every wake-up that was asked for."""
        while self.wake_at < now:
            self._handle(self.wake_at, Woken())
        return self._handle(now, *events)

    def submit(self, now: float, *names: str, gang_size: int = 1, **described: Any) -> list[Command]:
        return self.tell(now, *(Submitted(JobSpec(name, gang_size, **described)) for name in names))

    def measure(
        self,
        now: float,
        *names: str,
        rate_hz: float = 1.0,
        utilisation: float = 0.3,
        memory_bytes: tuple[int, int] = (GB, GB),
        neighbours: tuple[str, ...] = (),
        steps: int = 0,
        error: float = 0.0,
        window: int = 0,
        alone_hz: float | None = None,
    ) -> list[Command]:
        """As if the node had looked at each of them, one like the other. Beside others each is compared with its rate
        alone as it is known, or with another one that is told."""
        return self.tell(
            now,
            *(
                Measured(
                    *(name, self.job(name).generation, rate_hz, utilisation, *memory_bytes, neighbours, steps),
                    *((alone_hz or self._alone_hz(name), error, window) if neighbours else ()),
                )
                for name in names
            ),
        )

    def _alone_hz(self, name: str) -> float | None:
        alone = self.job(name).alone
        return alone.rate_hz if alone else None

    def job(self, name: str) -> Job:
        return self.scheduler.ledger.jobs[name]

    @property
    def running(self) -> set[str]:
        return set(self.scheduler.ledger.running)

    @property
    def seated(self) -> dict[str, Seating]:
        return {name: job.seating for name, job in self.scheduler.ledger.seats.seated.items() if job.seating}

    @property
    def lines(self) -> list[str]:
        """Everything that was ever done, in short."""
        return told([command for _, command in self.log])

    def _handle(self, now: float, *events: Event) -> list[Command]:
        if self.wake_at <= now:
            self.wake_at = float("inf")
            events = (*events, Woken())
        commands = self.scheduler.handle(events, now)
        self.scheduler.ledger.validate()
        for command in commands:
            if isinstance(command, WakeAt):
                self.wake_at = command.time_s
        self.now = now
        self.log += [(now, command) for command in commands]
        return commands


def told(commands: list[Command]) -> list[str]:
    """What is done, in short."""
    return [
        f"{type(one).__name__.lower()} {one.job_id}: {one.reason}"
        for one in commands
        if isinstance(one, Start | Preempt | Seat | Unseat | Tell)
    ]
