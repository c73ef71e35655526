"""What the control plane makes of each instant: words of people and nodes in, facts, orders and answers out.

It has no clock, no file and no socket. The daemon makes the outcome durable and only then answers and sends; if that
fails, it forgets this desk and makes a new one from what is on disk.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from weft.control.ending import ending_of
from weft.control.floor import Floor
from weft.control.inputs import (
    Cancel,
    ChangePolicy,
    Devices,
    Hello,
    Hold,
    Input,
    Release,
    Report,
    StopAll,
    Submit,
    Tick,
)
from weft.control.orders import Order, pause_order, run_order, stop_order
from weft.control.record import IN_WORDS, Ending, Phase, Record, State, spec_for
from weft.control.refusals import already_over, check_fits, no_such_job, not_waiting
from weft.control.store import Fact
from weft.core.commands import Command, Preempt, Start, Stop, WakeAt
from weft.core.errors import InputError, WeftError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Held,
    Lost,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Submitted,
    Woken,
)
from weft.core.plain import plain
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.values import EPSILON_S

CANCELLED = "cancelled"
REBOOTED = "the machine was started anew"
STOPPED = "ended by weft down --stop-jobs"
TIMED_OUT = "ran past its limit of {0:g} s"
Known = Callable[[str], Sequence[tuple[str, str]]]
"""The jobs that an id or an array's number stands for, ended ones too: each with its id and state."""


@dataclass
class Outcome:
    """What is to be written, then done, then answered."""

    facts: list[Fact] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    environments: list[tuple[int, str, str]] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    """One for each input: what to say, or a WeftError."""


class Desk:
    def __init__(
        self,
        scheduler: Scheduler,
        *,
        known: Known,
        records: Iterable[Record] = (),
        floor: Floor | None = None,
        last_number: int = 0,
        environments: Mapping[str, int] | None = None,
        requests: Callable[[str], int | None] = lambda request_id: None,
        rates: Callable[[str], Mapping[str, float]] = lambda name: {},
        quotas: Mapping[str, int] | None = None,
        boot_id: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.records: dict[str, Record] = {record.id: record for record in records}
        self.floor = floor or Floor()
        self.policy_error = ""
        self.wake_at = math.inf
        self.version = 0
        """Rises with every instant: whoever waits for a change looks again."""
        self._known = known
        self._requests = requests
        self._rates = rates
        self._quotas = quotas or {}
        self._boot_id = boot_id
        """Of the node, when it last said hello."""
        self._last_number = last_number
        self.environments = dict(environments or {})
        self._arrays: dict[int, dict[str, None]] = {}
        """Of each array, its live elements in order."""
        self._dependents: dict[str, set[str]] = {}
        self._is_closing = False
        """After `StopAll`: whoever waits goes on waiting, until the next start."""
        self._backing_off: dict[str, Record] = {}
        self._stopping: dict[str, Record] = {}
        self._out = Outcome()
        self._tell_all = False
        self._touched: dict[str, None] = {}
        for record in self.records.values():
            self._index(record)

    # ---- one instant

    def handle(self, inputs: Sequence[Input], now: float) -> Outcome:
        """All inputs of one instant, words of nodes first, then one decision."""
        self._out = out = Outcome(answers=[None] * len(inputs))
        self._touched = {}
        for at in sorted(range(len(inputs)), key=lambda at: not isinstance(inputs[at], Report)):
            try:
                out.answers[at] = HANDLERS[type(inputs[at])](self, inputs[at], now)
            except WeftError as error:
                out.answers[at] = error
        self._watch_time(now)
        if not self._is_closing:
            self._block(now)
            self._decide(now)
        self._hold_stopping(now)
        if self._tell_all:
            out.orders, self._tell_all = [*self._all_orders(), {"type": "synced"}], False
        for job_id in self._touched:
            if job_id in self.records:
                out.rows[job_id] = self.records[job_id].row(self.state(job_id), run_s=self._run_s(job_id, now))
        self.version += 1
        return out

    @property
    def is_stopping(self) -> bool:
        """Somebody was told to end, and has not ended yet."""
        return bool(self._stopping)

    def state(self, job_id: str) -> State:
        """Of a live job."""
        record, job = self.records[job_id], self.scheduler.ledger.jobs[job_id]
        if job.is_running:
            return State.RUNNING
        return State.PAUSED if record.is_alive else State.PENDING

    def next_time(self, now: float) -> float:
        """When to come again though nothing happens."""
        releases = [record.not_before or 0.0 for record in self._backing_off.values()]
        limits = [
            now + limit_s - job.run_s(now)
            for job in self.scheduler.ledger.running.values()
            if (limit_s := self.records[job.id].limit_s) is not None and not self.records[job.id].ending
        ]
        return min([self.wake_at, *releases, *limits])

    def _all_orders(self) -> list[Order]:
        jobs = self.scheduler.ledger.jobs
        alive = [record for record in self.records.values() if record.is_alive]
        stops = [stop_order(record, jobs[record.id].generation) for record in alive if record.ending]
        others = [record for record in alive if not record.ending]
        runs = [self._run(record) for record in others if jobs[record.id].is_running]
        pauses = [
            pause_order(record, jobs[record.id].generation, None) for record in others if not jobs[record.id].is_running
        ]
        return stops + pauses + runs

    # ---- people

    def _submit(self, wish: Submit, now: float) -> dict[str, Any]:
        if wish.request_id is not None:
            number = self._requests(wish.request_id)
            number = number if number is not None else dict(self._out.requests).get(wish.request_id)
            if number is not None:
                ids = [job_id for job_id, _ in self._known(str(number))] or self._live_or_none(str(number))
                return {"id": str(number), "ids": ids}
        request = dict(wish.request)
        check_fits(request, self.floor, self._quotas)
        awaits = self._awaited(request.get("after") or ())
        indices = request.pop("array_indices", None) or [None]
        request["awaits"] = sorted(awaits)
        self._last_number += 1
        number = self._last_number
        rate_hz = self._rates(request["name"]) if request.get("steps") else {}
        environment = self._environment(wish.env)
        ids = []
        for place, index in enumerate(indices):
            job_id = str(number) if index is None else f"{number}_{index}"
            record = Record(job_id, number, index, request, environment, now, awaits=set(awaits))
            self.records[job_id] = record
            self._index(record)
            self._tell(Submitted(spec_for(job_id, request, rate_hz)), now)
            if request.get("hold"):
                self._tell(Held(job_id), now)
            if awaits:
                self._tell(Held(job_id, Reason(Code.COMES_AFTER, (", ".join(sorted(awaits)),))), now)
            if record.array_limit is not None and place >= record.array_limit:
                self._tell(Held(job_id, Reason(Code.ARRAY_LIMIT, (record.array_limit,))), now)
            ids.append(job_id)
        if wish.request_id is not None:
            self._out.requests.append((wish.request_id, number))
        return {"id": str(number), "ids": ids}

    def _cancel(self, wish: Cancel, now: float) -> dict[str, Any]:
        ids = self._live(wish.job_id)
        for job_id in ids:
            if job_id in self.records:  # not yet cancelled along with one it comes after
                self._end(self.records[job_id], Ending(State.CANCELLED, CANCELLED), now)
        return {"ids": ids}

    def _hold(self, wish: Hold, now: float) -> dict[str, Any]:
        live = self._live(wish.job_id)
        ids = [job_id for job_id in live if not self.scheduler.ledger.jobs[job_id].is_running]
        if not ids:
            raise not_waiting(live[0])
        for job_id in ids:
            self._tell(Held(job_id), now)
        return {"ids": ids}

    def _release(self, wish: Release, now: float) -> dict[str, Any]:
        jobs = self.scheduler.ledger.jobs
        ids = [job_id for job_id in self._live(wish.job_id) if Code.HELD in {hold.code for hold in jobs[job_id].holds}]
        for job_id in ids:
            self._tell(Released(job_id), now)
        return {"ids": ids}

    def _stop_all(self, wish: StopAll, now: float) -> dict[str, Any]:
        ids = [record.id for record in self.records.values() if record.is_alive]
        for job_id in ids:
            if job_id in self.records:
                self._end(self.records[job_id], Ending(State.CANCELLED, STOPPED), now)
        self._is_closing = True
        return {"ids": ids}

    def _change_policy(self, wish: ChangePolicy, now: float) -> dict[str, Any]:
        self.scheduler.change_policy(wish.policy)
        self.wake_at = math.inf
        self.policy_error = ""
        self._out.facts.append(Fact("PolicyChanged", None, {"policy": wish.name}))
        self._out.settings.append(("policy", wish.name))
        return {"policy": wish.name}

    # ---- nodes

    def _hello(self, word: Hello, now: float) -> None:
        """It may have forgotten everything, and is told everything, with what this instant brings."""
        self._tell_all = True
        if word.boot_id != self._boot_id:
            self._out.settings.append(("boot id", word.boot_id))
            for record in [record for record in self.records.values() if record.is_alive and self._boot_id]:
                self._report(Report(record.id, record.attempt, "lost", {"message": REBOOTED}), now)
            self._boot_id = word.boot_id
        self._furnish(Floor(word.node, word.devices), now)

    def _devices(self, word: Devices, now: float) -> None:
        self._furnish(Floor(self.floor.machine, word.devices), now)

    def _furnish(self, floor: Floor, now: float) -> None:
        before, self.floor = self.floor, floor
        if not before.is_same_hardware(floor):
            self._tell_all = True  # who ran may have lost its devices, or have others now
            self._touched |= dict.fromkeys(self.scheduler.ledger.running)
            for node in before.nodes:
                self._tell(NodeLost(node.name), now)
            for node in floor.nodes:
                self._tell(NodeJoined(node), now)
        self._out.settings.append(("floor", json.dumps(self.floor.plain())))

    def _block(self, now: float) -> None:
        ledger = self.scheduler.ledger
        for name, mask in self.floor.blocked_masks().items():
            at = next(i for i, node in enumerate(ledger.nodes) if node.name == name and ledger.is_present[i])
            if mask & (ledger.free_masks[at] | ledger.blocked_masks[at]) != ledger.blocked_masks[at]:
                self._tell(DevicesBlocked(name, mask), now)

    def _report(self, word: Report, now: float) -> None:
        record = self.records.get(word.job_id)
        if record is None or not record.is_alive or record.attempt != word.attempt:
            return  # late, or said twice
        body = {key: value for key, value in word.body.items() if key != "progress"}
        self._out.facts.append(Fact("Reported", record.id, {"what": word.what, "attempt": word.attempt, **body}))
        self._touched[record.id] = None
        match word.what:
            case "started":
                record.phase, record.pids = Phase.RUNNING, tuple(word.body.get("pids", ()))
                record.attempt_started_at = record.attempt_started_at or now
                record.started_at = record.started_at or now
                self._out.attempts[record.id, record.attempt] = record.attempt_row()
            case "resumed":
                record.phase = Phase.RUNNING
            case "paused":
                record.phase = Phase.PAUSED
                self._progress(record, int(word.body["step"]), now)
            case "left" if record.ending is None:
                self._progress(record, int(word.body["step"]), now)
                self._gone(record, "left", None, now)
                if self.scheduler.ledger.jobs[record.id].is_running:
                    self._launch(record, now)
            case "ended" | "lost" | "left":
                self._ended(record, word, now)

    def _ended(self, record: Record, word: Report, now: float) -> None:
        exit_code = word.body.get("exit_code")
        record.note(word.body.get("progress") or {})
        self._gone(record, word.what, exit_code, now)
        if record.ending is not None:
            self._end(record, record.ending, now)
            return
        job = self.scheduler.ledger.jobs[record.id]
        ending = ending_of(record, word.what, exit_code, str(word.body.get("message", "")))
        if ending.retry_in_s is None:
            self._end(record, ending, now)
        else:
            record.failures += word.what == "ended"
            record.losses += word.what == "lost"
            self._tell(Lost(record.id, job.generation), now)
            details = (record.attempt, ending.reason, f"{ending.retry_in_s:g}")
            self._tell(Held(record.id, Reason(Code.BACKING_OFF, details)), now)
            record.not_before = now + ending.retry_in_s
            self._backing_off[record.id] = record

    def _progress(self, record: Record, step: int, now: float) -> None:
        record.steps = step or record.steps  # an attempt that was paused before it began has made none
        if step and record.request.get("steps"):
            self._tell(Progressed(record.id, self.scheduler.ledger.jobs[record.id].generation, float(step)), now)

    def _gone(self, record: Record, outcome: str, exit_code: int | None, now: float) -> None:
        record.is_alive, record.phase, record.pids = False, Phase.NONE, ()
        row = record.attempt_row(ended_at=now, outcome=outcome, exit_code=exit_code)
        self._out.attempts[record.id, record.attempt] = row

    # ---- time

    def _tick(self, word: Tick, now: float) -> None:
        """What has come due is looked at in every instant."""

    def _watch_time(self, now: float) -> None:
        if now + EPSILON_S >= self.wake_at:
            self._tell(Woken(), now)
            self.wake_at = math.inf
        for record in list(self._backing_off.values()):
            if record.not_before is not None and now + EPSILON_S >= record.not_before:
                record.not_before = None
                del self._backing_off[record.id]
                self._tell(Released(record.id, Code.BACKING_OFF), now)
        for job in list(self.scheduler.ledger.running.values()):
            runner = self.records.get(job.id)
            if (
                runner
                and not runner.ending
                and runner.limit_s is not None
                and job.run_s(now) + EPSILON_S >= runner.limit_s
            ):
                self._end(runner, Ending(State.FAILED, TIMED_OUT.format(runner.limit_s)), now)

    # ---- the decision

    def _decide(self, now: float) -> None:
        try:
            commands = self.scheduler.decide(now)
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's; what happened must be written all the same
            self.policy_error = f"{type(error).__name__}: {error}"
            return
        self.policy_error = ""
        starts = [command for command in commands if isinstance(command, Start)]
        for command in commands:
            self._carry_out(command, starts, now)

    def _carry_out(self, command: Command, starts: Sequence[Start], now: float) -> None:
        match command:
            case WakeAt(time_s):
                self.wake_at = time_s
                return
            case Stop():
                return  # who cancels has seen to that
            case Preempt():
                record = self.records[command.job_id]
                if not record.ending:
                    record.preemptions += 1
                    record.phase = Phase.PAUSING
                    freed = self.scheduler.ledger.jobs[record.id].last_allocation
                    self._out.orders.append(pause_order(record, command.generation, self._needed(freed, starts)))
            case Start():
                record = self.records[command.job_id]
                record.devices = tuple(map(self.floor.name, self.floor.held(self.scheduler.ledger, command.allocation)))
                if record.is_alive:
                    self._out.attempts[record.id, record.attempt] = record.attempt_row()
                    self._out.orders += [] if record.ending else [self._run(record)]
                else:
                    self._launch(record, now)
        self._out.facts.append(Fact(type(command).__name__, command.job_id, plain(command)))
        self._touched[command.job_id] = None

    def _needed(self, freed: Sequence[tuple[int, int]], starts: Sequence[Start]) -> int | None:
        """The memory that those who get these devices have declared; None if one of them has not."""
        total = 0
        for start in starts:
            if any(node == other and mask & theirs for node, mask in freed for other, theirs in start.allocation):
                declared = self.scheduler.ledger.jobs[start.job_id].spec.memory_bytes
                if declared is None:
                    return None
                total += declared
        return total

    def _launch(self, record: Record, now: float) -> None:
        record.attempt += 1
        record.is_alive, record.phase = True, Phase.STARTING
        record.granted_at, record.attempt_started_at = now, None
        self._out.attempts[record.id, record.attempt] = record.attempt_row()
        self._out.orders.append(self._run(record))

    def _run(self, record: Record) -> Order:
        job = self.scheduler.ledger.jobs[record.id]
        return run_order(record, job.generation, self.floor.held(self.scheduler.ledger, job.allocation))

    # ---- ends

    def _end(self, record: Record, ending: Ending, now: float) -> None:
        """The job is over, and with it all that were to come after it, if it has not succeeded."""
        over = deque([(record, ending)])
        while over:
            one, how = over.popleft()
            if one.is_alive:
                self._stop(one, how, now)
            elif one.id in self.records:
                self._end_one(one, how, now)
                over += self._tell_dependents(one, how, now)

    def _stop(self, record: Record, ending: Ending, now: float) -> None:
        """It ends so, once its processes are gone; until then it keeps its devices."""
        if record.ending is None:
            record.ending = ending
            self._stopping[record.id] = record
            self._out.facts.append(Fact("Stopping", record.id, {"state": ending.state, "reason": ending.reason}))
            self._out.orders.append(stop_order(record, self.scheduler.ledger.jobs[record.id].generation))
            self._touched[record.id] = None
            self._hold_stopping(now)

    def _hold_stopping(self, now: float) -> None:
        """Who is to end is not started again, if it was paused or has just been preempted."""
        for record in self._stopping.values():
            job = self.scheduler.ledger.jobs[record.id]
            if not job.is_running and Code.ENDING not in {hold.code for hold in job.holds} and record.ending:
                self._tell(Held(record.id, Reason(Code.ENDING, (record.ending.reason,))), now)

    def _end_one(self, record: Record, ending: Ending, now: float) -> None:
        """Who is next in its array is seen to."""
        job = self.scheduler.ledger.jobs[record.id]
        run_s = job.run_s(now)
        if ending.state is State.CANCELLED:
            self._tell(Cancelled(record.id), now)
        else:
            kind = Finished if ending.state is State.SUCCEEDED else Failed
            self._tell(kind(record.id, job.generation), now)
        self._forget(record)
        self._backing_off.pop(record.id, None)
        self._stopping.pop(record.id, None)
        self._touched.pop(record.id, None)
        self._out.rows[record.id] = record.row(
            ending.state, reason=ending.reason, exit_code=ending.exit_code, finished_at=now, run_s=run_s
        )
        self._out.facts.append(Fact("Ended", record.id, {"state": ending.state, "reason": ending.reason}))
        if record.array_limit is not None and Code.ARRAY_LIMIT not in {hold.code for hold in job.holds}:
            self._next_of_array(record.number, now)

    def _next_of_array(self, number: int, now: float) -> None:
        """One of those that its limit had let in is over."""
        elements = self._arrays.get(number, ())
        held = (Code.ARRAY_LIMIT in {hold.code for hold in self.scheduler.ledger.jobs[one].holds} for one in elements)
        following = next((one for one, is_held in zip(elements, held, strict=True) if is_held), None)
        if following is not None:
            self._tell(Released(following, Code.ARRAY_LIMIT), now)

    def _tell_dependents(self, record: Record, ending: Ending, now: float) -> list[tuple[Record, Ending]]:
        """Let those go that only waited for this job; returns those that will never start now."""
        hopeless = []
        for job_id in sorted(self._dependents.pop(record.id, ())):
            dependent = self.records.get(job_id)
            if dependent is None:
                continue
            dependent.awaits.discard(record.id)
            if ending.state is not State.SUCCEEDED:
                why = f"job {record.id}, which it comes after, {IN_WORDS[ending.state]}"
                hopeless.append((dependent, Ending(State.CANCELLED, why)))
            elif not dependent.awaits:
                self._tell(Released(job_id, Code.COMES_AFTER), now)
        return hopeless

    # ---- small things

    def _tell(self, event: Event, now: float) -> None:
        """Record what happened, for good if the instant is made durable."""
        self.scheduler.record([event], now)
        job_id = event.job.id if isinstance(event, Submitted) else getattr(event, "job_id", None)
        self._out.facts.append(Fact(type(event).__name__, job_id, plain(event)))
        if job_id is not None:
            self._touched[job_id] = None

    def _live(self, wanted: str) -> list[str]:
        """The live jobs that an id or an array's number stands for."""
        if wanted in self.records:
            return [wanted]
        elements = self._arrays.get(int(wanted)) if wanted.isdecimal() else None
        if elements:
            return list(elements)
        ended = list(self._states(wanted).items())
        raise already_over(wanted, ended) if ended else no_such_job(wanted)

    def _awaited(self, wanted: Iterable[str]) -> set[str]:
        awaited = set()
        for each in wanted:
            known = self._states(each)
            known.update((job_id, "") for job_id in self._live_or_none(each))
            if not known:
                raise no_such_job(each)
            for job_id, state in known.items():
                if job_id in self.records:
                    awaited.add(job_id)
                elif state != State.SUCCEEDED:
                    raise InputError(
                        f"job {job_id}, which it is to come after, {IN_WORDS[State(state)]}", "it would never start"
                    )
        return awaited

    def _states(self, wanted: str) -> dict[str, str]:
        """The jobs that an id or an array's number stands for, as they are on disk or have ended in this instant."""
        return {
            job_id: self._out.rows[job_id]["state"] if job_id in self._out.rows else state
            for job_id, state in self._known(wanted)
        }

    def _live_or_none(self, wanted: str) -> list[str]:
        try:
            return self._live(wanted)
        except InputError:
            return []

    def _index(self, record: Record) -> None:
        if record.not_before is not None:
            self._backing_off[record.id] = record
        if record.ending is not None:
            self._stopping[record.id] = record
        if record.array_index is not None:
            self._arrays.setdefault(record.number, {})[record.id] = None
        for awaited in record.awaits:
            self._dependents.setdefault(awaited, set()).add(record.id)

    def _forget(self, record: Record) -> None:
        del self.records[record.id]
        if record.array_index is not None:
            elements = self._arrays[record.number]
            del elements[record.id]
            if not elements:
                del self._arrays[record.number]

    def _environment(self, env: Mapping[str, str]) -> int:
        body = json.dumps(dict(env), sort_keys=True)
        digest = sha256(body.encode()).hexdigest()
        if digest not in self.environments:
            self.environments[digest] = max(self.environments.values(), default=0) + 1
            self._out.environments.append((self.environments[digest], digest, body))
        return self.environments[digest]

    def _run_s(self, job_id: str, now: float) -> float:
        return self.scheduler.ledger.jobs[job_id].run_s(now)


HANDLERS: dict[type, Callable[[Desk, Any, float], Any]] = {
    Submit: Desk._submit,
    Cancel: Desk._cancel,
    Hold: Desk._hold,
    Release: Desk._release,
    ChangePolicy: Desk._change_policy,
    StopAll: Desk._stop_all,
    Hello: Desk._hello,
    Devices: Desk._devices,
    Report: Desk._report,
    Tick: Desk._tick,
}
