"""Bringing a task to a pause: gate all ranks, let laggards catch up, then go as deep as was asked."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Protocol

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.gang import Meeting, meet
from weft.node.rank import Rank
from weft.runtime import layout
from weft.runtime.layout import Depth, State

GRACE_S = 10.0
LOOK_EVERY_S = 0.02  # new ranks and ends of processes wake nobody
POLL_S = 0.001


class PauseRefusedError(WeftError):
    """The job cannot pause as deep as it was asked to; it runs on as before."""


class Pausable(Protocol):
    @property
    def ranks(self) -> list[Rank]: ...
    @property
    def leaders(self) -> list[int]: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def step(self) -> int: ...
    def ask(self, depth: int, run_to: int = 0) -> None: ...
    def wait(self, timeout_s: float) -> None: ...
    def stop(self) -> int: ...
    def resume(self) -> None: ...


@value
class Pause:
    """How a pause came out: `how` is "boundary", "stopped" (where it was), "left" (after a checkpoint) or "ended"."""

    how: str
    depth: str
    step: int
    waited_s: float
    reason: str = ""


def pause(task: Pausable, depth: int, at_step: int, grace_s: float) -> Pause:
    began = monotonic()
    if not _gate(task, at_step, began + grace_s):
        return _without_boundary(task, depth, began, grace_s)
    if task.is_over:
        return Pause("ended", Depth.NAMES[Depth.RUN], task.step, monotonic() - began)
    if depth > Depth.GATE:
        _deepen(task, depth)
    step = task.step
    if depth < Depth.CHECKPOINT:
        return Pause("boundary", Depth.NAMES[depth], step, monotonic() - began)
    _let_leave(task)
    return Pause("left", Depth.NAMES[depth], step, monotonic() - began)


def _gate(task: Pausable, at_step: int, deadline: float) -> bool:
    """Bring every rank to a stand, each gang at one step. False when the deadline passes first."""
    step = at_step
    task.ask(Depth.GATE, at_step)
    while not task.is_over:
        gang: list[Rank] = []
        others: list[Rank] = []
        for rank in task.ranks:
            if rank.wanted == Depth.RUN:  # it claimed a page just before we asked
                rank.ask(Depth.GATE, at_step)
            (gang if rank.world else others).append(rank)
        meeting = _send_on(gang, step)
        step = meeting.step
        is_standing = (gang or others) and meeting.is_met and all(rank.has_answered for rank in others)
        is_whole = not gang or len(gang) >= gang[0].world
        if is_standing and is_whole:
            return True
        if monotonic() > deadline:
            return False
        if is_standing:
            sleep(POLL_S)  # a rank of the gang is still to come, and nothing of it is there to wait on
        task.wait(LOOK_EVERY_S)
    return True


def _send_on(gang: list[Rank], step: int) -> Meeting:
    meeting = meet([rank.standing for rank in gang], step)
    for laggard in meeting.laggards:
        gang[laggard].ask(Depth.GATE, run_to=meeting.step)
    return meeting


def _deepen(task: Pausable, depth: int) -> None:
    ranks = task.ranks
    for rank in ranks:
        rank.ask(depth, run_to=rank.words[layout.RUN_TO])
    while any(rank.is_alive and not rank.has_answered for rank in ranks):
        task.wait(LOOK_EVERY_S)
    refused = [rank for rank in ranks if rank.state == State.REFUSED]
    lost = [rank for rank in ranks if not rank.is_alive]
    if refused or lost:
        why = refused[0].page.message if refused else f"process {lost[0].words[layout.CLAIM_PID]} ended meanwhile"
        task.resume()
        raise PauseRefusedError(f"no {Depth.NAMES[depth]}: {why}", "the job runs on")


def _let_leave(task: Pausable) -> None:
    """Everything is saved, on every rank; only now may the first one go."""
    ranks = task.ranks
    for rank in ranks:
        rank.ask(Depth.LEAVE)
    while any(rank.is_alive for rank in ranks):
        ranks[0].wait(LOOK_EVERY_S)


def _without_boundary(task: Pausable, depth: int, began: float, grace_s: float) -> Pause:
    why = f"no step boundary within {grace_s:g} s"
    gang = [rank for rank in task.ranks if rank.world]
    if gang and len(gang) < gang[0].world:
        why = f"{len(gang)} of {gang[0].world} ranks of the gang are here, and the others may need them"
    if depth > Depth.GATE:
        task.resume()
        raise PauseRefusedError(
            f"no {Depth.NAMES[depth]}: {why}", "the job runs on; a pause at depth gate would stop its processes"
        )
    if not task.leaders:
        task.resume()
        raise PauseRefusedError(
            f"{why}, and the page names no process that could be stopped", "weft exec makes pages that do"
        )
    count = task.stop()
    step = task.step
    return Pause(
        "stopped",
        Depth.NAMES[Depth.GATE],
        step,
        monotonic() - began,
        f"{why}: stopped {count} processes where they were",
    )
