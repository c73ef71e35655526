"""The ledger to and from JSON values, so that a restart need not replay the whole log."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from weft.core.events import Measured
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.serialization import (
    allocation_of,
    fact_of,
    finite,
    node_of,
    plain,
    plain_node,
    plain_reason,
    plain_seating,
    plain_spec,
    reason_of,
    seating_of,
    spec_of,
)
from weft.core.transitions import State
from weft.core.values import Cluster

ENCODE = json.JSONEncoder().encode
SETTLED = (
    "since_s", "first_wait_s", "best_rate_hz", "rate_hz", "settled_run_s", "settled_startup_s", "settled_wait_s",
    "settled_steps", "startup_left_s",
)  # fmt: skip
"""Numbers of a job that are kept as they are."""
AT_FIRST: Mapping[str, Any] = {
    "state": State.PENDING,
    "generation": 0,
    "allocation": (),
    "last_allocation": (),
    "first_start_s": None,
    "lane": 0,
    "seating": None,
    "measured": [None, None],
    "alone_on": ("", 0),
    "holds": [],
    "since_s": None,
    "first_wait_s": 0.0,
    "best_rate_hz": 1.0,
    "rate_hz": 1.0,
    "settled_run_s": 0.0,
    "settled_startup_s": 0.0,
    "settled_wait_s": 0.0,
    "settled_steps": 0.0,
    "served_from_s": None,
    "startup_left_s": 0.0,
}
"""What a job has when it is submitted; `since_s` is then when it came, and it is charged from when it computes."""


def snapshot(ledger: Ledger) -> dict[str, Any]:
    return {**_around(ledger), "jobs": [_plain_job(job) for job in ledger.jobs.values()]}


class SnapshotTexts:
    """Snapshots as JSON, one after the other: jobs that have only waited since the last one are not encoded again.

    Each job is encoded by itself, so that other threads get their turn in between.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def text(self, ledger: Ledger) -> str:
        before, self._waiting = self._waiting, {}
        jobs = ", ".join(self._job_text(job, before) for job in ledger.jobs.values())
        return f'{json.dumps(_around(ledger))[:-1]}, "jobs": [{jobs}]}}'

    def _job_text(self, job: Job, before: dict[str, str]) -> str:
        if not _has_only_waited(job):
            return ENCODE(_plain_job(job))
        text = self._waiting[job.id] = before.get(job.id) or ENCODE(_plain_job(job))
        return text


def restored(taken: dict[str, Any]) -> Ledger:
    ledger = Ledger(Cluster(()))
    ledger.restore_nodes([(node_of(node), here, blocked) for node, here, blocked in taken["nodes"]])
    ledger.submitted = taken["submitted"]
    for tenant, (settled, since_s) in taken["tenants"].items():
        ledger.tenants.restore(tenant, settled, since_s)
    for fields in taken["jobs"]:
        ledger.restore_job(_job(fields))
    for job_id in taken.get("seated", ()):  # in the order they were seated: the newest guest is evicted first
        ledger.seats.take(ledger.jobs[job_id])
    return ledger


def _around(ledger: Ledger) -> dict[str, Any]:
    """All but the jobs."""
    return {
        "nodes": [
            [plain_node(node), here, blocked]
            for node, here, blocked in zip(ledger.nodes, ledger.is_present, ledger.blocked_masks, strict=True)
        ],
        "submitted": ledger.submitted,
        "tenants": ledger.tenants.settled(),
        "seated": list(ledger.seats.seated),
    }


def _has_only_waited(job: Job) -> bool:
    """Since it was submitted, so that nothing about it has changed."""
    is_new = job.is_waiting and not job.generation and not job.is_reordered
    return is_new and job.since_s == job.arrival_s and job.measured is None


def _plain_job(job: Job) -> dict[str, Any]:
    """Fields unchanged since submission are left out: for most jobs of a long queue nearly all."""
    if _has_only_waited(job) and job.best_rate_hz == 1.0:
        return {"spec": plain_spec(job.spec), "tie": job.tie}
    fields = {
        "state": job.state,
        "generation": job.generation,
        "allocation": job.allocation,
        "last_allocation": job.last_allocation,
        "first_start_s": finite(job.first_start_s),
        "lane": job.lane,
        "seating": plain_seating(job.seating) if job.seating else None,
        "measured": [plain(each) if each else None for each in (job.measured, job.alone)],
        "alone_on": job.alone_on,
        "holds": [plain_reason(hold) for hold in job.holds],
        "served_from_s": job.served_from_s if job.served_from_s != job.since_s else None,
        **{name: getattr(job, name) for name in SETTLED},
    }
    changed = {name: value for name, value in fields.items() if value != AT_FIRST[name]}
    if job.since_s == job.arrival_s:
        del changed["since_s"]
    if job.is_reordered:
        changed["arrival_s"] = job.arrival_s
    return {"spec": plain_spec(job.spec), "tie": job.tie, **changed}


def _job(given: dict[str, Any]) -> Job:
    tie_s, serial = given["tie"]
    arrival_s = given.get("arrival_s", tie_s)
    spec = spec_of(given["spec"])
    if len(given) == 2:
        return Job(spec, serial, arrival_s, 1.0)
    fields = {**AT_FIRST, "since_s": arrival_s, **given}
    job = Job(spec, serial, arrival_s, fields["best_rate_hz"])
    job.tie, job.is_reordered = (tie_s, serial), "arrival_s" in given
    job.enter(State(fields["state"]))
    job.generation = fields["generation"]
    job.allocation = allocation_of(fields["allocation"])
    job.last_allocation = allocation_of(fields["last_allocation"])
    job.first_start_s = math.inf if fields["first_start_s"] is None else fields["first_start_s"]
    job.holds = tuple(reason_of(hold) for hold in fields["holds"])
    _restore_sharing(job, fields)
    for name in SETTLED:
        setattr(job, name, fields[name])
    job.served_from_s = job.since_s if fields["served_from_s"] is None else fields["served_from_s"]
    return job


def _restore_sharing(job: Job, fields: dict[str, Any]) -> None:
    job.lane = fields["lane"]
    job.seating = seating_of(fields["seating"]) if fields["seating"] else None
    job.speed = 1.0 if job.is_running else job.seating.speed if job.seating else 0.0
    job.measured, job.alone = (_measured(each) for each in fields["measured"])
    kind, nodes = fields["alone_on"]
    job.alone_on = (kind, nodes)


def _measured(fields: dict[str, Any] | None) -> Measured | None:
    made = fact_of("Measured", fields) if fields else None
    return made if isinstance(made, Measured) else None
