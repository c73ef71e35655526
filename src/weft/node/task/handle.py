"""A task seen from outside: its control pages, what they say, and asking it to pause.

`attach` is for people and for the coordinator alike.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from weft.core.errors import InputError
from weft.core.value import value
from weft.node.fence.ownership import KnownProcesses, verified_leader, was_launched_by
from weft.node.task.control_page import ControlPage, open_control_page
from weft.node.task.gang_barrier import GRACE_S, Pause, pause
from weft.node.task.page_snapshot import MOST_STEPS
from weft.node.task.rank import Rank, RankStatus, rank_status
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth, RankState
from weft.runtime.page.page_file import PageError, claimed_beside
from weft.system import processes
from weft.system.units import parsed_bytes

MOST_FURTHER = 256
"""Further ranks of a task that are looked for: each takes a descriptor."""
UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF


@value
class TaskStatus:
    """A task at one instant. `reason` says what is not as one would expect."""

    state: str
    step: int
    depth: str
    reason: str
    ranks: tuple[RankStatus, ...]

    @property
    def step_rate_hz(self) -> float | None:
        """Steps a second of the slowest rank, over its recent steps; None while there are none."""
        times_s = [rank.step_s for rank in self.ranks if rank.step_s]
        return 1 / max(times_s) if times_s else None


class Task:
    """One task, or the tasks of a gang with one rank each. Use it as a context, or close it."""

    def __init__(self, pages: list[ControlPage]) -> None:
        self._pages = pages
        self._ranks = {page.path: Rank(page) for page in pages}
        self._stopped: set[int] = set()
        self.known = KnownProcesses()

    @property
    def ranks(self) -> list[Rank]:
        """Those alive now. Ranks that torchrun started have pages beside their task's."""
        self._find_further()
        return [rank for rank in self._ranks.values() if rank.is_alive]

    def _find_further(self) -> None:
        for page in self._pages:
            for number in range(1, MOST_FURTHER + 1):
                beside = claimed_beside(page.path, number)
                if beside not in self._ranks and not self._found(beside):
                    break

    def _found(self, path: str) -> bool:
        try:
            self._ranks[path] = Rank(open_control_page(path))
        except PageError:  # there is none, or a stranger's file
            return False
        return True

    @property
    def firsts(self) -> list[Rank]:
        """What stands on the tasks' own pages, claimed or not."""
        return [self._first(page) for page in self._pages]

    @property
    def roots(self) -> set[int]:
        """The processes all others of the task descend from, those that still live: its leader, and its ranks."""
        leaders = self.known.leaders | {leader for page in self._pages if (leader := self._leader(page))}
        self.known = replace(self.known, leaders=leaders)  # a page that is overwritten later makes no difference
        living = {pid for pid, start in leaders if processes.is_alive(pid, start)}
        return living | {rank.pid for rank in self._ranks.values() if rank.pid}

    def _leader(self, page: ControlPage) -> tuple[int, int] | None:
        """The leader that the page names, if that is verified: it will be sent signals."""
        words = page.look().words
        pid, start = words[layout.TASK_PID], words[layout.TASK_START]
        if not pid or (pid, start) in self.known.leaders:
            return None
        found = processes.process(pid)
        launcher = words[layout.LAUNCHER_PID], words[layout.LAUNCHER_START]
        is_ours = verified_leader(pid, start, page.path, self.known.shepherds) is not None or (
            found is not None and found.start == start and was_launched_by(found, *launcher, page)
        )
        return (pid, start) if is_ours else None

    @property
    def is_over(self) -> bool:
        """It began, and none of its processes lives."""
        looks = [page.look() for page in self._pages]
        has_begun = any(look.words[layout.TASK_PID] or look.is_claimed for look in looks)
        return has_begun and not self.ranks and not self.roots

    @property
    def step(self) -> int:
        """The highest step completed, by a rank that lives or by one that has ended."""
        return max(rank.look().step for rank in self._ranks.values())

    @property
    def is_stopped(self) -> bool:
        return any(page.look().words[layout.STOPPED] for page in self._pages)

    @property
    def wanted(self) -> int:
        """The depth it was last asked for."""
        return max(self._first(page).wanted for page in self._pages)

    def ask(self, depth: int, run_to: int = 0) -> None:
        """Ask the tasks as a whole: the ranks there are, and those that are still to claim a page."""
        for rank in {id(rank): rank for rank in [*self.firsts, *self.ranks]}.values():
            rank.ask(depth, run_to)

    def wait(self, timeout_s: float) -> None:
        """Until there is news: from a rank that has not answered yet, or the first claim."""
        waiting_for = [rank for rank in self.ranks or [self._first(self._pages[0])] if not rank.has_answered]
        if waiting_for:
            waiting_for[0].wait(timeout_s)

    def stop(self) -> int:
        """Stop all processes where they stand; how many."""
        for page in self._pages:
            page.words[layout.STOPPED] = max(1, page.look().words[layout.REQUEST] >> 8)
        self._stopped = processes.stop(self.roots | processes.children(self.known.shepherds))
        return len(self._stopped)

    def _first(self, page: ControlPage) -> Rank:
        return self._ranks[page.path]

    def pause(self, depth: str = "gate", *, at_step: int = 0, grace_s: float = GRACE_S) -> Pause:
        """Pause at the next step boundary, or once `at_step` is completed; returns when it stands.

        A gang stops at the same step on every rank. A task that pauses already runs on if `at_step` is ahead of it.

        Without a boundary within `grace_s` its processes are stopped where they are, and the answer says so.
        "checkpoint" saves and ends the task. What cannot be done is an error, and the task is as it was before.
        """
        if depth not in Depth.NAMES[Depth.GATE : Depth.LEAVE]:
            names = ", ".join(Depth.NAMES[Depth.GATE : Depth.LEAVE])
            raise InputError(f"there is no depth {depth!r} of a pause", f"one of {names}")
        if not isinstance(at_step, int) or not 0 <= at_step <= MOST_STEPS:
            raise InputError(f"{at_step!r} is no step to pause at", "steps count from 1; 0 is the next boundary")
        return pause(self, Depth.NAMES.index(depth), at_step, grace_s)

    def resume(self) -> None:
        """Run on from where it stands. A task that does not pause is left as it is."""
        self.ask(Depth.RUN)
        if self.is_stopped:
            # Processes whose leader has ended are found in no other way.
            processes.go_on(self.roots | self._stopped | processes.children(self.known.shepherds))
        for page in self._pages:
            page.words[layout.STOPPED] = 0

    def set_duty(self, percent: int) -> None:
        """The share of time, 1 to 100 per cent, that it computes; from its next step on."""
        if not isinstance(percent, int) or not 1 <= percent <= 100:
            raise InputError(f"{percent!r} is no duty", "a whole number of per cent, from 1 to 100")
        self._write(layout.DUTY, percent)

    def set_limit(self, limit: int | str) -> None:
        """What each rank's device memory is bounded by, as 2**30 or "1G", 0 for nothing; from its next boundary on."""
        limit_bytes = parsed_bytes(limit) if isinstance(limit, str) else limit
        if not isinstance(limit_bytes, int) or not 0 <= limit_bytes < 1 << 63:
            raise InputError(f"{limit!r} is no limit of memory", 'bytes, or a size as "1.5G"; 0 means none')
        self._write(layout.LIMIT, limit_bytes)

    def set_lane(self, number: int) -> None:
        """The lane it is in from its next boundary on, as lanes.number_of says it."""
        self._write(layout.LANE, number)

    def set_lane_order(self, base: int, weight: int) -> None:
        """Where it stands in the line for turns when it joins its lane."""
        self._write(layout.LANE_BASE, base & UNSIGNED)
        self._write(layout.LANE_WEIGHT, weight & UNSIGNED)

    @property
    def duty(self) -> int:
        """The lowest of its tasks."""
        return min(page.look().words[layout.DUTY] for page in self._pages)

    def _write(self, word: int, number: int) -> None:
        """To the pages there are. A rank that claims one later copies the words of its task's own."""
        self._find_further()
        for rank in self._ranks.values():
            rank.words[word] = number

    def status(self) -> TaskStatus:
        ranks = self.ranks
        return TaskStatus(
            state=self._state(ranks),
            step=self.step,
            depth=Depth.NAMES[max((rank.look().words[layout.DEPTH] for rank in ranks), default=0)],
            reason=self._reason(ranks),
            ranks=tuple(
                rank_status(look, is_alive=rank.is_alive)
                for rank in self._ranks.values()
                if (look := rank.look()).is_claimed
            ),
        )

    def _state(self, ranks: list[Rank]) -> str:
        if self.is_over:
            return "ended"
        if self.is_stopped or (ranks and all(rank.is_paused for rank in ranks)):
            return "paused"
        return "running"

    def _reason(self, ranks: list[Rank]) -> str:
        if self.is_stopped:
            return "stopped where it was: no step boundary came"
        said = [look.message for rank in ranks if (look := rank.look()).state == RankState.REFUSED]
        if said:
            return said[0]
        return "" if ranks or self.is_over else "no step seen yet"

    def close(self) -> None:
        for rank in self._ranks.values():
            rank.page.close()

    def __enter__(self) -> Task:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def attach(*pages: str | Path) -> Task:
    """The task whose control page is at `pages`; several for a gang of one task per rank."""
    if not pages:
        raise InputError("no control page was named", "weft.attach(FILE), with the FILE of weft exec --page FILE")
    return Task([_open(str(Path(path).absolute())) for path in pages])


def _open(path: str) -> ControlPage:
    if "weft_runtime" in sys.modules and os.environ.get("WEFT_PAGE") == path:
        raise InputError("a job cannot attach to itself", "attach from another process")
    try:
        return open_control_page(path)
    except PageError as error:
        raise InputError(str(error), "weft exec --page FILE -- CMD makes one") from error
