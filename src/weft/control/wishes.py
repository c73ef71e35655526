"""What people ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weft.control.dependencies import NONE_AWAITED, Awaited, Outcome, hold_for, hopeless, terms_of
from weft.control.endings import end
from weft.control.inputs import Cancel, ChangePolicy, Hold, Pause, Release, StopAll, Submit
from weft.control.record import Ending, Record, State, spec_for
from weft.control.refusals import already_over, being_ended, check_fits, no_such_job, not_waiting
from weft.control.store import POLICY_CHANGED
from weft.core.errors import InputError
from weft.core.events import Held, Released, Submitted
from weft.core.reasons import Code, Reason
from weft.system.request_limits import AWAITED, check_array, too_many_awaited

if TYPE_CHECKING:
    from weft.control.desk import Desk

CANCELLED = "cancelled"
STOPPED = "ended by weft down --stop-jobs"

OWNERS = frozenset({Code.HELD, Code.PAUSED})
"""Holds by the owner of a job: its release ends them."""

Answer = dict[str, Any]


def submit(desk: Desk, wish: Submit, now: float) -> Answer:
    before = _answer_before(desk, wish.request_id)
    if before is not None:
        return before
    request = dict(wish.request)
    check_fits(request, desk.floor, desk.quotas)
    if request.get("gpu_ids") and len(desk.floor.by_node) > 1:
        request["types"] = desk.floor.types_of(request["gpu_ids"])
    awaits = _awaited(desk, request.get("after") or ())
    indices = request.pop("array_indices", None) or [None]
    check_array(len(indices), len(json.dumps(request)))
    number = desk.roster.new_number()
    environment, row = desk.roster.keep(wish.env)
    desk.out.environments += [row] if row else []
    rates_hz = desk.past.rates_hz(request["name"]) if request.get("steps") else {}
    ids = []
    for place, index in enumerate(indices):
        job_id = str(number) if index is None else f"{number}_{index}"
        record = Record(job_id, number, index, request, environment, now, awaits=awaits)
        desk.roster.add(record)
        desk.tell(Submitted(spec_for(job_id, request, rates_hz)), now)
        for reason in _holds(record, place):
            desk.tell(Held(job_id, reason), now)
        ids.append(job_id)
    if wish.request_id is not None:
        desk.out.requests.append((wish.request_id, number))
    return {"id": str(number), "ids": ids}


def cancel(desk: Desk, wish: Cancel, now: float) -> Answer:
    ids = _live(desk, wish.job_id)
    for job_id in ids:
        if job_id in desk.records:  # not yet cancelled along with one it comes after
            end(desk, desk.records[job_id], Ending(State.CANCELLED, CANCELLED), now)
    return {"ids": ids}


def hold(desk: Desk, wish: Hold, now: float) -> Answer:
    live = _live(desk, wish.job_id)
    ids = [job_id for job_id in live if not desk.job(job_id).is_running]
    if not ids:
        raise not_waiting(live[0])
    for job_id in ids:
        desk.tell(Held(job_id), now)
    return {"ids": ids}


def pause(desk: Desk, wish: Pause, now: float) -> Answer:
    """A hold that a running job heeds too: it pauses at its next step boundary. Said again, it changes nothing."""
    live = _live(desk, wish.job_id)
    staying = [job_id for job_id in live if not desk.records[job_id].ending]
    if not staying:
        raise being_ended(live[0])
    ids = [job_id for job_id in staying if Code.PAUSED not in desk.job(job_id).held_for]
    for job_id in ids:
        desk.tell(Held(job_id, Reason(Code.PAUSED)), now)
    return {"ids": ids}


def release(desk: Desk, wish: Release, now: float) -> Answer:
    ids = []
    for job_id in _live(desk, wish.job_id):
        held_for = desk.job(job_id).held_for & OWNERS
        for code in sorted(held_for):
            desk.tell(Released(job_id, code), now)
        ids += [job_id] if held_for else []
    return {"ids": ids}


def stop_all(desk: Desk, wish: StopAll, now: float) -> Answer:
    ids = [record.id for record in desk.roster.alive_after()]
    for job_id in ids:
        end(desk, desk.records[job_id], Ending(State.CANCELLED, STOPPED), now)
    desk.is_closing = True
    return {"ids": ids}


def change_policy(desk: Desk, wish: ChangePolicy, now: float) -> Answer:
    desk.scheduler.change_policy(wish.policy)
    desk.wake_at = math.inf
    desk.policy_error = ""
    desk.note(POLICY_CHANGED, None, {"policy": wish.name})
    desk.out.settings.append(("policy", wish.name))
    return {"policy": wish.name}


def _answer_before(desk: Desk, request_id: str | None) -> Answer | None:
    """What the same request was answered, perhaps in this very instant."""
    if request_id is None:
        return None
    number = dict(desk.out.requests).get(request_id, desk.past.number_of(request_id))
    if number is None:
        return None
    ids = [job_id for job_id, _ in desk.past.known(str(number))] or desk.roster.live(str(number))
    return {"id": str(number), "ids": ids}


def _holds(record: Record, place: int) -> list[Reason]:
    """Why it is not to start yet. `place` is its place in its array."""
    found = [Reason(Code.HELD)] if record.request.get("hold") else []
    if record.awaits:
        found.append(hold_for(record.awaits))
    if record.array_limit is not None and place >= record.array_limit:
        found.append(Reason(Code.ARRAY_LIMIT, (record.array_limit,)))
    return found


def _live(desk: Desk, wanted: str) -> list[str]:
    live = desk.roster.live(wanted)
    if live:
        return live
    ended = list(desk.states(wanted).items())
    raise already_over(wanted, ended) if ended else no_such_job(wanted)


def _awaited(desk: Desk, wanted: Iterable[str]) -> Awaited:
    terms = terms_of(wanted)
    live = set[str]()
    for each, outcome in terms.items():
        known = desk.states(each) | dict.fromkeys(desk.roster.live(each), "")
        if not known:
            raise no_such_job(each)
        alive = known.keys() & desk.records.keys()
        if len(live) + len(known) > AWAITED:
            raise too_many_awaited()
        live |= alive
        for job_id, state in known.items():
            has_failed_before = outcome is Outcome.NOT_OK and (alive or any(map(_is_failure, known.values())))
            if job_id not in alive and not has_failed_before:
                why = hopeless(each, outcome, job_id, State(state), desk.states)
                if why:
                    raise InputError(why, "it would never start")
    return Awaited(terms, live) if terms else NONE_AWAITED


def _is_failure(state: str) -> bool:
    return state in (State.FAILED, State.CANCELLED)
