"""`weft why` and `weft history`: why a job waits, when it may start, and its log in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.control.api.forecast import starts_in_s
from weft.control.api.views import Json, Views, iso, loss_json
from weft.control.loop.control_state import ControlState
from weft.control.loop.job_state import JobState, Loss
from weft.control.loop.requests import OWNERS
from weft.control.store.log_store import LogStore
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.serialization import reason_of
from weft.core.snapshot import snapshot
from weft.core.text import duration_text
from weft.core.view import Decider

HOW = "if jobs take as long as the last of their name, or as the mean of those that ended"
MOST_AHEAD = 10
MOST_DECIDED = 10
MOST_FORECAST = 2_000
"""With more live jobs than this, simulating them all would take longer than a user waits for an answer."""
ENDING_S = 1.0
"""What is being ended is taken to be gone after this."""
VERBS = {JobState.PENDING: "starts", JobState.PAUSED: "goes on", JobState.RUNNING: "has devices of its own"}
"""What a job is waiting to do."""
Forecast = Callable[[], Json]
DECIDED = ("Start", "Preempt", "Seat", "Unseat", "Noted")
"""What a policy says of a job, each time with a reason. What is only noted changes nothing."""
STOPPED = "stopped where it was (no step boundary came)"


def why_live(
    control: ControlState, store: LogStore, views: Views, job_id: str, now: float, policy: Callable[[], Decider]
) -> Json:
    """All but the estimate, which takes a while: instead, a function that makes it while the writer goes on."""
    position = views.position(control, job_id, now)
    ahead_count = (position or 1) - 1
    ahead = views.front(control, min(ahead_count, MOST_AHEAD), now)
    rows = store.all("log_of_job", job_id)
    return {
        "id": job_id,
        "state": control.job_state(job_id),
        "reason": views.reason(control, job_id, now),
        "guest": control.job(job_id).seating is not None,
        "beside": views.beside(control, job_id, now),
        "loss": loss_json(control.records[job_id].present_loss),
        "rule": control.scheduler.rule,
        "ahead": [_job_ahead(control, job, now) for job in ahead],
        "ahead_count": ahead_count,
        "held_by": [
            _job_ahead(control, job, now) for job in list(control.scheduler.ledger.running.values())[:MOST_AHEAD]
        ],
        "estimate": _forecast(control, store, job_id, now, policy)
        if position is not None
        else _none(_why_not_in_line(control, job_id)),
        "preemptions": preemptions(rows),
        "decisions": decisions(rows),
    }


def _why_not_in_line(control: ControlState, job_id: str) -> str:
    if control.records[job_id].ending:
        return "it is being ended"
    if control.job(job_id).held_for & OWNERS:
        return f"weft resume {job_id} lets it go on"
    return "it does not wait in line"


def _job_ahead(control: ControlState, job: Job, now: float) -> Json:
    return {
        "id": job.id,
        "name": control.records[job.id].name,
        "gang_size": job.gang_size,
        "state": control.job_state(job.id),
        "attained_s": round(job.attained(now), 1),
    }


async def with_estimate(answer: Json) -> Json:
    """The answer with its estimate made, and as text."""
    if callable(answer["estimate"]):
        answer = {**answer, "estimate": await asyncio.to_thread(answer["estimate"])}
    return {**answer, "text": in_words(answer)}


def why_ended(row: Mapping[str, Any], store: LogStore) -> Json:
    rows = store.all("log_of_job", row["id"])
    return {
        "id": row["id"],
        "state": row["state"],
        "reason": row["reason"],
        "guest": False,
        "beside": [],
        "loss": None,
        "rule": "",
        "ahead": [],
        "ahead_count": 0,
        "held_by": [],
        "estimate": _none("it is over"),
        "preemptions": preemptions(rows),
        "decisions": decisions(rows),
    }


def in_words(answer: Json) -> list[str]:
    job_id, state = answer["id"], answer["state"]
    lines = [f"{job_id} is {state}{_neighbours(answer)}" + (f": {answer['reason']}" if answer["reason"] else "")]
    if lost := answer.get("loss"):
        lines.append(f"{lost['at']}: {Loss(lost['attempt'], 0.0, lost['message'], lost['step']).in_words()}")
    if answer["ahead_count"]:
        first = ", ".join(f"{job['id']} ({job['name']})" for job in answer["ahead"])
        more = answer["ahead_count"] - len(answer["ahead"])
        lines.append(f"ahead of it: {first}{f' and {more} more' if more else ''}")
    if state in (JobState.PENDING, JobState.PAUSED) or answer.get("guest"):
        holders = [f"{job['id']} ({job['name']}, {duration_text(job['attained_s'])})" for job in answer["held_by"]]
        if holders:
            lines.append(f"devices are held, with so much device-time so far, by: {', '.join(holders)}")
        lines.append(f"the rule: {answer['rule']}")
        lines.append(_estimate_in_words(answer["estimate"], VERBS[state]))
    decided = decided_in_words(answer.get("decisions", ()), answer["preemptions"])
    if len(decided) > MOST_DECIDED:
        lines.append(f"the last {MOST_DECIDED} of {len(decided)} decisions on it; weft history {job_id} has all:")
    return lines + decided[-MOST_DECIDED:]


def _neighbours(answer: Json) -> str:
    others = f" beside {', '.join(answer['beside'])}" if answer.get("beside") else ""
    return f" as a guest{others}, waiting for devices of its own" if answer.get("guest") else others


def _estimate_in_words(estimate: Json, verb: str) -> str:
    starts_in_s, how = estimate["starts_in_s"], estimate["how"]
    if starts_in_s is None:
        return f"when it {verb} cannot be said: {how}"
    return f"it {verb} {'at once' if starts_in_s < 1 else f'in about {duration_text(starts_in_s)}'}, {how}"


def _forecast(
    control: ControlState, store: LogStore, job_id: str, now: float, policy: Callable[[], Decider]
) -> Forecast | Json:
    if len(control.records) > MOST_FORECAST:
        return _none(f"more than {MOST_FORECAST:,} jobs are live")
    mean = store.one("mean_run")
    mean_s = mean["run_s"] if mean else None
    if mean_s is None:
        return _none("no job has succeeded yet to learn from")
    expected: dict[str, float] = {}
    for record in control.records.values():
        namesake = store.one("namesake", record.name)
        expected_s = namesake["run_s"] if namesake else mean_s
        expected[record.id] = min(expected_s, record.limit_s) if record.limit_s else expected_s
        if record.ending:
            expected[record.id] = control.scheduler.ledger.jobs[record.id].held_s(now) + ENDING_S
    taken, like_it, quotas = snapshot(control.scheduler.ledger), policy(), control.quotas

    def estimate() -> Json:
        try:
            in_s = starts_in_s(taken, like_it, now, job_id, expected.get, quotas)
        except Exception as error:  # noqa: BLE001 - a policy may be the user's own
            return _none(f"its policy fails: {type(error).__name__}: {error}")
        return _none(f"it never does, {HOW}") if in_s is None else {"starts_in_s": round(in_s, 1), "how": HOW}

    return estimate


def _none(how: str) -> Json:
    return {"starts_in_s": None, "how": how}


def decisions(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """All that was decided about a job, in order; by its node, too."""
    found = []
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] in DECIDED:
            found.append({"at": iso(row["at"]), "what": row["kind"], "reason": str(reason_of(body["reason"]))})
        elif row["kind"] == "Reported" and body["what"] == "held-back":
            found.append({"at": iso(row["at"]), "what": "HeldBack", "reason": _held_back_in_words(body)})
    return found


def preemptions(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Each with why it was chosen and what it cost: the wait for a boundary, and the time until it went on."""
    found: list[Json] = []
    last: Json | None = None
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] == "Preempt":
            reason = reason_of(body["reason"])
            by = str(reason.details[0]) if reason.details else ""
            last = {"at": iso(row["at"]), "by": by, "reason": str(reason), "at_s": row["at"], "paused_s": None}
            found.append(last)
        elif row["kind"] == "Unseat":
            last = None  # the next pause is a guest's
        elif last is None:
            continue
        elif row["kind"] == "Reported" and body["what"] in ("paused", "left"):
            last["depth"] = body.get("depth", "checkpoint")
            last.update({key: body.get(key) for key in ("waited_s", "step", "how", "held_bytes")})
        elif row["kind"] in ("Start", "Seat") and last["paused_s"] is None:
            last["paused_s"] = round(row["at"] - last["at_s"], 3)
    for each in found:
        del each["at_s"]
    return found


def decided_in_words(decided: Sequence[Json], preempted: Sequence[Json]) -> list[str]:
    """A line for each, in order; of a preemption, with what it cost."""
    told = [(one["at"], _preemption_in_words(one)) for one in preempted]
    told += [(one["at"], f"{one['at']}: {one['reason']}") for one in decided if one["what"] != "Preempt"]
    return [line for _, line in sorted(told, key=lambda each: str(each[0]))]


def _preemption_in_words(one: Json) -> str:
    text = f"{one['at']}: {one['reason']}"
    if one.get("depth"):
        waited = f"after {1000 * (one['waited_s'] or 0):.0f} ms"
        at = f"paused at step {one['step']} (depth {one['depth']}) {waited}"
        text += f"; {f'{STOPPED} {waited}' if one.get('how') == 'stopped' else at}"
        text += f", holding {one['held_bytes'] / 2**20:.0f} MiB" if one.get("held_bytes") else ""
    return text + (f", went on after {duration_text(one['paused_s'])}" if one["paused_s"] is not None else "")


def events(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Its history, in order. An attempt begins once: each coordinator that comes after finds it, and says so."""
    found, begun = [], set[int]()
    for row in rows:
        body = json.loads(row["body"])
        text = event_in_words(row["kind"], body)
        if row["kind"] == "Reported" and body["what"] == "started":
            text = text if body["attempt"] not in begun else "found by a new coordinator, and adopted"
            begun.add(body["attempt"])
        if text:
            found.append({"at": iso(row["at"]), "what": row["kind"], "text": text})
    return found


def event_in_words(kind: str, body: Json) -> str | None:
    """One line of a job's history; None for entries that are not shown."""
    if kind in DECIDED:
        return str(reason_of(body["reason"]))
    match kind:
        case "Submitted":
            return "submitted"
        case "Stepped":
            return "made its first step"
        case "Measured":
            beside = f"beside {', '.join(body['neighbours'])}" if body["neighbours"] else "alone"
            return f"measured: {body['rate_hz']:.3g} steps a second {beside}{_compared_in_words(body)}"
        case "Grown":
            needs_bytes = body["persistent_bytes"] + body["ephemeral_bytes"]
            return f"measured: it needs {needs_bytes / 2**20:.0f} MiB of a device by now"
        case "Held":
            reason = reason_of(body["reason"])
            if reason.code is Code.PAUSED:  # that it is paused is said by what follows from it
                return "its owner asked for a pause"
            return None if reason.code is Code.ENDING else f"{reason}"
        case "Released":
            return "resumed by its owner" if body.get("code") == Code.PAUSED else "released"
        case "Stopping":
            return f"{Reason(Code.ENDING, (body['reason'],))}"
        case "Ended":
            state = body["state"].lower()
            return f"{state}: {body['reason']}" if body["reason"] not in (None, "", state) else state
        case "Reported":
            return _report_in_words(body)
    return None


def _compared_in_words(body: Json) -> str:
    """With how sure that is. Logs of earlier versions know no comparison."""
    alone_hz, error = body.get("alone_hz"), body.get("error")
    if not alone_hz or error is None:
        return ""
    return f", against {alone_hz:.3g} alone in the same window ({body['rate_hz'] / alone_hz:.0%} ± {error:.0%})"


def _report_in_words(body: Json) -> str:
    match body["what"]:
        case "started":
            return f"attempt {body['attempt']} began as process {', '.join(map(str, body.get('pids', ())))}"
        case "paused":
            how = STOPPED if body.get("how") == "stopped" else f"paused at step {body['step']}"
            return f"{how}, {1000 * (body.get('waited_s') or 0):.0f} ms after it was asked to"
        case "left":
            return f"left with a checkpoint of step {body['step']}"
        case "ended":
            return f"attempt {body['attempt']} ended with exit code {body['exit_code']}"
        case "lost":
            return Loss(body["attempt"], 0.0, body.get("message", ""), body.get("checkpoint_step", 0)).in_words()
        case "held-back":
            return _held_back_in_words(body)
    return str(body["what"])


def _held_back_in_words(body: Json) -> str:
    match body["reason"]:
        case "resting":
            return f"throttled: slowed its holder by {100 * body['slowdown']:.0f} %"
        case "no room":
            return "throttled: its memory no longer fits beside its holder's"
    return "goes on"
