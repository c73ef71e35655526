"""Child processes of the coordinator: their ends as they come, threads for blocking work, and stray processes.

A stray is a process that no attempt accounts for: its shepherd was killed, and it left its session and environment. The
kernel gives an orphan to its nearest ancestor that is a subreaper: to the shepherd, when that is dead to the
coordinator, and when that is dead too to the daemon that started it. When all three are dead, it is init's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from weft.node.fence import cgroups, process_tree
from weft.node.fence.ownership import marks_of
from weft.node.fence.process_tree import Tree
from weft.node.shepherd.supervise import become_subreaper
from weft.system import processes
from weft.system.home import Home
from weft.system.lockfile import holder_of
from weft.system.processes import ENDED, Process

if TYPE_CHECKING:
    from weft.node.handles.shepherd_handle import ShepherdHandle

T = TypeVar("T")

log = logging.getLogger(__name__)
SPAWNING = threading.Lock()
"""Held while a child of ours is there that no task accounts for yet, so that it is not taken for a stray."""


def watch(pid: int, start: int, on_end: Callable[[], None]) -> bool:
    """Call back once when this very process ends; False if it has ended already."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    if not processes.is_alive(pid, start):
        os.close(fd)
        return False

    def ended() -> None:
        loop.remove_reader(fd)
        os.close(fd)
        on_end()

    loop.add_reader(fd, ended)
    return True


class Reaper:
    """Takes in the ends of our children: shepherds, and tasks whose shepherd was killed.

    `record` is told the pid and the exit code of each before its status is gone: if we are killed in
    between it is not lost, and at worst told twice.
    """

    def __init__(self, record: Callable[[int, int], None]) -> None:
        self._record = record

    def begin(self) -> None:
        become_subreaper()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.reap)

    def reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            is_exit = ended.si_code == os.CLD_EXITED
            try:
                self._record(ended.si_pid, ended.si_status if is_exit else 128 + ended.si_status)
            except OSError as error:  # a full disk; it stays there for the next time
                log.warning("the end of process %d cannot be recorded yet: %s", ended.si_pid, error)
                return
            os.waitpid(ended.si_pid, 0)


def in_thread(work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """What `work` returns or raises. The thread does not delay our exit: what it does is safe to be cut off."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(settling: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            settling(outcome)

    def run() -> None:
        try:
            settling, outcome = future.set_result, work(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            loop.call_soon_threadsafe(settle, future.set_exception, error)
        else:
            loop.call_soon_threadsafe(settle, settling, outcome)

    threading.Thread(target=run, daemon=True).start()
    return future


class Strays:
    """`tasks` are those of all attempts on this node. All methods may be called in a thread."""

    def __init__(self, home: Home, tasks: Callable[[], Collection[ShepherdHandle]]) -> None:
        self._home = home
        self._run = f"{home.run}/"
        self._tasks = tasks

    def find(self) -> list[Process]:
        """Those alive now, with their descendants."""
        return [each for each in map(processes.process, self.pids()) if each and each.state not in ENDED]

    def pids(self) -> set[int]:
        """Of those, and of zombies among them. It takes as long as reading two lists if there are none."""
        with SPAWNING:  # a shepherd is not known to be one before it has been started
            ours, daemons = processes.listed_children(os.getpid()), processes.listed_children(os.getppid())
            tasks = self._tasks()
            shepherds = {pid for task in tasks for pid in task.shepherds}
            found: set[int] = set()
            if unknown := ours - shepherds:
                found |= self._ours(unknown, tasks)
            if unknown := daemons - shepherds - {os.getpid()}:
                found |= self._daemons(unknown)
        return found | processes.descendants(found)

    def end(self) -> None:
        """Kill them, and return when none is left."""
        process_tree.end_all(self.find, self.pids)

    def _ours(self, children: set[int], tasks: Collection[ShepherdHandle]) -> set[int]:
        """While a task without a shepherd is our child, they may be that one's."""
        return set() if any(task.is_orphaned for task in tasks) else children

    def _daemons(self, children: set[int]) -> set[int]:
        """Those in its session it has started itself, and what has a mark is found by that. What is left came from an
        attempt whose shepherd died together with the coordinator before us."""
        daemon = processes.process(os.getppid())
        if daemon is None or holder_of(self._home.daemon_lock) != daemon.pid:
            return set()
        found = [each for each in map(processes.process, children) if each and each.session != daemon.session]
        return {each.pid for each in found if not any(mark.startswith(self._run) for mark in marks_of(each.pid))}


def end_leftover_cgroups(left_over: Collection[str]) -> None:
    """Kill what is in cgroups of attempts that are forgotten, and remove these."""
    for cgroup in left_over:
        if cgroups.is_populated(cgroup):
            process_tree.end_tree(Tree(cgroups=frozenset({cgroup})))
        cgroups.remove(cgroup)
