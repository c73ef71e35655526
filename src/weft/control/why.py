"""`weft why`: what a job waits for, who is ahead and by which rule, when it may start, and what a preemption cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from weft.control.desk import Desk
from weft.control.forecast import starts_in_s
from weft.control.happenings import decided_in_words, decisions, preemptions
from weft.control.record import Loss, State
from weft.control.store import Store
from weft.control.views import Json, Views, loss_json
from weft.control.wishes import OWNERS
from weft.core.job import Job
from weft.core.snapshot import snapshot
from weft.core.text import duration_text
from weft.core.view import Decider

HOW = "if jobs take as long as the last of their name, or as the mean of those that ended"
MOST_AHEAD = 10
MOST_DECIDED = 10
MOST_FORECAST = 2_000
"""With more live jobs than this, simulating them all would take longer than anybody waits for an answer."""
ENDING_S = 1.0
"""What is being ended is taken to be gone after this."""

VERBS = {State.PENDING: "starts", State.PAUSED: "goes on", State.RUNNING: "has devices of its own"}
"""What a job is waiting to do."""

Forecast = Callable[[], Json]


def why_live(desk: Desk, store: Store, views: Views, job_id: str, now: float, policy: Callable[[], Decider]) -> Json:
    """All but the estimate, of which it says how to make it: that takes a while, and nobody need wait meanwhile."""
    position = views.position(desk, job_id, now)
    ahead_count = (position or 1) - 1
    ahead = views.front(desk, min(ahead_count, MOST_AHEAD), now)
    rows = store.all("log_of_job", job_id)
    return {
        "id": job_id,
        "state": desk.state(job_id),
        "reason": views.reason(desk, job_id, now),
        "guest": desk.job(job_id).seating is not None,
        "beside": views.beside(desk, job_id, now),
        "loss": loss_json(desk.records[job_id].present_loss),
        "rule": desk.scheduler.rule,
        "ahead": [_standing(desk, job, now) for job in ahead],
        "ahead_count": ahead_count,
        "held_by": [_standing(desk, job, now) for job in list(desk.scheduler.ledger.running.values())[:MOST_AHEAD]],
        "estimate": _forecast(desk, store, job_id, now, policy)
        if position is not None
        else _none(_why_not_in_line(desk, job_id)),
        "preemptions": preemptions(rows),
        "decisions": decisions(rows),
    }


def _why_not_in_line(desk: Desk, job_id: str) -> str:
    if desk.records[job_id].ending:
        return "it is being ended"
    if desk.job(job_id).held_for & OWNERS:
        return f"weft resume {job_id} lets it go on"
    return "it does not wait in line"


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
    lines = [f"{job_id} is {state}{_company(answer)}" + (f": {answer['reason']}" if answer["reason"] else "")]
    if lost := answer.get("loss"):
        lines.append(f"{lost['at']}: {Loss(lost['attempt'], 0.0, lost['message'], lost['step']).in_words()}")
    if answer["ahead_count"]:
        first = ", ".join(f"{job['id']} ({job['name']})" for job in answer["ahead"])
        more = answer["ahead_count"] - len(answer["ahead"])
        lines.append(f"ahead of it: {first}{f' and {more} more' if more else ''}")
    if state in (State.PENDING, State.PAUSED) or answer.get("guest"):
        holders = [f"{job['id']} ({job['name']}, {duration_text(job['attained_s'])})" for job in answer["held_by"]]
        if holders:
            lines.append(f"devices are held, with so much device-time so far, by: {', '.join(holders)}")
        lines.append(f"the rule: {answer['rule']}")
        lines.append(_estimate_in_words(answer["estimate"], VERBS[state]))
    decided = decided_in_words(answer.get("decisions", ()), answer["preemptions"])
    if len(decided) > MOST_DECIDED:
        lines.append(f"the last {MOST_DECIDED} of {len(decided)} decisions on it; weft history {job_id} has all:")
    return lines + decided[-MOST_DECIDED:]


def _company(answer: Json) -> str:
    others = f" beside {', '.join(answer['beside'])}" if answer.get("beside") else ""
    return f" as a guest{others}, waiting for devices of its own" if answer.get("guest") else others


def _estimate_in_words(estimate: Json, verb: str) -> str:
    starts_in_s, how = estimate["starts_in_s"], estimate["how"]
    if starts_in_s is None:
        return f"when it {verb} cannot be said: {how}"
    return f"it {verb} {'at once' if starts_in_s < 1 else f'in about {duration_text(starts_in_s)}'}, {how}"


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
            expected[record.id] = desk.scheduler.ledger.jobs[record.id].held_s(now) + ENDING_S
    taken, like_it, quotas = snapshot(desk.scheduler.ledger), policy(), desk.quotas

    def estimate() -> Json:
        try:
            in_s = starts_in_s(taken, like_it, now, job_id, expected.get, quotas)
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's
            return _none(f"its policy fails: {type(error).__name__}: {error}")
        return _none(f"it never does, {HOW}") if in_s is None else {"starts_in_s": round(in_s, 1), "how": HOW}

    return estimate


def _none(how: str) -> Json:
    return {"starts_in_s": None, "how": how}
