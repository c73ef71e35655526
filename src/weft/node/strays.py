"""Processes that no attempt accounts for: their shepherd was killed, and they left their session and environment.

The kernel gives an orphan to its nearest ancestor that is a subreaper: to the shepherd, when that is dead to the
coordinator, and when that is dead too to the daemon that started it. When all three are dead, it is init's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from weft.node import cgroups, fencing
from weft.node.census import marks_of
from weft.node.fencing import Tree
from weft.node.tended import SPAWNING, Tended
from weft.system import processes
from weft.system.home import Home
from weft.system.lockfile import holder_of
from weft.system.processes import ENDED, Process


class Strays:
    """`tasks` are those of all attempts on this node. All methods may be called in a thread."""

    def __init__(self, home: Home, tasks: Callable[[], Collection[Tended]]) -> None:
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
        fencing.end_all(self.find, self.pids)

    def _ours(self, children: set[int], tasks: Collection[Tended]) -> set[int]:
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


def end_left_over(left_over: Collection[str]) -> None:
    """Kill what is in cgroups of attempts that are forgotten, and remove these."""
    for cgroup in left_over:
        if cgroups.is_populated(cgroup):
            fencing.end_tree(Tree(cgroups=frozenset({cgroup})))
        cgroups.remove(cgroup)
