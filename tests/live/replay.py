"""The log of a weft, once more from its beginning: what must be so after every instant, and what was measured."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from weft.control.loop.inventory import computing, place_of
from weft.core.commands import Preempt, Seat, Start, Unseat
from weft.core.events import Measured
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.scheduler import Scheduler
from weft.core.serialization import KINDS, fact_of
from weft.core.sharing import Memory, devices_of, needed_bytes
from weft.core.values import Cluster, JobClass
from weft.policies.loader import policies_asked

OVER_S = 3.0
"""For so long more may be on a device than it has: who is to make way there has to come to a step boundary first."""


class Replay:
    def __init__(self, database: Path) -> None:
        self.scheduler = Scheduler(Ledger(Cluster(())), policies_asked("fifo")[0].build())
        self.counts: Counter[str] = Counter()
        self.ratios: list[tuple[float, float, str]] = []
        """Of guaranteed jobs beside guests that are held back for them: when it was measured, the rate as a part of
        that alone, and which job."""
        self.wrongs: dict[str, str] = {}
        self._really: dict[str, tuple[int, list[int] | None]] = {}
        """In which lane each job is, and on which devices, as its node last said. Who is not there has not come yet."""
        self._over: dict[int, float] = {}
        """Since when more is on a device than it has."""
        with sqlite3.connect(database) as db:
            self._repeat(db.execute("SELECT at, kind, job, body FROM log ORDER BY seq").fetchall())

    @property
    def ledger(self) -> Ledger:
        return self.scheduler.ledger

    def _repeat(self, rows: list[tuple[float, str, str, str]]) -> None:
        """The safety condition, and all else that is always so, holds after every instant that there was."""
        before = 0.0
        for at, kind, job_id, body in rows:
            if at != before:
                self.ledger.validate()
                self._look_where_they_are(before, at)
            before = at
            if kind in KINDS:
                self._fact(fact_of(kind, json.loads(body)), at)
            elif kind == "Reported":
                self._reported(job_id, json.loads(body))
        self.ledger.validate()

    def _fact(self, fact: Any, at: float) -> None:
        if isinstance(fact, Start | Preempt | Seat | Unseat):
            self.counts[type(fact).__name__] += 1
            self.scheduler.repeat(fact, at)
            return
        self.scheduler.record([fact], at)
        if isinstance(fact, Measured):
            self._measured(fact, at)

    def _measured(self, fact: Measured, at: float) -> None:
        job, others = self.ledger.jobs.get(fact.job_id), [self.ledger.jobs.get(each) for each in fact.neighbours]
        if job is None or not job.is_running or job.spec.job_class is not JobClass.GUARANTEED:
            return
        are_held_back = [bool(other and other.seating and other.seating.is_throttled) for other in others]
        if others and all(are_held_back) and job.alone:
            self.ratios.append((at, fact.rate_hz / job.alone.rate_hz, job.id))

    def _reported(self, job_id: str, body: dict[str, Any]) -> None:
        job = self.ledger.jobs.get(job_id)
        if body["what"] in ("started", "resumed") and job and job.is_computing:
            self._really[job_id] = (body.get("lane") or 0, body.get("devices"))
            self.counts["is in another lane than decided"] += self._lane(job) != place_of(job).lane
            self.counts["stays where it is"] += bool(body.get("reason"))
        elif body["what"] in ("paused", "ended", "lost", "left"):
            self._really.pop(job_id, None)

    def _lane(self, job: Job) -> int:
        return self._really[job.id][0] if job.id in self._really else place_of(job).lane

    def _look_where_they_are(self, at: float, until: float) -> None:
        """The same condition, by the lanes and devices where jobs really were from then until then."""
        on: dict[int, list[tuple[str, Memory, int]]] = {}
        for job in computing(self.ledger):
            if job.memory is not None and job.id in self._really:
                granted = [device for _, device in devices_of(place_of(job).allocation)]
                for device in self._really[job.id][1] or granted:
                    on.setdefault(device, []).append((job.id, job.memory, self._lane(job)))
        capacity_bytes = self.ledger.nodes[0].memory_bytes or 0 if on else 0
        for device, members in on.items():
            needed = needed_bytes((memory, lane) for _, memory, lane in members)
            is_over = len(members) > 1 and needed > capacity_bytes
            self.counts["instants"] += 1
            self.counts["instants over what fits, where they really are"] += is_over
            if not is_over:
                self._over.pop(device, None)
            elif until - self._over.setdefault(device, at) > OVER_S:
                story = (
                    f"device {device} has {capacity_bytes}, and from {self._over[device]:.3f} to {until:.3f} {needed}"
                )
                self.wrongs.setdefault(f"too much on device {device}", f"{story}: {members}")
        for device in self._over.keys() - on.keys():
            del self._over[device]
