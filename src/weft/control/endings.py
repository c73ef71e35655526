"""How jobs come to their end: told to stop, over, and what that means for those who come after."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from weft.control.dependencies import hopeless
from weft.control.orders import stop_order
from weft.control.record import Ending, Record, State
from weft.control.store import ENDED, STOPPING
from weft.core.events import Cancelled, Failed, Finished, Held, Released
from weft.core.reasons import Code, Reason

if TYPE_CHECKING:
    from weft.control.desk import Desk

DEPENDENCIES = {Code.COMES_AFTER, Code.DEPENDS}
"""Under which codes a job is held that comes after others."""


def end(desk: Desk, record: Record, ending: Ending, now: float) -> None:
    """The job is over, and with it all that were to come after it and now never will.

    One whose processes live is told to stop, and is over when they are gone.
    """
    over = deque([(record, ending)])
    while over:
        one, how = over.popleft()
        if one.is_alive:
            _stop(desk, one, how, now)
        elif one.id in desk.records:
            _end_one(desk, one, how, now)
            over += _tell_dependents(desk, one, how, now)


def hold_stopping(desk: Desk, now: float) -> None:
    """Who is to end is not started again, if it was paused or has just been preempted."""
    for record in desk.roster.stopping.values():
        job = desk.job(record.id)
        if not job.is_running and record.ending and Code.ENDING not in job.held_for:
            desk.tell(Held(record.id, Reason(Code.ENDING, (record.ending.reason,))), now)


def _stop(desk: Desk, record: Record, ending: Ending, now: float) -> None:
    """It ends so, once its processes are gone; until then it keeps its devices."""
    if record.ending is None:
        record.ending = ending
        desk.roster.stopping[record.id] = record
        desk.note(STOPPING, record.id, {"state": ending.state, "reason": ending.reason})
        desk.out.orders.append(stop_order(record, desk.job(record.id).generation))
        hold_stopping(desk, now)


def _end_one(desk: Desk, record: Record, ending: Ending, now: float) -> None:
    job = desk.job(record.id)
    spent = {"run_s": job.held_s(now), "wait_s": job.wait_s(now)}
    if ending.state is State.CANCELLED:
        desk.tell(Cancelled(record.id), now)
    else:
        kind = Finished if ending.state is State.SUCCEEDED else Failed
        desk.tell(kind(record.id, job.generation), now)
    desk.roster.remove(record)
    desk.out.rows[record.id] = record.row(
        ending.state, reason=ending.reason, exit_code=ending.exit_code, finished_at=now, **spent
    )
    desk.note(ENDED, record.id, {"state": ending.state, "reason": ending.reason})
    if record.array_limit is not None and Code.ARRAY_LIMIT not in job.held_for:
        _let_in_next(desk, record.number, now)


def _let_in_next(desk: Desk, number: int, now: float) -> None:
    """One of those that the limit of their array had let in is over."""
    elements = desk.roster.arrays.get(number, ())
    following = next((one for one in elements if Code.ARRAY_LIMIT in desk.job(one).held_for), None)
    if following is not None:
        desk.tell(Released(following, Code.ARRAY_LIMIT), now)


def _tell_dependents(desk: Desk, record: Record, ending: Ending, now: float) -> list[tuple[Record, Ending]]:
    """Let those go that only waited for this job; returns those that will never start now."""
    never = []
    for number in sorted(desk.roster.dependents.pop(record.id, ())):
        dependents = desk.roster.of_number(number)
        if not dependents:
            continue
        awaited = dependents[0].awaits  # and so of all of them
        awaited.live.discard(record.id)
        names = awaited.names(record.id, record.number)
        found = (hopeless(term, wanted, record.id, ending.state, desk.states) for term, wanted in names)
        why = next((each for each in found if each), "")
        if why:
            never += [(dependent, Ending(State.CANCELLED, why)) for dependent in dependents]
        elif not awaited:
            for dependent in dependents:
                for code in desk.job(dependent.id).held_for & DEPENDENCIES:
                    desk.tell(Released(dependent.id, code), now)
    return never
