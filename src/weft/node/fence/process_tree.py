"""The end of a task with everything it started: no process may compute on devices its attempt has lost.

Processes are found by their cgroup, where there is one, and in any case by descent, by session, by a mark in their
environment, and by their output. They are stopped first and killed when a whole pass finds no further one: what is
stopped neither forks nor starts again what was killed. That none is left counts only after several passes.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from weft.core.value import value
from weft.node.fence import cgroups
from weft.node.fence.ownership import CENSUS, MARK, environ_of
from weft.system import processes
from weft.system.processes import ENDED, Process

LOOK_EVERY_S = (0.001, 0.1)
PASSES = 50  # of stopping before what was found is killed all the same
PROOFS = 3  # passes in a row that find none
HUNT_S = 0.5
QUIET_LOOKS = 10
SAY_AFTER_S = 5.0

Identity = tuple[int, int]
"""The pid of a process and its start time, which tells it from a later one of that number."""

log = logging.getLogger(__name__)


@value
class Tree:
    """How the processes of an attempt are known: `roots` lead sessions or have descendants, `marks` are in the
    environment of all that did not choose another, `outputs` are the files their standard output goes to. `spared` are
    left alone but not what descends from them: shepherds that are to tell the status."""

    roots: frozenset[Identity] = frozenset()
    marks: frozenset[str] = frozenset()
    spared: frozenset[Identity] = frozenset()
    cgroups: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    def __or__(self, other: Tree) -> Tree:
        return Tree(
            self.roots | other.roots,
            self.marks | other.marks,
            self.spared | other.spared,
            self.cgroups | other.cgroups,
            self.outputs | other.outputs,
        )


def members(tree: Tree) -> list[Process]:
    """Those alive now."""
    known = CENSUS.take()
    by_pid = {each.process.pid: each.process for each in known}
    roots = {pid for pid, start in tree.roots if pid not in by_pid or by_pid[pid].start == start}
    spared = {pid for pid, start in tree.spared if pid in by_pid and by_pid[pid].start == start}
    found = set[int]()
    for each in known:
        one = each.process
        if roots & {one.pid, one.group, one.session} or each.marks & tree.marks or each.outputs & tree.outputs:
            found.add(one.pid)
    found = processes.with_descendants(found | spared, by_pid.values())
    found |= {pid for cgroup in tree.cgroups for pid in cgroups.pids(cgroup)}  # but what descends from these is known:
    found -= {os.getpid(), os.getppid(), *spared}  # a job can move us into its cgroup, and all jobs descend from us
    return [one for pid, one in by_pid.items() if pid in found and one.state not in ENDED]


def end_tree(tree: Tree) -> None:
    """Kill them all, and return when none is left. One that cannot be killed is waited for."""

    def spared() -> set[int]:
        return {pid for pid, start in tree.spared if processes.is_alive(pid, start)}

    def is_fenced_in() -> bool:
        """Whether a cgroup still has processes; they are killed."""
        left = [cgroup for cgroup in tree.cgroups if cgroups.is_populated(cgroup)]
        for cgroup in left:
            cgroups.kill(cgroup, spared())
        return bool(left)

    is_fenced_in()
    end_all(lambda: members(tree), lambda: processes.descendants(spared()), is_fenced_in)


def end_all(
    find: Callable[[], list[Process]],
    descendants: Callable[[], set[int]] = set,
    is_fenced_in: Callable[[], bool] = bool,
) -> None:
    """Kill all that `find` ever finds, until it finds none any more. `descendants` finds fewer, but at once;
    `is_fenced_in` kills what is in a cgroup, and says whether something was."""
    began_s, pause_s, is_said, proofs = time.monotonic(), LOOK_EVERY_S[0], False, 0
    while proofs < PROOFS:
        left = _stopped(find)
        is_proof = not left and not _hunted(descendants) and not is_fenced_in()
        proofs = proofs + 1 if is_proof else 0
        if not is_proof:
            send(left, signal.SIGKILL)
        if time.monotonic() - began_s > SAY_AFTER_S and not is_said:
            is_said = True
            log.warning("processes %s do not end, though they were killed", ", ".join(str(each.pid) for each in left))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LOOK_EVERY_S[1])


def _stopped(find: Callable[[], list[Process]]) -> list[Process]:
    """Those found, stopped. What they forked before is found by the next pass."""
    seen: dict[Identity, Process] = {}
    for _ in range(PASSES):
        new = [each for each in find() if (each.pid, each.start) not in seen]
        if not new:
            break
        send(new, signal.SIGSTOP)
        seen |= {(each.pid, each.start): each for each in new}
    return list(seen.values())


def _hunted(descendants: Callable[[], set[int]]) -> bool:
    """Kill those that fork and exit sooner than a pass over all processes takes; whether there were any.

    One that has just ended was one of them too: it may have forked before.
    """
    deadline_s, seen, quiet = time.monotonic() + HUNT_S, descendants(), 0
    has_found = any(map(_lives, seen))
    while quiet < QUIET_LOOKS and time.monotonic() < deadline_s:
        found = descendants()
        living = [each for each in map(processes.process, found) if each and each.state not in ENDED]
        send(living, signal.SIGKILL)
        is_quiet = not living and found <= seen
        quiet, seen, has_found = quiet + 1 if is_quiet else 0, found, has_found or not is_quiet
    return has_found


def _lives(pid: int) -> bool:
    found = processes.process(pid)
    return found is not None and found.state not in ENDED


def send(to: Iterable[Process], number: signal.Signals) -> None:
    """A signal to these very processes, and to no later ones with their numbers."""
    for each in to:
        with suppress(ProcessLookupError, PermissionError):
            fd = os.pidfd_open(each.pid)
            try:
                now = processes.process(each.pid)
                if now is not None and now.start == each.start:
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)


def tree_of_attempt(run: Path, job: str, attempt: int) -> Tree:
    """The processes of an attempt of which nothing but the name is known: all that have a mark of it."""
    prefix = os.fsencode(f"\0{MARK}={run}/{job}.{attempt}.")
    marks = set()
    for each in processes.every_process():
        _, found, rest = environ_of(each.pid).partition(prefix)
        if found:
            rank = rest.partition(b"\0")[0].decode("ascii", "replace")
            marks.add(f"{run}/{job}.{attempt}.{rank}")
    return Tree(marks=frozenset(marks))


def end_attempt(run: Path, job: str, attempt: int, cgroups: Collection[str]) -> None:
    """Kill what has a mark of it or is in these cgroups, and return when nothing is left."""
    end_tree(tree_of_attempt(run, job, attempt) | Tree(cgroups=frozenset(cgroups)))
