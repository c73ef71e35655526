"""A control state on a real log, and a simulated node: every instant is on disk before the node hears of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.control.api.request_schemas import JobRequest
from weft.control.clock import Mark
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import (
    AttemptReport,
    Cancel,
    Hold,
    Input,
    InstantOutcome,
    NodeConnected,
    NodeDevices,
    PendingRun,
    Release,
    Submit,
    Tick,
)
from weft.control.loop.inputs import Order as SentOrder
from weft.control.loop.job_record import FIRST, JobRecord
from weft.control.loop.writer import Counts
from weft.control.store.log_store import Batch, LogStore
from weft.control.store.replay import load_control_state
from weft.core.snapshot import SnapshotTexts, snapshot
from weft.core.view import Decider
from weft.policies.loader import policies_asked
from weft.protocol import Synced, plain

Order = dict[str, Any]
"""As the node reads it."""

BEGIN = 1_700_000_000.0
MACHINE = "here"
Open = Callable[..., "Office"]
"""How a test opens one."""


def devices(count: int, kind: str = "cpu", **changed: Any) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "kind": "cpu" if kind == "cpu" else "cuda",
            "type": kind,
            "name": f"{kind} {index}",
            "memory_bytes": 8 << 30,
            "cores": [index],
            "blocked_by": None,
            **changed,
        }
        for index in range(count)
    ]


def request(**asked: Any) -> Submit:
    asked.setdefault("command", ["true"])
    asked.setdefault("env", {"HOME": "/home/ada"})
    made = JobRequest(**asked)
    return Submit(made.complete(), made.env or {}, made.request_id)


def batch_of(outcome: InstantOutcome, now: float) -> Batch:
    return Batch(
        Mark(now, "this boot", now),
        outcome.facts,
        outcome.environments,
        list(outcome.rows.values()),
        list(outcome.attempts.values()),
        outcome.requests,
        outcome.settings,
    )


@dataclass
class Attempt:
    """As the node has it."""

    job_id: str
    number: int
    generation: int
    devices: list[int]
    is_started: bool = False
    is_paused: bool = False
    is_stopping: bool = False
    seat: Mapping[str, Any] = field(default_factory=dict)


class Node:
    """Does what it is told at once, and reports it; what it has reported is kept until somebody fetches it."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.last_attempt: dict[str, int] = {}
        self.reports: list[AttemptReport] = []
        self.named: set[str] | None = None
        """After a hello: whom orders have named since."""
        self.leaves = False
        """Whether a pause makes an attempt leave with a checkpoint."""
        self.lingers = False
        """Whether a stop takes a while: until somebody lets the attempt end."""

    def take(self, orders: Iterable[Order]) -> None:
        for order in orders:
            if order["type"] == "synced":
                for job_id in set(self.attempts) - (self.named or set()):
                    self.gone(job_id)  # fenced
                self.named = None
                continue
            if self.named is not None:
                self.named.add(order["job"])
            TAKERS[order["type"]](self, order)

    def hello(self) -> None:
        self.named = set()

    def _run(self, order: Order) -> None:
        job_id, number = order["job"], order["attempt"]
        assert order["devices"], f"{order} without devices"
        assert len(order["devices"]) == order["launch"]["tasks"] * order["launch"]["devices_per_task"]
        here = self.attempts.get(job_id)
        if here is None:
            if number <= self.last_attempt.get(job_id, 0):
                return  # it is over, and has been reported
            assert number == self.last_attempt.get(job_id, 0) + 1, f"{order} after {self.last_attempt.get(job_id)}"
            here = self.attempts[job_id] = Attempt(job_id, number, 0, [])
            self.last_attempt[job_id] = number
        assert here.number == number, f"{order}, but attempt {here.number} is alive"
        assert not here.is_stopping, f"{order}, but it was told to stop"
        if order["generation"] < here.generation:
            return
        here.generation, here.devices = order["generation"], order["devices"]
        here.seat = order.get("seat", {})
        if not here.is_started:
            here.is_started = True
            self.say(job_id, "started", pids=[4711])
        elif here.is_paused:
            here.is_paused = False
            self.say(job_id, "resumed", devices=here.devices)

    def _pause(self, order: Order) -> None:
        here = self.attempts.get(order["job"])
        if here is None or here.number != order["attempt"] or order["generation"] < here.generation or here.is_paused:
            return
        assert not here.is_stopping, f"{order}, but it was told to stop"
        here.generation = order["generation"]
        if self.leaves:
            self.leave(here.job_id)
        else:
            here.is_paused = True
            self.say(here.job_id, "paused", how="boundary", depth="gate", step=7, waited_s=0.25, reason="")

    def _stop(self, order: Order) -> None:
        job_id, number = order["job"], order["attempt"]
        here = self.attempts.get(job_id)
        if here is not None:
            assert here.number == number, f"{order}, but attempt {here.number} is alive"
            assert order["generation"] >= here.generation, f"{order} would be dropped"
            here.is_stopping = True
            if not self.lingers:
                self.end(job_id, exit_code=143)
        elif number > self.last_attempt.get(job_id, 0):  # else it is over, and has been reported
            self.last_attempt[job_id] = number
            self.reports.append(AttemptReport(job_id, number, "lost", {"message": "nothing of it is on this node"}))

    def gone(self, job_id: str) -> Attempt:
        return self.attempts.pop(job_id)

    def say(self, job_id: str, what: str, **body: Any) -> None:
        self.reports.append(AttemptReport(job_id, self.attempts[job_id].number, what, body))

    def end(self, job_id: str, exit_code: int = 0, message: str = "") -> None:
        self.say(job_id, "ended", exit_code=exit_code, message=message)
        self.gone(job_id)

    def lose(self, job_id: str, message: str = "its shepherd was killed") -> None:
        self.say(job_id, "lost", message=message)
        self.gone(job_id)

    def leave(self, job_id: str, step: int = 40) -> None:
        """Checkpointed, and gone."""
        self.say(job_id, "left", step=step, waited_s=0.5)
        self.gone(job_id)


TAKERS: Mapping[str, Callable[[Node, Order], None]] = {"run": Node._run, "pause": Node._pause, "stop": Node._stop}


class Office:
    def __init__(self, folder: Path, policy: str | Callable[[], Decider] = "fifo", **quotas: int) -> None:
        self.new_policy = policies_asked(policy)[0].build if isinstance(policy, str) else policy
        self.quotas = quotas
        self.store = LogStore(folder / "weft.db")
        self.store._db.execute("PRAGMA synchronous = OFF")  # nobody pulls the plug here, and it is much quicker
        self.now = BEGIN
        self.boot_id = "a boot"
        self.node = Node()
        self.last_seq = 0
        self.snapshots = SnapshotTexts()
        self.control = self.loaded()

    def loaded(self) -> ControlState:
        return load_control_state(self.store, self.new_policy(), self.quotas)

    def instant(self, *inputs: Input, after_s: float = 1.0) -> InstantOutcome:
        """Decided, on disk, and told to the node."""
        self.now += after_s
        outcome = self.control.handle(inputs, self.now)
        self.last_seq = self.store.commit(batch_of(outcome, self.now))
        outcome.orders = [on_the_wire(order) for order in outcome.orders]  # type: ignore[misc]
        self.node.take(outcome.orders)  # type: ignore[arg-type]
        return outcome

    def ask(self, wish: Input, after_s: float = 1.0) -> Any:
        (answer,) = self.instant(wish, after_s=after_s).answers
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hello(self, found: list[dict[str, Any]]) -> InstantOutcome:
        self.node.hello()
        return self.instant(NodeConnected(MACHINE, found, self.boot_id))

    def reboot(self, found: list[dict[str, Any]]) -> InstantOutcome:
        """The machine is started anew: of what ran there is nothing left."""
        self.boot_id += " again"
        self.node.attempts.clear()
        return self.hello(found)

    def hear(self, after_s: float = 1.0) -> list[Order]:
        """Take in all that the node has to say, until it falls silent; the orders that this brought."""
        orders: list[Order] = []
        while self.node.reports:
            reports, self.node.reports = self.node.reports, []
            orders += self.instant(*reports, after_s=after_s).orders
        return orders

    def submit(self, **asked: Any) -> list[str]:
        """Submitted, and as far as it goes at once: started."""
        ids: list[str] = self.ask(request(**asked))["ids"]
        self.hear()
        return ids

    def end(self, job_id: str, exit_code: int = 0, after_s: float = 1.0, message: str = "") -> list[Order]:
        self.node.end(job_id, exit_code, message)
        return self.hear(after_s)

    def lose(self, job_id: str) -> list[Order]:
        self.node.lose(job_id)
        return self.hear()

    def cancel(self, job_id: str) -> list[str]:
        ids: list[str] = self.ask(Cancel(job_id))["ids"]
        return ids

    def hold(self, job_id: str) -> list[str]:
        ids: list[str] = self.ask(Hold(job_id))["ids"]
        return ids

    def release(self, job_id: str) -> list[str]:
        ids: list[str] = self.ask(Release(job_id))["ids"]
        self.hear()
        return ids

    def wait(self, after_s: float) -> list[Order]:
        orders = self.instant(Tick(), after_s=after_s).orders
        return orders + self.hear(0.0)

    def tell_devices(self, found: list[dict[str, Any]]) -> InstantOutcome:
        return self.instant(NodeDevices(found))

    def restart(self) -> None:
        self.control = self.loaded()
        self.control.scheduler.ledger.validate()

    # ---- what is so

    def row(self, job_id: str) -> dict[str, Any]:
        row = self.store.one("job", job_id)
        assert row is not None, f"job {job_id} is not on disk"
        return row

    def states(self) -> dict[str, str]:
        """Of all jobs there have been, live ones as the live control state has them."""
        ended = {row["id"]: row["state"] for row in self.store.all("ended_before", None, None, 1_000_000)}
        live = {job_id: str(self.control.job_state(job_id)) for job_id in self.control.records}
        assert not ended.keys() & live.keys()
        return dict(sorted((ended | live).items()))

    def running(self) -> set[str]:
        return {job_id for job_id, state in self.states().items() if state == "RUNNING"}

    def reason(self, job_id: str) -> str:
        return str(self.control.scheduler.reason(job_id, self.now) or "")

    def take_snapshot(self, keep_s: float = 30 * 86_400.0) -> None:
        """As the writer does between two instants."""
        text = self.snapshots.text(self.control.scheduler.ledger)
        self.store.put_snapshot(self.last_seq, self.now, text, self.now - keep_s)
        self.control.live_jobs.environments = {row["digest"]: row["id"] for row in self.store.all("environments")}

    def check_disk(self) -> None:
        """What is on disk is what the live control state knows, in all that is to last."""
        self.control.scheduler.ledger.validate()
        again = self.loaded()
        again.scheduler.ledger.validate()
        taken = snapshot(self.control.scheduler.ledger)
        assert json.loads(json.dumps(snapshot(again.scheduler.ledger))) == json.loads(json.dumps(taken))
        assert json.loads(self.snapshots.text(self.control.scheduler.ledger)) == json.loads(json.dumps(taken))
        assert lasting(again) == lasting(self.control)
        self.check_indexes()

    def check_indexes(self) -> None:
        """What is kept beside the records is what a look at each of them tells."""
        control = self.control
        assert [record.key for record in control.live_jobs.after(FIRST)] == sorted(
            each.key for each in control.records.values()
        )
        assert control.live_jobs.alive == {record.id: record for record in control.records.values() if record.is_alive}
        live = Counter(str(control.job_state(job_id)) for job_id in control.records)
        ended = {row["state"]: row["jobs"] for row in self.store.all("counts")}
        assert Counts(self.store, control).all == {**ended, **live}


def lasting(control: ControlState) -> dict[str, Any]:
    """All that a restart must bring back."""
    return {
        "records": {record.id: _lasting(record) for record in control.records.values()},
        "states": {job_id: control.job_state(job_id) for job_id in control.records},
        "environments": control.live_jobs.environments,
        "number": control.live_jobs.last_number,
        "floor": control.inventory.plain(),
        "arrays": control.live_jobs.arrays,
        "dependents": {
            job_id: live
            for job_id, numbers in control.live_jobs.dependents.items()
            if (live := numbers & {record.number for record in control.records.values()})
        },
        "backing off": sorted(control.live_jobs.backing_off),
        "stopping": sorted(control.live_jobs.stopping),
        "boot": control.boot_id,
    }


def _lasting(record: JobRecord) -> dict[str, Any]:
    passing = ("pids", "metrics", "host_bytes")
    ours = {name: getattr(record, name) for name in JobRecord.__slots__ if name not in passing}
    if not record.is_alive:
        for name in ("devices", "lane_base", "lane_weight", "granted_at", "attempt_started_at"):
            del ours[name]  # of the attempt before, which nobody asks for
    return {**ours, "request": json.loads(json.dumps(record.request))}


def on_the_wire(order: SentOrder) -> Order:
    """An order as the node reads it, but for what is put in when it is sent: of that, the number of its environment."""
    if isinstance(order, PendingRun):
        return {**plain(order.run), "environment": order.environment}
    return {"type": "synced"} if isinstance(order, Synced) else plain(order)


def kinds(orders: Iterable[Order]) -> list[tuple[str, str, int]]:
    """What is ordered, of whom, and which attempt."""
    return [(order["type"], order["job"], order["attempt"]) for order in orders if order["type"] != "synced"]
