"""Pausing all tasks of an attempt, as deep as makes room. It blocks, and is run in a thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from weft.core.value import value
from weft.node.depth import Held, depth_for, depths_to_try
from weft.node.devices import Device
from weft.node.kinds import Kind
from weft.node.ownership import Known
from weft.node.pausing import Pause, PauseRefusedError
from weft.node.task import RankStatus, Task, attach
from weft.runtime.page.layout import Depth
from weft.system import processes

LEAST_GRACE_S = 0.2

log = logging.getLogger(__name__)


@value
class Halt:
    """What to pause, and what is known of the room there is."""

    pages: tuple[Path, ...]
    known: Known
    devices: tuple[Device, ...]
    needs_bytes: int | None
    held_by_others_bytes: int
    grace_s: float
    depths: tuple[str, ...] = ()
    """What to try, one after the other; without any, what makes room for whoever comes."""


def halt(wanted: Halt, kind: Kind, is_wanted: Callable[[], bool]) -> tuple[Pause, int]:
    """How the pause came out, and what the attempt holds of its devices' memory while it pauses."""
    with attach(*wanted.pages) as task:
        task.known = wanted.known
        depths = wanted.depths or _depths(task, wanted, kind)
        pause = _paused(task, depths, wanted.grace_s, is_wanted)
        return pause, _held(task, wanted, kind).own_bytes


def deepen(wanted: Halt, kind: Kind) -> tuple[Pause, int]:
    """The same for an attempt that pauses already: deeper, if those who come need it, and never less deep."""
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


def _depths(task: Task, wanted: Halt, kind: Kind) -> list[str]:
    held = _held(task, wanted, kind)
    budget_bytes = sum(device.memory_bytes for device in wanted.devices)
    depth = depth_for(budget_bytes, wanted.held_by_others_bytes, wanted.needs_bytes, held)
    return depths_to_try(depth, kind.shallow_depth, held)


def _held(task: Task, wanted: Halt, kind: Kind) -> Held:
    own_bytes = kind.held_bytes(processes.family(task.roots), wanted.devices)
    return held_by(task.status().ranks, own_bytes)


def held_by(ranks: Sequence[RankStatus], own_bytes: int) -> Held:
    """What the tasks with these ranks hold. What has overflowed is not on the device any more, and what is in a lane is
    the lane's: others use it while this one stands."""
    living = [rank for rank in ranks if rank.state != "ended"]
    lane_bytes = sum(rank.ephemeral_bytes for rank in living if rank.is_in_lane)
    return Held(
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
