"""Pausing an attempt: as deep as makes room for the incoming jobs, with what is reported of it.

Pausing blocks, and is done in a thread. An attempt that cannot move to other devices saves and ends instead, so that it
can be launched there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.attempt.attempt import Attempt
from weft.node.attempt.ending import begin_stop
from weft.node.attempt.order import AttemptState, Wanted
from weft.node.devices.device import Device, DeviceKind
from weft.node.fence.ownership import KnownProcesses
from weft.node.handles.children import in_thread
from weft.node.handles.shepherd_handle import ShepherdStates
from weft.node.task.gang_barrier import Pause, PauseRefusedError, SupersededError
from weft.node.task.handle import Task, attach
from weft.node.task.rank import RankStatus
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import Depth
from weft.system import processes

GATE, DROP_CACHES, SWAP_OUT, CHECKPOINT = "gate", "drop-caches", "swap-out", "checkpoint"

LEAST_GRACE_S = 0.2

log = logging.getLogger(__name__)

MOST_SUPERSEDED = 20  # pauses in a row in which the page asked for something else than we did
AGAIN_S = 0.1  # until a pause that was refused is asked for again

LEAVE = ("checkpoint", "gate")


@value
class HeldMemory:
    """What a job holds of its devices' memory, and what it can do about that.

    What it gives back is known only where the native library serves it; elsewhere both are 0.
    """

    own_bytes: int
    ephemeral_bytes: int = 0
    """Of these, what lasts no longer than a step: drop-caches gives it back."""
    persistent_bytes: int = 0
    """Of these, what lasts and is on the device: swap-out gives that back too."""
    can_swap: bool = False
    can_checkpoint: bool = False

    def stays_bytes(self) -> dict[str, int]:
        """What stays with the job at each depth that it can go to, the cheapest first.

        | depth       | what stays                       | if                                       |
        |-------------|----------------------------------|------------------------------------------|
        | gate        | all                              | always                                   |
        | drop-caches | all but the ephemeral            | it has any                               |
        | swap-out    | neither that nor the persistent  | every rank can move it to the next tier  |
        | checkpoint  | nothing                          | every rank can save                      |
        """
        stays = {GATE: self.own_bytes}
        if self.ephemeral_bytes:
            stays[DROP_CACHES] = max(0, self.own_bytes - self.ephemeral_bytes)
        if self.can_swap:
            stays[SWAP_OUT] = max(0, self.own_bytes - self.ephemeral_bytes - self.persistent_bytes)
        if self.can_checkpoint:
            stays[CHECKPOINT] = 0
        return stays


def depth_for(budget_bytes: int, held_by_others_bytes: int, needs_bytes: int | None, held: HeldMemory) -> str:
    """The cheapest depth at which what stays fits beside the incoming jobs; unknown needs count as half of all.

    If it fits at none, the one at which the least stays: the memory is over-committed then, but no work is lost.
    """
    needs = budget_bytes // 2 if needs_bytes is None else needs_bytes
    room = budget_bytes - needs - held_by_others_bytes
    stays = held.stays_bytes()
    return next((depth for depth in stays if stays[depth] <= room), min(stays, key=lambda depth: stays[depth]))


def depths_to_try(depth: str, shallow: str, held: HeldMemory) -> list[str]:
    """The depth itself, then, if a job refuses, each cheaper one. `shallow`: a pause goes at least so deep."""
    order = (GATE, DROP_CACHES, SWAP_OUT, CHECKPOINT)
    possible = [each for each in order if each in {*held.stays_bytes(), shallow}]
    deepest = max(possible.index(depth), possible.index(shallow))
    return possible[deepest::-1]


@value
class PauseRequest:
    """What to pause, and what is known of the room there is."""

    pages: tuple[Path, ...]
    known: KnownProcesses
    devices: tuple[Device, ...]
    needs_bytes: int | None
    held_by_others_bytes: int
    grace_s: float
    depths: tuple[str, ...] = ()
    """What to try, one after the other; without any, what makes room for the incoming jobs."""


def pause_tasks(wanted: PauseRequest, kind: DeviceKind, is_wanted: Callable[[], bool]) -> tuple[Pause, int]:
    """How the pause came out, and what the attempt holds of its devices' memory while it pauses."""
    with attach(*wanted.pages) as task:
        task.known = wanted.known
        depths = wanted.depths or _depths(task, wanted, kind)
        pause = _paused(task, depths, wanted.grace_s, is_wanted)
        return pause, _held(task, wanted, kind).own_bytes


def deepen(wanted: PauseRequest, kind: DeviceKind) -> tuple[Pause, int]:
    """The same for an attempt that pauses already: deeper, if incoming jobs need it, and never less deep."""
    with attach(*wanted.pages) as task:
        task.known = wanted.known
        before = task.status()
        pause = Pause("boundary", before.depth, before.step, 0.0)
        for depth in _depths(task, wanted, kind):
            if Depth.NAMES.index(depth) <= Depth.NAMES.index(before.depth):
                break
            try:
                pause = task.pause(depth, grace_s=wanted.grace_s)
                break
            except PauseRefusedError as refused:
                log.info("%s", refused.message)
        return pause, _held(task, wanted, kind).own_bytes


def _depths(task: Task, wanted: PauseRequest, kind: DeviceKind) -> list[str]:
    held = _held(task, wanted, kind)
    budget_bytes = sum(device.memory_bytes for device in wanted.devices)
    depth = depth_for(budget_bytes, wanted.held_by_others_bytes, wanted.needs_bytes, held)
    return depths_to_try(depth, kind.shallow_depth, held)


def _held(task: Task, wanted: PauseRequest, kind: DeviceKind) -> HeldMemory:
    own_bytes = kind.held_bytes(processes.family(task.roots), wanted.devices)
    return held_by(task.status().ranks, own_bytes)


def held_by(ranks: Sequence[RankStatus], own_bytes: int) -> HeldMemory:
    """What the tasks with these ranks hold. What has overflowed is not on the device any more, and what is in a lane is
    the lane's: others use it while this one stands."""
    living = [rank for rank in ranks if rank.state != "ended"]
    lane_bytes = sum(rank.ephemeral_bytes for rank in living if rank.is_in_lane)
    return HeldMemory(
        own_bytes=max(0, own_bytes - lane_bytes),
        ephemeral_bytes=sum(rank.ephemeral_bytes for rank in living) - lane_bytes,
        persistent_bytes=sum(max(0, rank.persistent_bytes - rank.overflow_bytes) for rank in living),
        can_swap=bool(ranks) and all(rank.can_swap for rank in ranks),
        can_checkpoint=bool(ranks) and all(rank.can_checkpoint for rank in ranks),
    )


def _paused(task: Task, depths: Sequence[str], grace_s: float, is_wanted: Callable[[], bool]) -> Pause:
    deadline = monotonic() + grace_s
    for depth in depths[:-1]:
        try:
            return task.pause(depth, grace_s=max(LEAST_GRACE_S, deadline - monotonic()))
        except PauseRefusedError as refused:
            if not is_wanted():
                raise
            log.info("%s", refused.message)
    return task.pause(depths[-1], grace_s=max(LEAST_GRACE_S, deadline - monotonic()))


async def begin_pause(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    attempt.note(replace(attempt.record, generation=attempt.order.generation))
    await pause_at(attempt)


async def pause_at(attempt: Attempt, *depths: str) -> None:
    """As deep as makes room for incoming jobs, or else to one of these depths."""
    context = attempt.context
    attempt.is_leaving = depths == LEAVE
    context.throttled_guests.release_when_paused(attempt, attempt.now_s)
    wanted = _pause_request(attempt, *depths)
    reach("coordinator-pausing")
    attempt.pausing = in_thread(pause_tasks, wanted, context.kind, lambda: attempt.order.wanted is not Wanted.STOP)
    attempt.pausing.add_done_callback(lambda _: attempt.wake())


async def make_room(attempt: Attempt) -> None:
    """It pauses, and others have come to its devices since: go deeper where it stands, if they need the memory."""
    attempt.pausing = in_thread(deepen, _pause_request(attempt), attempt.context.kind)
    attempt.pausing.add_done_callback(lambda _: attempt.wake())


def _pause_request(attempt: Attempt, *depths: str) -> PauseRequest:
    context, order = attempt.context, attempt.order
    attempt.state, attempt.incoming = AttemptState.PAUSING, order.incoming
    return PauseRequest(
        pages=attempt.pages,
        known=attempt.known,
        devices=tuple(context.some(attempt.record.devices)),
        needs_bytes=order.needs_bytes,
        held_by_others_bytes=context.node_attempts.held_bytes(attempt, order.incoming),
        grace_s=context.graces.pause_grace_s,
        depths=depths,
    )


async def see_pause(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """Once the pause has come about, the devices are free for others."""
    if attempt.pausing is None or not attempt.pausing.done():
        return
    pausing, attempt.pausing = attempt.pausing, None
    try:
        attempt.pause, attempt.held_bytes = pausing.result()
    except (PauseRefusedError, OSError) as error:  # it has just ended, or is to be stopped
        log.info("job %s is not paused: %s", attempt.record.job, error)
        attempt.pause = None
        attempt.superseded = attempt.superseded + 1 if isinstance(error, SupersededError) else 0
        if attempt.superseded > MOST_SUPERSEDED:
            raise WeftError("its control page is written to by the job: what it is asked for changes") from error
    if attempt.pause and attempt.pause.how in ("boundary", "stopped"):
        attempt.state = AttemptState.PAUSED
        reach("coordinator-paused")
        if attempt.is_leaving:
            stay(attempt, "it did not save where it was asked to leave")
        attempt.leave_devices()
        attempt.wake()
    elif attempt.pause is None or attempt.pause.how == "ended":
        attempt.state = AttemptState.RUNNING
        attempt.wake_in(AGAIN_S)
    # Otherwise it has left, and its shepherds will tell.


async def give_up_pause(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """It is to be stopped; then there is no boundary to wait for."""
    if attempt.pausing is None:
        await begin_stop(attempt, shepherd_states)
    elif attempt.pausing.done():
        await see_pause(attempt, shepherd_states)
    else:
        attempt.attached().resume()  # the thread that pauses it sees that its request is superseded


async def say_paused(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    attempt.leave_devices()  # taken for a launch or a resume that failed
    if attempt.is_answered:
        if attempt.order.incoming - attempt.incoming:
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


async def say_not_started(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """Its devices were wanted for others before they were free for it."""
    attempt.pause = Pause("boundary", Depth.NAMES[Depth.GATE], 0, 0.0, "it had not been started")
    await say_paused(attempt, shepherd_states)


def should_leave(attempt: Attempt) -> bool:
    """Whether it, which cannot move, is to save and end: it is then launched where it was to go."""
    ranks = attempt.attached().status().ranks
    if attempt.stays[0] == attempt.order.generation:
        return False
    if ranks and all(rank.can_checkpoint for rank in ranks):
        return True
    stay(attempt, "it cannot save")
    return False


def stay(attempt: Attempt, because: str) -> None:
    """It goes on where it is, which its next report says."""
    devices = ", ".join(map(str, attempt.record.devices))
    attempt.stays = (attempt.order.generation, f"it was launched on {devices}, and stays there: {because}")
