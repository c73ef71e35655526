"""Tiresias's discretised 2D-Gittins: queues as in 2D-LAS, but inside one by the Gittins index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import State
from weft.core.view import View
from weft.policies.history import History
from weft.policies.order.queues import ServiceQueues
from weft.policies.stages import Key


@dataclass
class GittinsQueues(ServiceQueues):
    """In queue i the service quantum of the index is the queue's upper threshold; the last queue is by first start.

    With no history given, it is learnt from the jobs that finish.
    """

    history: History = field(default_factory=History)
    learns: bool = True

    rule = "by queues of device-time; within one, who is likeliest to end soon, seeing how long others took"
    drifts = True

    def key(self, job: Job, now: float) -> Key:
        service = self.service_in_queues(job, now)
        queue = self.queue_of(job, now)
        index = self.history.index(service, self.thresholds[queue]) if queue < len(self.thresholds) else 0.0
        return (queue, -index, job.first_start_s, job.tie)

    def recall(self, services: Iterable[float]) -> None:
        if self.learns:
            for service in services:
                self.history.add(service)
            self.history.refresh()

    def learn(self, view: View) -> bool:
        super().learn(view)
        if not self.learns:
            return False
        for change, job in view.changes:
            if change is Change.LEFT and job.state is State.FINISHED:
                self.history.add(job.attained(view.now))
        return self.history.refresh()
