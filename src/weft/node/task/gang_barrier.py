"""Bringing a task to a pause, and where the ranks of a gang meet: all ranks of it at the same step.

Every rank is asked to gate at its next boundary. One that has gated behind the others has to run on, or those inside
the next step would wait for its part for ever. So the meeting step is the highest that any rank has completed, plus
one for a rank that is inside a step; gated ranks behind it run up to it. Meanwhile it may rise, and it never falls:
each rank gates at each boundary it comes to, so it rises at most by the steps that ranks were already inside of. Once
all ranks are gated, the pause goes as deep as was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.task.rank import Rank, RankPosition
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth, RankState

if TYPE_CHECKING:
    from weft.node.task.handle import Task

GRACE_S = 10.0
LEAVING_S = 60.0  # for what a script does at its end, once it has saved
LOOK_EVERY_S = 0.02  # new ranks and ends of processes do not wake us
POLL_S = 0.001


@value
class Meeting:
    """The step to meet at, which ranks wait behind it, and whether all ranks are there."""

    step: int
    laggards: tuple[int, ...]
    is_met: bool


def meet(ranks: Sequence[RankPosition], step: int = 0) -> Meeting:
    """Where these ranks can meet, if `step` was the answer before."""
    step = max([step, *(rank.step if rank.is_gated else rank.step + 1 for rank in ranks)])
    behind = tuple(i for i, rank in enumerate(ranks) if rank.is_gated and rank.step < step)
    return Meeting(step, behind, all(rank.is_gated and rank.step == step for rank in ranks))


class PauseRefusedError(WeftError):
    """The job could not be paused as it was asked to; it is as it was before."""


class SupersededError(PauseRefusedError):
    """Its page asks for something else than what was asked for here."""


@value
class Pause:
    """How a pause came out: `how` is "boundary", "stopped" (where it was), "left" (after a checkpoint) or "ended"."""

    how: str
    depth: str
    step: int
    waited_s: float
    reason: str = ""


def pause(task: Task, depth: int, at_step: int, grace_s: float) -> Pause:
    began, before = monotonic(), task.wanted
    if task.is_stopped:
        return _of_a_stopped(task, depth)
    try:
        if not _gate(task, at_step, began + grace_s):
            return _without_boundary(task, depth, began, grace_s)
        if not task.is_over and depth > Depth.GATE:
            _deepen(task, depth)
    except PauseRefusedError:
        _go_back(task, before)
        raise
    if task.is_over:
        return Pause("ended", Depth.NAMES[Depth.RUN], task.step, monotonic() - began)
    if depth < Depth.CHECKPOINT:
        return Pause("boundary", Depth.NAMES[depth], task.step, monotonic() - began)
    step = task.step
    _let_leave(task)
    return Pause("left", Depth.NAMES[depth], step, monotonic() - began)


def _gate(task: Task, at_step: int, deadline: float) -> bool:
    """Bring every rank to a stand, each gang at one step. False when the deadline passes first."""
    step = at_step
    task.ask(Depth.GATE, at_step)
    while not task.is_over:
        ranks = asked(task, at_step)
        gang, others = [rank for rank in ranks if rank.world], [rank for rank in ranks if not rank.world]
        _refuse_if_superseded([*task.firsts, *ranks])
        meeting = send_on(gang, step)
        step = meeting.step
        is_at_boundary = (gang or others) and meeting.is_met and all(rank.has_answered for rank in others)
        if is_at_boundary and not _missing(gang):
            return True
        if monotonic() > deadline:
            return False
        if is_at_boundary:
            sleep(POLL_S)  # a rank of the gang is still to come, and nothing of it is there to wait on
        task.wait(LOOK_EVERY_S)
    return True


def asked(task: Task, at_step: int = 0) -> list[Rank]:
    """The ranks there are, those that claimed a page since the task was asked to gate among them."""
    ranks = task.ranks
    for rank in ranks:
        if not rank.is_asked:
            rank.ask(Depth.GATE, at_step)
    return ranks


def send_on(gang: list[Rank], step: int) -> Meeting:
    """Where these ranks can meet if `step` was the answer before; those behind are let on."""
    meeting = meet([rank.position for rank in gang], step)
    for laggard in meeting.laggards:
        gang[laggard].ask(Depth.GATE, run_to=meeting.step)
    return meeting


def _missing(gang: list[Rank]) -> int:
    """How many ranks of the gang have no page here."""
    return max(0, gang[0].world - len(gang)) if gang else 0


def _deepen(task: Task, depth: int) -> None:
    ranks = task.ranks
    for rank in ranks:
        rank.ask_deeper(depth)
    while any(rank.is_alive and not rank.has_answered for rank in ranks):
        _refuse_if_superseded(ranks)
        task.wait(LOOK_EVERY_S)
    refused = [rank for rank in ranks if rank.state == RankState.REFUSED]
    if refused:
        raise PauseRefusedError(f"no {Depth.NAMES[depth]}: {refused[0].look().message}", "the job is as it was before")
    lost = [rank for rank in ranks if not rank.is_alive]
    if lost:
        pid = lost[0].look().words[layout.CLAIM_PID]
        raise PauseRefusedError(f"no {Depth.NAMES[depth]}: process {pid} ended meanwhile", "its output may say why")


def _let_leave(task: Task) -> None:
    """Everything is saved, on every rank; only now may the first one go."""
    ranks, deadline = task.ranks, monotonic() + LEAVING_S
    for rank in ranks:
        rank.ask(Depth.LEAVE)
    while any(rank.is_alive for rank in ranks):
        _refuse_if_superseded(ranks)
        if monotonic() > deadline:
            raise PauseRefusedError(f"saved, but not ended within {LEAVING_S:g} s", "does the script catch SystemExit?")
        ranks[0].wait(LOOK_EVERY_S)


def _refuse_if_superseded(ranks: list[Rank]) -> None:
    if any(rank.is_superseded for rank in ranks):
        raise SupersededError("another program has asked this job for something else meanwhile", "ask again")


def _go_back(task: Task, before: int) -> None:
    """Leave the job as it was: running, or paused at the depth it had. A request by another program stands."""
    if any(rank.is_superseded for rank in task.ranks):
        return
    if before == Depth.RUN:
        task.resume()
    for rank in task.ranks:
        rank.ask_deeper(before)


def _of_a_stopped(task: Task, depth: int) -> Pause:
    why = "it was stopped where it was, not at a boundary"
    if depth > Depth.GATE:
        raise PauseRefusedError(f"no {Depth.NAMES[depth]}: {why}", "resume it first")
    task.stop()  # that its page says so is no proof
    return Pause("stopped", Depth.NAMES[Depth.GATE], task.step, 0.0, why)


def _without_boundary(task: Task, depth: int, began: float, grace_s: float) -> Pause:
    why = f"no step boundary within {grace_s:g} s" + ("" if task.step else ", and no step seen before")
    gang = [rank for rank in task.ranks if rank.world]
    if _missing(gang):
        why = f"{len(gang)} of {gang[0].world} ranks of the gang are here, and the others may need them"
    if depth > Depth.GATE:
        hint = "the job is as it was before; a pause at depth gate would stop its processes"
        raise PauseRefusedError(f"no {Depth.NAMES[depth]}: {why}", hint)
    if any(rank.look().has(layout.IN_LANE) for rank in task.ranks):
        raise PauseRefusedError(f"{why}, and stopped in its turn it would be killed by those in its lane", "ask again")
    if not task.roots:
        raise PauseRefusedError(f"{why}, and the page names no process to stop", "weft exec makes pages that do")
    count = task.stop()
    stopped = "its process where it was" if count == 1 else f"its {count} processes where they were"
    reason = f"{why}: stopped {stopped}"
    return Pause("stopped", Depth.NAMES[Depth.GATE], task.step, monotonic() - began, reason)


class Gate:
    """Asks the task's pages for a pause. A task that is to be paused or resumed otherwise is to be let go before
    that: what others ask it for stands."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._is_shut = False
        self._meeting_step = 0
        """Of a gang: where its ranks are to stand, so that none waits for another inside a step."""

    def shut(self) -> None:
        """To be repeated until it stands: the ranks of a gang are sent on until they meet."""
        if self.task.wanted == Depth.RUN:
            self.task.ask(Depth.GATE)
            self._is_shut, self._meeting_step = True, 0
        elif self._is_ours:
            gang = [rank for rank in asked(self.task) if rank.world]
            self._meeting_step = send_on(gang, self._meeting_step).step

    def open(self) -> None:
        """Unless it has been asked for something else since."""
        if self._is_ours:
            self.task.ask(Depth.RUN)
        self._is_shut = False

    @property
    def is_at_boundary(self) -> bool:
        """All of it is at a boundary."""
        ranks = self.task.ranks
        return bool(ranks) and all(rank.is_paused for rank in ranks)

    @property
    def _is_ours(self) -> bool:
        """It was gated here, and has not been asked for something else since."""
        if not self._is_shut or self.task.wanted != Depth.GATE:
            return False
        return not any(rank.is_superseded for rank in [*self.task.firsts, *self.task.ranks])
