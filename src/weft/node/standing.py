"""Bringing an attempt to a pause, and telling how it stands then."""

from __future__ import annotations

import logging
from dataclasses import replace

from weft.core.errors import WeftError
from weft.node import moving
from weft.node.attempt import Attempt
from weft.node.children import in_thread
from weft.node.halting import Halt, deepen, halt
from weft.node.order import State, Wanted
from weft.node.pausing import Pause, PauseRefusedError, SupersededError
from weft.node.stopping import begin_stop
from weft.node.task import Task
from weft.node.tended import Sights
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import Depth

MOST_SUPERSEDED = 20  # pauses in a row in which the page asked for something else than we did
AGAIN_S = 0.1  # until a pause that was refused is asked for again

log = logging.getLogger(__name__)


async def begin_pause(attempt: Attempt, sights: Sights) -> None:
    attempt.note(replace(attempt.record, generation=attempt.order.generation))
    await halt_at(attempt)


async def halt_at(attempt: Attempt, *depths: str) -> None:
    """As deep as makes room for those who come, or else to one of these depths."""
    ground = attempt.ground
    attempt.is_leaving = depths == moving.LEAVE
    ground.guard.see_out(attempt, attempt.now_s)
    wanted = _halt(attempt, *depths)
    reach("coordinator-pausing")
    attempt.halting = in_thread(halt, wanted, ground.kind, lambda: attempt.order.wanted is not Wanted.STOP)
    attempt.halting.add_done_callback(lambda _: attempt.wake())


async def make_room(attempt: Attempt) -> None:
    """It pauses, and others have come to its devices since: go deeper where it stands, if they need the memory."""
    attempt.halting = in_thread(deepen, _halt(attempt), attempt.ground.kind)
    attempt.halting.add_done_callback(lambda _: attempt.wake())


def _halt(attempt: Attempt, *depths: str) -> Halt:
    ground, order = attempt.ground, attempt.order
    attempt.state, attempt.comers = State.PAUSING, order.comers
    return Halt(
        pages=attempt.pages,
        known=attempt.known,
        devices=tuple(ground.some(attempt.record.devices)),
        needs_bytes=order.needs_bytes,
        held_by_others_bytes=ground.company.held_bytes(attempt, order.comers),
        grace_s=ground.graces.pause_grace_s,
        depths=depths,
    )


async def see_pause(attempt: Attempt, sights: Sights) -> None:
    """Once the pause has come about, the devices are free for others."""
    if attempt.halting is None or not attempt.halting.done():
        return
    halting, attempt.halting = attempt.halting, None
    try:
        attempt.pause, attempt.held_bytes = halting.result()
    except (PauseRefusedError, OSError) as error:  # it has just ended, or is to be stopped
        log.info("job %s is not paused: %s", attempt.record.job, error)
        attempt.pause = None
        attempt.superseded = attempt.superseded + 1 if isinstance(error, SupersededError) else 0
        if attempt.superseded > MOST_SUPERSEDED:
            raise WeftError("its control page is written to by the job: what it is asked for changes") from error
    if attempt.pause and attempt.pause.how in ("boundary", "stopped"):
        attempt.state = State.PAUSED
        reach("coordinator-paused")
        if attempt.is_leaving:
            moving.stay(attempt, "it did not save where it was asked to leave")
        attempt.leave_devices()
        attempt.wake()
    elif attempt.pause is None or attempt.pause.how == "ended":
        attempt.state = State.RUNNING
        attempt.wake_in(AGAIN_S)
    # Otherwise it has left, and its shepherds will tell.


async def give_up_pause(attempt: Attempt, sights: Sights) -> None:
    """It is to be stopped; then nobody waits for a boundary any more."""
    if attempt.halting is None:
        await begin_stop(attempt, sights)
    elif attempt.halting.done():
        await see_pause(attempt, sights)
    else:
        attempt.attached().resume()  # whoever pauses it notices that somebody else wants something else


async def say_paused(attempt: Attempt, sights: Sights) -> None:
    attempt.leave_devices()  # taken for a launch or a resume that failed
    if attempt.is_answered:
        if attempt.order.comers - attempt.comers:
            await make_room(attempt)
        return
    pause = attempt.pause or _by_page(attempt.attached())
    # One that was about to leave stands all the same, with its caches dropped and no more; the page of one that was
    # stopped says nothing.
    said = Depth.NAMES.index(pause.depth)
    kept = Depth.DROP_CACHES if said > Depth.SWAP_OUT else max(Depth.GATE, said)
    attempt.answered = (attempt.order.generation, Wanted.PAUSE)
    attempt.say(
        "paused",
        attempt.order.generation,
        how=pause.how,
        depth=Depth.NAMES[kept],
        step=pause.step,
        waited_s=pause.waited_s,
        reason=pause.reason,
        held_bytes=attempt.held_bytes,
    )


def _by_page(task: Task) -> Pause:
    """A pause that an earlier coordinator brought about."""
    status = task.status()
    return Pause("stopped" if task.is_stopped else "boundary", status.depth, status.step, 0.0, status.reason)


async def say_not_started(attempt: Attempt, sights: Sights) -> None:
    """Its devices were wanted for others before they were free for it."""
    attempt.pause = Pause("boundary", Depth.NAMES[Depth.GATE], 0, 0.0, "it had not been started")
    await say_paused(attempt, sights)
