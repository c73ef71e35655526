"""Running an attempt, or resuming it from a pause, on the devices and in the seat of its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from weft.node.attempt import pause_to_depth
from weft.node.attempt.attempt import Attempt
from weft.node.attempt.order import AttemptState, Wanted
from weft.node.attempt.pause_to_depth import pause_at
from weft.node.attempt.records import AttemptRecord
from weft.node.devices import sched_idle
from weft.node.fence.ownership import KnownProcesses
from weft.node.handles.children import in_thread
from weft.node.handles.shepherd_handle import ShepherdStates
from weft.node.sharing import node_lanes
from weft.node.task.handle import attach
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import Depth


async def continue_running(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """It runs, and should: on the devices and in the seat of its order. A pause that was asked for and has not come
    about is taken back."""
    if attempt.is_answered:
        _take_back_pause(attempt)
        return
    order, before, after = attempt.order, attempt.record, attempt.seated
    if node_lanes.number_of(before) != node_lanes.number_of(after):
        await pause_at(attempt, pause_to_depth.GATE)  # a job changes its lane between two steps
        return
    if attempt.wants_to_move:
        if attempt.can_move and not await move(attempt):
            await pause_at(attempt, pause_to_depth.GATE)  # a job there may wait for us to leave in turn
            return
        if not attempt.can_move and pause_to_depth.should_leave(attempt):
            await pause_at(attempt, *pause_to_depth.LEAVE)
            return
    if not order.seat.is_throttled:
        attempt.context.throttled_guests.release(attempt)  # before the record says that it is free
        await sched_idle.caught_up()
    attempt.note(after)
    attempt.answered = (order.generation, Wanted.RUN)
    attempt.context.node_attempts.occupancy.let_go(before.key, but_for=after.devices)
    _take_back_pause(attempt)
    if attempt.pause or attempt.record.devices != before.devices or attempt.wants_to_move:
        attempt.say_resumed()
    attempt.pause = None
    attempt.context.node_attempts.wake_incoming()


def _take_back_pause(attempt: Attempt) -> None:
    """A throttled or compared attempt may be gated now and then."""
    task = attempt.attached()
    if task.wanted != Depth.RUN and not attempt.is_throttled and not attempt.is_compared:
        task.resume()


async def resume(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    order = attempt.order
    if attempt.wants_to_move and not attempt.can_move and pause_to_depth.should_leave(attempt):
        await pause_at(attempt, *pause_to_depth.LEAVE)
        return
    after = attempt.seated
    is_there = await move(attempt) if attempt.can_move else attempt.context.node_attempts.take(attempt, after.devices)
    if not is_there:
        return
    if not order.seat.is_throttled:
        attempt.context.throttled_guests.release(attempt)
    attempt.note(after)
    reach("coordinator-resuming")
    await in_thread(_resume_task, attempt.pages, attempt.known, after)
    reach("coordinator-resumed")
    attempt.state, attempt.pause, attempt.held_bytes = AttemptState.RUNNING, None, 0
    attempt.answered = (attempt.record.generation, Wanted.RUN)
    attempt.say_resumed()
    attempt.wake()


def _resume_task(pages: Sequence[Path], known: KnownProcesses, record: AttemptRecord) -> None:
    with attach(*pages) as task:
        task.known = known
        task.set_lane_order(record.seat.base, record.seat.weight)
        task.set_lane(node_lanes.number_of(record))
        task.resume()


async def move(attempt: Attempt) -> bool:
    """Bind it to the devices of its order, while it runs or pauses; False if another attempt there has to leave first.

    Before this is noted: if we are killed in between, the next coordinator is ordered to move it.
    """
    context, order = attempt.context, attempt.order
    if not context.node_attempts.take(attempt, order.devices):
        return False
    there = replace(attempt.record, devices=order.devices)
    for task in attempt.tasks if attempt.wants_to_move else ():
        await in_thread(context.kind.move, task.pid, context.some(there.devices_of(task.rank)))
    return True
