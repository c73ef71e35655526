"""Tiresias's discretised 2D-LAS: queues by attained service, strict between them, by first start inside one."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import TERMINAL
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.stages import Key, KeyedOrder


@dataclass(frozen=True, slots=True)
class Promotion:
    """A job's counters when it was last promoted: only what came after counts for its queue."""

    attained: float = 0.0
    run_s: float = 0.0
    wait_s: float = 0.0


@dataclass
class ServiceQueues(KeyedOrder):
    """A job moves down when its attained service reaches a threshold (device-seconds).

    With a promote knob k (PROMOTEKNOB), a job below the first queue moves back to it once it has waited k times
    as long as it has run, both counted since its first start or its last promotion.
    """

    thresholds: tuple[float, ...]
    promote_knob: float | None = None
    promotions: dict[str, Promotion] = field(default_factory=dict, init=False, repr=False)

    rule = "who has had less device-time goes first, in queues; within one, who started first"
    preempts = True
    is_moved_by_eviction = False

    def __post_init__(self) -> None:
        pairs = zip((0.0, *self.thresholds), (*self.thresholds, math.inf), strict=True)
        if not self.thresholds or not all(low < high for low, high in pairs):
            raise InputError(
                f"thresholds {'/'.join(f'{t:g}' for t in self.thresholds)} are not ascending device-seconds above 0",
                "for two queues give one threshold, e.g. thresholds=3250; for three, thresholds=3250/18000",
            )
        if self.promote_knob is not None and not self.promote_knob > 0:
            raise InputError(f"promote_knob {self.promote_knob:g} is not above 0", "leave it out to switch it off")

    def key(self, job: Job, now: float) -> Key:
        return (self.queue_of(job, now), job.first_start_s, job.tie)

    def queue_of(self, job: Job, now: float) -> int:
        return bisect_right(self.thresholds, self.service_in_queues(job, now) + EPSILON_S)

    def service_in_queues(self, job: Job, now: float) -> float:
        """Attained service since the last promotion."""
        if self.promotions:
            return job.attained(now) - self._promotion(job).attained
        return job.attained(now)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        if is_running or job.seating:
            service, speed = self.service_in_queues(job, now), 1.0 if is_running else job.speed
            for threshold in self.thresholds:
                if service + EPSILON_S < threshold:
                    return job.charged_from_s(now) + (threshold - service) / (job.gang_size * speed)
            return math.inf
        if self.promote_knob is None:
            return math.inf
        return now if self._is_due(job, now) else self._promoted_at(job, now)

    def touch(self, job: Job, now: float) -> None:
        if self.promote_knob is not None and not job.is_running and self._is_due(job, now):
            self.promotions[job.id] = Promotion(job.attained(now), job.run_s(now), job.wait_s(now))

    def learn(self, view: View) -> bool:
        if self.promotions:
            for change, job in view.changes:
                if change is Change.LEFT and job.state in TERMINAL:
                    self.promotions.pop(job.id, None)
        return False

    def _promoted_at(self, job: Job, now: float) -> float:
        """When it will have waited long enough, if it goes on waiting."""
        if self.promote_knob is None or job.generation == 0 or self.queue_of(job, now) == 0:
            return math.inf
        return now + self._wait_lacking_s(job, now)

    def _is_due(self, job: Job, now: float) -> bool:
        return self._promoted_at(job, now) <= now + EPSILON_S

    def _wait_lacking_s(self, job: Job, now: float) -> float:
        assert self.promote_knob is not None
        base = self._promotion(job)
        waited_s = job.wait_s(now) - max(base.wait_s, job.first_wait_s)
        return self.promote_knob * (job.run_s(now) - base.run_s) - waited_s

    def _promotion(self, job: Job) -> Promotion:
        return self.promotions.get(job.id, NEVER)


NEVER = Promotion()
