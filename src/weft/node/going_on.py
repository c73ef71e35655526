"""An attempt that runs and should, or that pauses and should run: on the devices and in the seat of its order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.node import idling, laning, moving
from weft.node.attempt import Attempt
from weft.node.children import in_thread
from weft.node.order import State, Wanted
from weft.node.ownership import Known
from weft.node.records import Record
from weft.node.standing import halt_at
from weft.node.task import attach
from weft.node.tended import Sights
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import Depth


async def go_on_running(attempt: Attempt, sights: Sights) -> None:
    """It runs, and should: on the devices and in the seat of its order. A pause that was asked for and has not come
    about is taken back."""
    if attempt.is_answered:
        _take_back_pause(attempt)
        return
    order, before, after = attempt.order, attempt.record, attempt.seated
    if laning.number_of(before) != laning.number_of(after):
        await halt_at(attempt, moving.GATE)  # who changes its lane does so between two steps
        return
    if attempt.wants_to_move:
        if attempt.can_move and not await moving.move(attempt):
            await halt_at(attempt, moving.GATE)  # somebody there may wait for us to leave in turn
            return
        if not attempt.can_move and moving.should_leave(attempt):
            await halt_at(attempt, *moving.LEAVE)
            return
    if not order.seat.is_throttled:
        attempt.ground.guard.release(attempt)  # before it is noted that nobody has to
        await idling.caught_up()
    attempt.note(after)
    attempt.answered = (order.generation, Wanted.RUN)
    attempt.ground.company.holding.let_go(before.key, but_for=after.devices)
    _take_back_pause(attempt)
    if attempt.pause or attempt.record.devices != before.devices or attempt.wants_to_move:
        attempt.say_resumed()
    attempt.pause = None
    attempt.ground.company.wake_comers()


def _take_back_pause(attempt: Attempt) -> None:
    """Who is held back for others, or compared, may be told to stand still now and then."""
    task = attempt.attached()
    if task.wanted != Depth.RUN and not attempt.is_throttled and not attempt.is_compared:
        task.resume()


async def resume(attempt: Attempt, sights: Sights) -> None:
    order = attempt.order
    if attempt.wants_to_move and not attempt.can_move and moving.should_leave(attempt):
        await halt_at(attempt, *moving.LEAVE)
        return
    after = attempt.seated
    is_there = await moving.move(attempt) if attempt.can_move else attempt.ground.company.take(attempt, after.devices)
    if not is_there:
        return
    if not order.seat.is_throttled:
        attempt.ground.guard.release(attempt)
    attempt.note(after)
    reach("coordinator-resuming")
    await in_thread(_go_on, attempt.pages, attempt.known, after)
    reach("coordinator-resumed")
    attempt.state, attempt.pause, attempt.held_bytes = State.RUNNING, None, 0
    attempt.answered = (attempt.record.generation, Wanted.RUN)
    attempt.say_resumed()
    attempt.wake()


def _go_on(pages: Sequence[Path], known: Known, record: Record) -> None:
    with attach(*pages) as task:
        task.known = known
        task.set_lane_order(record.seat.base, record.seat.weight)
        task.set_lane(laning.number_of(record))
        task.resume()
