"""The order of `weft`: queues of attained service ranked by the Gittins index, and the order of jobs that never ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import State
from weft.core.view import View
from weft.policies.base import Key
from weft.policies.order.tiresias import History, ServiceQueues

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
        "new jobs go first, then those likeliest to end soon for the device-time they have had; "
        "until that is known, those with the least device-time"
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


# ---- The order of jobs that never ran: by what their tenants have had, and what is promised to those before
# them.


class Newcomers:
    """The tenant that had had less when they came goes first. Each counts for those of its tenant that come after it as
    if it had had its first `part` of device-seconds already: fifty at once do not go before another tenant's next one.
    """

    def __init__(self, part: float) -> None:
        self._part = part
        self._tags: dict[str, float] = {}
        self._by_tenant: dict[str, dict[str, Job]] = {}
        """As they came: all that have not started since, and some that have."""
        self._version = -1

    def tag(self, job: Job) -> float:
        """It counts for nothing any more once the job has begun."""
        return 0.0 if job.generation else self._tags.get(job.id, 0.0)

    def __len__(self) -> int:
        return len(self._tags) + len(self._by_tenant)

    def learn(self, view: View) -> bool:
        """True if one that was there before goes elsewhere now."""
        is_anew = view.version != self._version
        if is_anew:  # changes may be missing
            self._version = view.version
            self._forget(job for line in list(self._by_tenant.values()) for job in list(line.values()))
            self._add(sorted(view.jobs.values(), key=lambda job: job.tie), view)
        for change, job in view.changes:
            if change is Change.QUEUED:
                self._add((job,), view)
            elif change is Change.LEFT:
                self._forget((job,))
        return is_anew

    def _add(self, jobs: Iterable[Job], view: View) -> None:
        """A job held by its owner has no place in the line before it is released."""
        for job in jobs:
            if job.is_waiting and not job.generation and job.id not in self._tags:
                line = self._by_tenant.setdefault(job.tenant, {})
                self._tags[job.id] = max(self._promised(line), view.tenants.attained(job.tenant, view.now))
                line[job.id] = job

    def _promised(self, line: dict[str, Job]) -> float:
        """What the tenant will have had when all of these have had their parts."""
        while line:
            last = line[next(reversed(line))]
            if not last.generation:
                return self._tags[last.id] + self._part
            self._drop(line, last)  # it has begun
        return 0.0

    def _forget(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            line = self._by_tenant.get(job.tenant, {})
            if job.id in line:
                self._drop(line, job)
            if not line:
                self._by_tenant.pop(job.tenant, None)

    def _drop(self, line: dict[str, Job], job: Job) -> None:
        del line[job.id]
        del self._tags[job.id]
