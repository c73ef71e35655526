"""The end of a task with everything it started, wherever that has gone: nobody may compute on devices it has lost."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress

from weft.core.value import value
from weft.node import processes
from weft.node.processes import ENDED, Process

MARK = "WEFT_TASK"
LOOK_EVERY_S = (0.001, 0.1)
SAY_AFTER_S = 5.0

log = logging.getLogger(__name__)


@value
class Tree:
    """How the processes of an attempt are known: `roots` lead sessions or have descendants, `marks` are in the
    environment of all that did not choose another. `spared` are left alone: a shepherd that is to tell the status."""

    roots: frozenset[int]
    marks: frozenset[str]
    spared: frozenset[int] = frozenset()


def members(tree: Tree) -> list[Process]:
    """Those alive now."""
    all_processes = processes.everybody()
    marks = [f"\0{MARK}={mark}\0".encode() for mark in tree.marks]
    found = {
        each.pid
        for each in all_processes
        if tree.roots & {each.pid, each.group, each.session} or _is_marked(each.pid, marks)
    }
    found = processes.with_descendants(found, all_processes) - tree.spared - {os.getpid()}
    return [each for each in all_processes if each.pid in found and each.state not in ENDED]


def _is_marked(pid: int, marks: Collection[bytes]) -> bool:
    if not marks:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            environ = b"\0" + file.read()
    except OSError:  # another user's, or gone
        return False
    return any(mark in environ for mark in marks)


def end_tree(tree: Tree) -> None:
    """Kill them all, and return when none is left. One that cannot be killed is waited for."""
    began, pause_s, is_said = time.monotonic(), LOOK_EVERY_S[0], False
    while left := members(tree):
        send(left, signal.SIGKILL)
        if time.monotonic() - began > SAY_AFTER_S and not is_said:
            is_said = True
            log.warning("processes %s do not end, though they were killed", ", ".join(str(each.pid) for each in left))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LOOK_EVERY_S[1])


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
