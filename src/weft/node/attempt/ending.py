"""The end of an attempt: asking its processes to end, killing them later, and reporting how it ended."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.attempt.order import AttemptState
from weft.node.attempt.records import AttemptRecord, TaskExit
from weft.node.fence import process_tree
from weft.node.handles.children import in_thread
from weft.node.handles.shepherd_handle import ShepherdStates
from weft.node.shepherd.supervise import AROUND, MACHINE, TASK
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import LEFT_EXIT_CODE
from weft.system.files import OPENING

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt

STOPPED_BEFORE = 128 + 15  # as if the signal that was meant for it had come

KILLED = 128 + 9
WHOSE = {
    TASK: "its cgroup's memory limit was reached",
    AROUND: "the memory limit of the cgroup that weft runs in was reached",
    MACHINE: "the machine, or a cgroup on it, ran out of memory",
}
TAIL_BYTES = 8 << 10
REFUSED = re.compile(rb"MemoryError|an(?:'t|not) allocate memory|std::bad_alloc|[Oo]ut of memory|OutOfMemory")
"""What programs print when memory is refused to them: Python, NumPy, PyTorch, C++, shells."""

MERCY_S = 5.0  # for a shepherd to tell the end of a task that was killed


@value
class AttemptEnding:
    """What is reported of it."""

    what: str
    body: dict[str, Any]


def never_started() -> AttemptEnding:
    return AttemptEnding("ended", {"exit_code": STOPPED_BEFORE, "message": "stopped before its command was started"})


def ending_of(
    statuses: Sequence[TaskExit | None],
    why_lost: str,
    left_at_step: int | None,
    waited_s: float,
    *,
    is_stop_wanted: bool,
    job: str = "ID",
) -> AttemptEnding:
    """A gang ends as the first of its ranks that ended badly. Where a status is missing, none is made up."""
    known = [status for status in statuses if status]
    if is_stop_wanted and not known and not why_lost:
        return never_started()
    ended_badly = [(rank, each) for rank, each in enumerate(statuses) if each and each.exit_code]
    # A rank that failed before the others began keeps them from beginning; then the failure is what happened.
    if why_lost or (len(known) < len(statuses) and not is_stop_wanted and not ended_badly):
        return AttemptEnding("lost", {"message": why_lost or "it could not be started"})
    if left_at_step is not None and not is_stop_wanted and all(each.exit_code in (0, LEFT_EXIT_CODE) for each in known):
        return AttemptEnding("left", {"step": left_at_step, "waited_s": waited_s})
    if not ended_badly:
        return AttemptEnding("ended", {"exit_code": 0, "message": ""})
    rank, bad = min(ended_badly, key=lambda one: one[1].at_s)
    if len(statuses) == 1:
        return AttemptEnding("ended", {"exit_code": bad.exit_code, "message": bad.message})
    how = bad.message or f"ended with exit code {bad.exit_code}"
    return AttemptEnding(
        "ended", {"exit_code": bad.exit_code, "message": f"rank {rank} {how}: weft logs --task {rank} {job}"}
    )


def explained(status: TaskExit, record: AttemptRecord, process_bytes: int, logs: Iterable[Path]) -> TaskExit:
    """The same with a message, if it failed for want of memory and says nothing yet.

    A kill in the task's own cgroup explains any failure: a shell, or a parent of workers, ends with a code of its own.
    Elsewhere another job may have been killed, so only a task that ended by SIGKILL is taken to have been.
    """
    if status.message or not status.exit_code:
        return status
    peak = shown_bytes(status.peak_bytes) if status.peak_bytes else ""
    if status.oom == TASK or (status.oom and status.exit_code == KILLED):
        used = f"; it used up to {peak}" if peak else ""
        return replace(status, message=f"was killed by the kernel's OOM killer: {WHOSE[status.oom]}{used}")
    if process_bytes and any(REFUSED.search(_tail(path)) for path in logs):
        had = f"; it was refused more than the {peak} it used" if peak else ""
        said = f"ran out of memory: {_allowed(record.launch)}{had} (exit code {status.exit_code})"
        return replace(status, message=said)
    return status


def _allowed(launch: Mapping[str, int | None]) -> str:
    device_bytes = launch.get("memory_bytes") or 0
    host_bytes = (launch.get("limit_bytes") or device_bytes) - device_bytes
    asked = [f"--mem {shown_bytes(host_bytes)}"] if host_bytes else []
    asked += [f"--gpu-mem {shown_bytes(device_bytes)}"] if device_bytes else []
    return f"{' and '.join(asked)} {'allow' if len(asked) > 1 else 'allows'} each of its processes no more"


def shown_bytes(size_bytes: int) -> str:
    for unit, power in (("G", 30), ("M", 20)):
        if size_bytes >= 1 << power:
            return f"{size_bytes / (1 << power):.3g}{unit}"
    return f"{size_bytes / 1024:.3g}K"


def _tail(path: Path) -> bytes:
    """The end of what it printed; nothing, where the job has put something else in place of its log."""
    try:
        fd = os.open(path, OPENING)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        return os.pread(fd, TAIL_BYTES, max(0, status.st_size - TAIL_BYTES)) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(fd)


async def begin_stop(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    await stop(attempt, attempt.context.graces.stop_grace_s)


async def stop(attempt: Attempt, grace_s: float) -> None:
    """Ask all its processes to end; one that pauses goes on, to be able to. Later they are killed."""
    attempt.state, attempt.kill_at_s = AttemptState.STOPPING, attempt.now_s + grace_s
    with suppress(WeftError):
        attempt.context.throttled_guests.release(attempt)
    for task in attempt.tasks:
        task.bar()  # what has not begun never will
    reach("coordinator-stopping")
    if grace_s:
        mine = await in_thread(process_tree.members, attempt.tree(with_shepherds=False))
        process_tree.send(mine, signal.SIGTERM)
        with suppress(WeftError):
            attempt.attached().resume()
        process_tree.send(mine, signal.SIGCONT)
    attempt.wake()


async def see_stop(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """Kill them when their time is over, and a bit later a shepherd that does not tell of it."""
    kill_at_s = (attempt.kill_at_s or 0.0) + attempt.kills * MERCY_S
    if attempt.now_s < kill_at_s:
        attempt.wake_in(kill_at_s - attempt.now_s)
        return
    if attempt.killing is not None and not attempt.killing.done():
        return  # a process cannot be killed
    attempt.kills += 1
    attempt.killing = in_thread(process_tree.end_tree, attempt.tree(with_shepherds=attempt.kills > 1))
    attempt.killing.add_done_callback(lambda _: attempt.wake())


async def end_unstarted(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    attempt.end_unstarted()
