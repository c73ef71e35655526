"""Tiresias: discretised 2D-LAS and 2D-Gittins, and the history that the Gittins index is computed from."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import TERMINAL, State
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder

GROWTH = 1.1
"""New samples count once there are a tenth more of them: an index that moved at every finish would move every job."""

TINY = 1e-9


class History:
    """Samples in device-seconds, sorted, with running sums."""

    def __init__(self, samples: Iterable[float] = ()) -> None:
        self._new: list[float] = list(samples)
        if not all(0 <= sample < math.inf for sample in self._new):
            raise InputError("a history has samples that are no device-seconds", "they are numbers, 0 or more")
        self._samples: list[float] = []
        self._sums: list[float] = [0.0]
        self.refresh()

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        return f"History of {len(self)} jobs"

    def add(self, device_s: float) -> None:
        self._new.append(device_s)

    def refresh(self) -> bool:
        """Let new samples count if there are enough of them; true if the indexes have changed."""
        if not self._new or len(self._samples) + len(self._new) < GROWTH * len(self._samples):
            return False
        self._samples = sorted([*self._samples, *self._new])
        self._sums = [0.0, *accumulate(self._samples)]
        self._new = []
        return True

    def index(self, attained: float, quantum: float) -> float:
        """P(S − a ≤ D | S > a) / E[min(S − a, D) | S > a] for service quantum D; 0 beyond all experience."""
        samples, sums = self._samples, self._sums
        first = bisect_right(samples, attained)
        longer = len(samples) - first
        if longer == 0:
            return 0.0
        last = bisect_right(samples, attained + quantum)
        done = last - first
        spent = sums[last] - sums[first] - done * attained + (longer - done) * quantum
        return done / max(spent, TINY)  # differences of large sums may come out as nothing, or less

    def best_index(self, attained: float) -> float:
        """The Gittins index proper: the supremum over quanta, which one of the samples attains."""
        first = bisect_right(self._samples, attained)
        ends = dict.fromkeys(self._samples[first:])
        return max((self.index(attained, end - attained) for end in ends), default=0.0)


# ---- Tiresias's discretised 2D-LAS: queues by attained service, strict between them, by first start inside one.


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

    rule = "jobs with less device-time go first, in queues; within a queue, the one that started first"
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


# ---- Tiresias's discretised 2D-Gittins: queues as in 2D-LAS, but inside one by the Gittins index.


@dataclass
class GittinsQueues(ServiceQueues):
    """In queue i the service quantum of the index is the queue's upper threshold; the last queue is by first start.

    With no history given, it is learnt from the jobs that finish.
    """

    history: History = field(default_factory=History)
    learns: bool = True

    rule = "by queues of device-time; within a queue, the job likeliest to end soon, given how long others took"
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
