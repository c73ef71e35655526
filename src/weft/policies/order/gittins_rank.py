"""2D-Gittins over queues: each queue of attained service has one index, and the queues are ranked by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import State
from weft.core.view import View
from weft.policies.history import History
from weft.policies.order.newcomers import Newcomers
from weft.policies.order.queues import ServiceQueues
from weft.policies.stages import Key

ENOUGH = 100
"""Finished jobs from which on a distribution says more than nothing: until then, less service goes first (2D-LAS)."""


@dataclass
class GittinsRank(ServiceQueues):
    """Keys move only when a job reaches a threshold or the history has grown: no index drifts between two steps.

    Where jobs that have run long are the likelier to run on, as in most traces, this is 2D-LAS with several queues.
    Where a queue's jobs are likely to end soon, that queue goes before those in which much is still to come. The first
    queue goes before all, whatever the history says: people wait for a first step. For those that never ran see
    `Newcomers`.
    """

    history: History = field(default_factory=History)

    rule = (
        "who is new goes first, then who is likeliest to end soon for the device-time it has had; "
        "until that is known, who has had the least"
    )
    returns_home = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ranks = tuple(range(len(self.thresholds) + 1))
        self._newcomers = Newcomers(self.thresholds[0])
        self._rank()

    def key(self, job: Job, now: float) -> Key:
        return (self._ranks[self.queue_of(job, now)], job.first_start_s, self._newcomers.tag(job), job.tie)

    def recall(self, services: Iterable[float]) -> None:
        for service in services:
            self.history.add(service)
        if self.history.refresh():
            self._rank()

    def learn(self, view: View) -> bool:
        super().learn(view)
        moved = self._newcomers.learn(view)
        for change, job in view.changes:
            if change is Change.LEFT and job.state is State.FINISHED and job.id not in view.jobs:
                self.history.add(job.attained(view.now))
        return (self.history.refresh() and self._rank()) or moved

    def _rank(self) -> bool:
        """True if queues have changed places."""
        if len(self.history) < ENOUGH:
            return False
        edges = (0.0, *self.thresholds)
        indexes = [self._index(low, edges) for low in edges]
        order = [0, *sorted(range(1, len(edges)), key=lambda queue: (-indexes[queue], queue))]
        before, self._ranks = self._ranks, tuple(order.index(queue) for queue in range(len(edges)))
        return self._ranks != before

    def _index(self, low: float, edges: tuple[float, ...]) -> float:
        """The best of serving a job on to any of the higher thresholds, or to its end."""
        ends = [high for high in edges if high > low]
        return max([self.history.index(low, high - low) for high in ends] + [self.history.index(low, 1e18)])
