"""`weft why`: what a job waits for, who is ahead and by which rule, when it may start, and what a preemption cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.control.desk import Desk
from weft.control.forecast import starts_in_s
from weft.control.record import State
from weft.control.store import Store
from weft.control.views import Json, Views, iso
from weft.core.job import Job
from weft.core.plain import reason_of
from weft.core.reasons import Code, Reason
from weft.core.snapshot import snapshot
from weft.core.view import Decider
from weft.sim.words import span

HOW = "if jobs take as long as the last of their name, or as the mean of those that ended"
MOST_AHEAD = 10
MOST_FORECAST = 2_000
"""With more live jobs than this, simulating them all would take longer than anybody waits for an answer."""
ENDING_S = 1.0
"""What is being ended is taken to be gone after this."""

Forecast = Callable[[], Json]


def why_live(desk: Desk, store: Store, views: Views, job_id: str, now: float, policy: Callable[[], Decider]) -> Json:
    """All but the estimate, of which it says how to make it: that takes a while, and nobody need wait meanwhile."""
    line = views.line(desk, now)
    ahead = [desk.scheduler.ledger.jobs[one] for one in line[: line.index(job_id)]] if job_id in line else []
    return {
        "id": job_id,
        "state": desk.state(job_id),
        "reason": views.reason(desk, job_id, now),
        "rule": desk.scheduler.rule,
        "ahead": [_standing(desk, job, now) for job in ahead[:MOST_AHEAD]],
        "ahead_count": len(ahead),
        "held_by": [_standing(desk, job, now) for job in list(desk.scheduler.ledger.running.values())[:MOST_AHEAD]],
        "estimate": _forecast(desk, store, job_id, now, policy)
        if job_id in line
        else _none("it is being ended" if desk.records[job_id].ending else "it does not wait in line"),
        "preemptions": preemptions(store.all("log_of_job", job_id)),
    }


def _standing(desk: Desk, job: Job, now: float) -> Json:
    return {
        "id": job.id,
        "name": desk.records[job.id].name,
        "gang_size": job.gang_size,
        "state": desk.state(job.id),
        "attained_s": round(job.attained(now), 1),
    }


async def with_estimate(answer: Json) -> Json:
    """The answer with its estimate made, and in words."""
    if callable(answer["estimate"]):
        answer = {**answer, "estimate": await asyncio.to_thread(answer["estimate"])}
    return {**answer, "text": in_words(answer)}


def why_ended(row: Mapping[str, Any], store: Store) -> Json:
    return {
        "id": row["id"],
        "state": row["state"],
        "reason": row["reason"],
        "rule": "",
        "ahead": [],
        "ahead_count": 0,
        "held_by": [],
        "estimate": _none("it is over"),
        "preemptions": preemptions(store.all("log_of_job", row["id"])),
    }


def preemptions(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Each with why it was chosen and what it cost: the wait for a boundary, and the time until it went on."""
    found: list[Json] = []
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] == "Preempt":
            reason = reason_of(body["reason"])
            by = str(reason.details[0]) if reason.details else ""
            found.append({"at": iso(row["at"]), "by": by, "reason": str(reason), "at_s": row["at"], "paused_s": None})
        elif not found:
            continue
        elif row["kind"] == "Reported" and body["what"] in ("paused", "left"):
            found[-1]["depth"] = body.get("depth", "checkpoint")
            found[-1].update({key: body.get(key) for key in ("waited_s", "step", "how", "held_bytes")})
        elif row["kind"] == "Start" and found[-1]["paused_s"] is None:
            found[-1]["paused_s"] = round(row["at"] - found[-1]["at_s"], 3)
    for each in found:
        del each["at_s"]
    return found


def in_words(answer: Json) -> list[str]:
    job_id, state = answer["id"], answer["state"]
    lines = [f"{job_id} is {state}" + (f": {answer['reason']}" if answer["reason"] else "")]
    if answer["ahead_count"]:
        first = ", ".join(f"{job['id']} ({job['name']})" for job in answer["ahead"])
        more = answer["ahead_count"] - len(answer["ahead"])
        lines.append(f"ahead of it: {first}{f' and {more} more' if more else ''}")
    if state in (State.PENDING, State.PAUSED):
        holders = [f"{job['id']} ({job['name']}, {span(job['attained_s'])})" for job in answer["held_by"]]
        if holders:
            lines.append(f"devices are held, with so much device-time so far, by: {', '.join(holders)}")
        lines.append(f"the rule: {answer['rule']}")
        lines.append(_estimate_in_words(answer["estimate"], "starts" if state is State.PENDING else "goes on"))
    for one in answer["preemptions"][-3:]:
        lines.append(_preemption_in_words(one))
    return lines


def _estimate_in_words(estimate: Json, verb: str) -> str:
    starts_in_s, how = estimate["starts_in_s"], estimate["how"]
    if starts_in_s is None:
        return f"when it {verb} cannot be said: {how}"
    return f"it {verb} {'at once' if starts_in_s < 1 else f'in about {span(starts_in_s)}'}, {how}"


def _preemption_in_words(one: Json) -> str:
    text = f"{one['at']}: {one['reason']}"
    if one.get("depth"):
        text += f"; paused at step {one['step']} (depth {one['depth']}) after {1000 * (one['waited_s'] or 0):.0f} ms"
        text += f", holding {one['held_bytes'] / 2**20:.0f} MiB" if one.get("held_bytes") else ""
    return text + (f", went on after {span(one['paused_s'])}" if one["paused_s"] is not None else "")


def _forecast(desk: Desk, store: Store, job_id: str, now: float, policy: Callable[[], Decider]) -> Forecast | Json:
    if len(desk.records) > MOST_FORECAST:
        return _none(f"more than {MOST_FORECAST:,} jobs are live")
    mean = store.one("mean_run")
    mean_s = mean["run_s"] if mean else None
    if mean_s is None:
        return _none("no job has succeeded yet to learn from")
    expected: dict[str, float] = {}
    for record in desk.records.values():
        namesake = store.one("namesake", record.name)
        expected_s = namesake["run_s"] if namesake else mean_s
        expected[record.id] = min(expected_s, record.limit_s) if record.limit_s else expected_s
        if record.ending:
            expected[record.id] = desk.scheduler.ledger.jobs[record.id].run_s(now) + ENDING_S
    taken, like_it = snapshot(desk.scheduler.ledger), policy()

    def estimate() -> Json:
        try:
            in_s = starts_in_s(taken, like_it, now, job_id, expected.get)
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's
            return _none(f"its policy fails: {type(error).__name__}: {error}")
        return {"starts_in_s": None if in_s is None else round(in_s, 1), "how": HOW}

    return estimate


def _none(how: str) -> Json:
    return {"starts_in_s": None, "how": how}


def event_in_words(kind: str, body: Json) -> str | None:
    """One line of a job's history; None for what says nothing to people."""
    match kind:
        case "Submitted":
            return "submitted"
        case "Start":
            return f"{reason_of(body['reason'])}"
        case "Preempt":
            return f"{reason_of(body['reason'])}"
        case "Held":
            reason = reason_of(body["reason"])
            return None if reason.code is Code.ENDING else f"{reason}"
        case "Released":
            return "released"
        case "Stopping":
            return f"{Reason(Code.ENDING, (body['reason'],))}"
        case "Ended":
            return f"{body['state'].lower()}" + (f": {body['reason']}" if body["reason"] else "")
        case "Reported":
            return _report_in_words(body)
    return None


def _report_in_words(body: Json) -> str:
    match body["what"]:
        case "started":
            return f"attempt {body['attempt']} began as process {', '.join(map(str, body.get('pids', ())))}"
        case "paused":
            return f"paused at step {body['step']}, {1000 * (body.get('waited_s') or 0):.0f} ms after it was asked to"
        case "left":
            return f"left with a checkpoint of step {body['step']}"
        case "ended":
            return f"attempt {body['attempt']} ended with exit code {body['exit_code']}"
        case "lost":
            return f"attempt {body['attempt']} was lost: {body.get('message', '')}"
    return str(body["what"])
