"""Load the control state from disk: the last snapshot, and the facts since. Nothing is decided anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from weft.control.loop.control_state import ControlState, JobHistory
from weft.control.loop.inventory import inventory_of
from weft.control.loop.job_record import JobRecord, record_of
from weft.control.loop.job_state import Loss
from weft.control.loop.live_jobs import LiveJobs
from weft.control.store.log_store import INVENTORY_SETTING, LogStore
from weft.core.commands import Preempt, Seat, Start, Unseat
from weft.core.ledger import Ledger
from weft.core.scheduler import Scheduler
from weft.core.serialization import KINDS, fact_of
from weft.core.snapshot import restored
from weft.core.values import Cluster
from weft.core.view import Decider

SAMPLES = 10_000
"""So many of the last jobs are shown to a policy that learns from those that ended."""
REQUESTS = 10_000
"""So many different ones are kept in mind while jobs are loaded."""
NAMESAKES = 20
"""So many of the last jobs of a name tell how fast it is on each device type."""


def load_control_state(
    store: LogStore, policy: Decider, quotas: Mapping[str, int], startup_s: float = 0.0
) -> ControlState:
    snapshot = store.last_snapshot()
    ledger = restored(snapshot[2]) if snapshot else Ledger(Cluster(()))
    scheduler = Scheduler(ledger, policy)
    for at, kind, body in store.log_after(snapshot[0] if snapshot else 0):
        if kind not in KINDS:
            continue
        fact = fact_of(kind, body)
        if isinstance(fact, Start | Preempt | Seat | Unseat):
            scheduler.repeat(fact, at)
        else:
            scheduler.record([fact], at)
    ledger.reorder()
    ledger.changes.clear()
    ledger.tenants.quotas = dict(quotas)
    inventory = inventory_of(store.setting(INVENTORY_SETTING))
    inventory.describe(ledger)
    recall(store, policy)
    attempts = {row["job"]: row for row in store.all("live_attempts")}
    parse = lru_cache(REQUESTS)(json.loads)  # elements of an array, and jobs submitted alike, share one
    records = [record_of(row, attempts.get(row[0]), parse) for row in store.rows("live_jobs")]
    for record in records:
        if record.losses:
            record.loss = _last_loss(store, record)
    live_jobs = LiveJobs(records, _number(store), {row["digest"]: row["id"] for row in store.all("environments")})
    live_jobs.find_awaited()
    past = JobHistory(
        known=lambda wanted: known(store, wanted),
        number_of=lambda request_id: _first(store.one("request", request_id)),
        rates_hz=lambda name: _rates_hz(store, name),
    )
    return ControlState(
        scheduler,
        past,
        live_jobs,
        inventory,
        quotas,
        store.setting("boot id") or "",
        startup_s,
        settling={(record.id, record.attempt) for record in live_jobs.alive.values()},
    )


def recall(store: LogStore, policy: Decider) -> None:
    """Tell a policy that learns how much service the jobs before its time needed."""
    learn_from = getattr(policy, "recall", None)
    if learn_from:
        learn_from([row["service"] for row in store.all("services", SAMPLES)])


def known(store: LogStore, wanted: str) -> Sequence[tuple[str, str]]:
    """The jobs that an id or an array's number stands for, with their states."""
    row = store.one("job", wanted)
    if row is not None:
        return [(row["id"], row["state"])]
    if not wanted.isdecimal() or len(wanted) > 18 or wanted.startswith("0"):
        return []
    return [(each["id"], each["state"]) for each in store.all("elements", int(wanted))]


def _last_loss(store: LogStore, record: JobRecord) -> Loss | None:
    row = store.one("last_loss", record.id)
    if row is None:  # a log that was repaired may lack it
        return None
    body = json.loads(row["body"])
    return Loss(body["attempt"], row["at"], body.get("message", ""), body.get("checkpoint_step", 0))


def _rates_hz(store: LogStore, name: str) -> dict[str, float]:
    """Steps a second of the last job of this name that succeeded, on each type.

    On a type that none of them had to itself, as many as the last of all made: nothing says that it is better there.
    """
    inventory = inventory_of(store.setting(INVENTORY_SETTING))
    kinds = {inventory.name(device): str(device["type"]) for device in inventory.devices}
    found = dict[str, float]()
    last_hz: float | None = None
    for row in store.all("namesakes", name, NAMESAKES):
        if row["steps"] and row["run_s"]:
            rate_hz = row["steps"] / row["run_s"]
            last_hz = last_hz or rate_hz
            ran_on = {kinds.get(device) for devices in json.loads(row["devices"]) for device in devices}
            if len(ran_on) == 1:
                found.setdefault(ran_on.pop() or "", rate_hz)
    return {node.device_type: found.get(node.device_type, last_hz) for node in inventory.nodes} if last_hz else {}


def _number(store: LogStore) -> int:
    row = store.one("last_number")
    return int(row["number"]) if row else 0


def _first(row: Any) -> int | None:
    return None if row is None else int(row["number"])
