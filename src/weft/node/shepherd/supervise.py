"""What a shepherd does: it records that a task exists, starts its command, waits for the end of that and of everything
it started, and leaves a status.

It loads the standard library alone, and of that what is quick to load: the command waits for it.
"""
# ruff: noqa: PTH104, PTH105, PTH108, PTH123, PTH208 - pathlib takes as long to load as all else here

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import struct
import time
from resource import RUSAGE_CHILDREN, getrusage

from weft.node.shepherd.command import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    descriptors_as_bare,
    enter,
    fork_into,
    limit_memory,
    signals_as_bare,
    why_not_started,
)
from weft.runtime import procfs
from weft.runtime.failpoints import reach
from weft.runtime.page import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FAIL_POINTS = (
    "shepherd-begun",  # and nothing says so yet
    "shepherd-recorded",
    "shepherd-forked",
    "shepherd-started",  # the command runs, but the page does not say so
    "shepherd-waited",  # for the command; what it started may live on
    "shepherd-tree-gone",
    "shepherd-status-written",  # under its temporary name
    "shepherd-status-named",
)
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
SIGKILL = 9
MASTER, SLAVE = 3, 4  # where the coordinator puts the two ends of a terminal
RETRY_S = 0.5

TASK, AROUND, MACHINE = "task", "cgroup", "machine"
"""Whose memory had run out: the task's own cgroup's, that of the cgroup weft is in, or the machine's."""
MOST_BYTES = 1 << 16


def supervise(folder: str) -> None:
    os.umask(0o077)
    os.chdir(folder)
    with open("launch", "rb") as file:
        orders = marshal.load(file)  # noqa: S302 - our own file; json takes 10 ms to load
    launch = {
        "cgroup": "",
        "needs_cgroup": False,
        "oom_counters": {},
        **orders,
    }  # a coordinator that was updated as it ran names none
    reach("shepherd-begun")
    become_subreaper()
    if not record(".", launch["boot_id"], os.getpid()):
        return  # another shepherd was first, or none may start any more
    reach("shepherd-recorded")
    kills_before = counts(launch["oom_counters"])
    pid, code, message, input_fd = _start(launch)
    if pid:
        reach("shepherd-started")
        _say_started(launch["page"])
        code = exit_code(_wait(pid, input_fd, launch))
        reach("shepherd-waited")
        _end_descendants()
        reach("shepherd-tree-gone")
        if launch["tty"]:
            from weft.node.shepherd.task_input import copy_rest

            copy_rest(MASTER, launch["log"])
    oom = risen(kills_before, counts(launch["oom_counters"])) if code else ""
    _write_status(code, message, oom)


def become_subreaper() -> None:
    """Orphans among our descendants become our children, so that none is out of sight."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def record(folder: str, boot_id: str, pid: int) -> bool:
    """Record that this task exists and its shepherd; False if that is recorded already. It appears whole.

    From this instant the attempt exists. Said with pid 0, it means that the task will never be started.
    """
    start = procfs.start_time(pid) if pid else 0
    draft = _write_draft(f"{folder}/.shepherd", f'{{"pid": {pid}, "start": {start}, "boot_id": "{boot_id}"}}\n')
    try:
        os.link(draft, f"{folder}/shepherd.json")
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(launch: dict[str, Any]) -> tuple[int, int, str, int]:
    """The pid of the command, once it has taken the place of our copy, and where its input goes (-1: nowhere).

    Without a pid: its exit code, and why it could not be started.
    """
    try:
        reading, writing = os.pipe()
        streams, input_fd = _streams(launch)
        pid, is_inside = fork_into(launch["cgroup"])
    except OSError as error:
        return 0, NOT_EXECUTABLE, f"it cannot be started: {error}", -1
    if pid == 0:
        _become(launch, streams, writing, is_inside)
    reach("shepherd-forked")
    for fd in {writing, *streams}:
        os.close(fd)
    answer = os.read(reading, 4096)  # nothing, if it closes because the command runs
    os.close(reading)
    if not answer:
        return pid, 0, "", input_fd
    os.waitpid(pid, 0)
    code, message = marshal.loads(answer)  # noqa: S302 - of our own child
    return 0, code, message, -1


def _streams(launch: dict[str, Any]) -> tuple[tuple[int, int, int], int]:
    """The three standard streams of the command, and the end through which it gets input (-1: none)."""
    if launch["tty"]:
        os.set_inheritable(MASTER, False)
        os.set_inheritable(SLAVE, False)
        return (SLAVE, SLAVE, SLAVE), MASTER
    output = open_log(launch["log"])
    errors = open_log(launch["errors"]) if launch["errors"] else output
    if launch["stdin"]:
        reading, writing = os.pipe()
        return (reading, output, errors), writing
    return (os.open("/dev/null", os.O_RDONLY), output, errors), -1


def open_log(path: str) -> int:
    """What is written goes to the end of what earlier attempts wrote. A pipe or a link in its place is an error."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    os.set_blocking(fd, True)
    return fd


def _become(launch: dict[str, Any], streams: tuple[int, int, int], writing: int, is_inside: bool) -> NoReturn:
    """In the copy of us: become the command."""
    command, env = launch["command"], launch["env"]
    try:
        if launch["cgroup"] and not is_inside:
            _enter(launch["cgroup"], is_required=launch["needs_cgroup"])
        os.setsid()
        say_task(launch["page"], os.getpid())
        if launch["tty"]:
            import termios

            fcntl.ioctl(SLAVE, termios.TIOCSCTTY, 0)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        if launch["cores"]:
            os.sched_setaffinity(0, launch["cores"])
        os.umask(launch["umask"])
        signals_as_bare()
        descriptors_as_bare()
        try:
            os.chdir(launch["cwd"])
        except OSError as error:
            why = (error.strerror or "").lower()
            _give_up(writing, f"its folder {launch['cwd']} cannot be entered: {why}", "", NOT_EXECUTABLE)
        limit_memory(launch["limit_bytes"])
        try:
            os.execvpe(command[0], command, env)  # noqa: S606 - to run it is what we are asked
        except OSError as error:
            _give_up(writing, *why_not_started(command[0], error.errno or 0, "run", env.get("PATH")))
        except ValueError as error:  # a NUL in an argument, say
            _give_up(writing, f"it cannot be run: {error}", "", NOT_EXECUTABLE)
    except OSError as error:
        _give_up(writing, f"it cannot be started: {error}", "", NOT_EXECUTABLE)
    finally:
        os._exit(NOT_FOUND)


def _enter(cgroup: str, is_required: bool) -> None:
    """Where it cannot be entered any more, the command runs without it: its processes are found by scans as well."""
    try:
        enter(cgroup)
    except OSError:
        if is_required:
            raise


def _give_up(writing: int, message: str, hint: str, code: int) -> NoReturn:
    """Say why: in the output, and to the shepherd."""
    text = f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    os.write(2, text.encode("utf-8", "replace"))
    os.write(writing, marshal.dumps((code, message[:1000])))
    os._exit(code)


def say_task(page: str, pid: int) -> None:
    """Name the leader of the task on its page. The page may be gone; the task runs all the same."""
    _say(page, layout.TASK_START, procfs.start_time(pid))
    _say(page, layout.TASK_PID, pid)


def _say_started(page: str) -> None:
    """Name ourselves as its launcher: only now is the command really there."""
    _say(page, layout.LAUNCHER_START, procfs.start_time(os.getpid()))
    _say(page, layout.LAUNCHER_PID, os.getpid())


def _say(page: str, word: int, number: int) -> None:
    try:
        fd = os.open(page, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return
    try:  # noqa: SIM105 - contextlib takes its time to load
        os.pwrite(fd, struct.pack("=Q", number), word * 8)
    except OSError:  # a pipe, say
        pass
    os.close(fd)


def _wait(pid: int, input_fd: int, launch: dict[str, Any]) -> int:
    """The wait status of the command, once it has ended. Others that end meanwhile were orphans."""
    if input_fd >= 0:
        from weft.node.shepherd.task_input import feed  # loads what takes its time, while the command runs

        return feed(pid, input_fd, launch)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def _end_descendants() -> None:
    """Kill whatever the command left behind. Without a child left we have no descendant: orphans come to us.

    So it is enough to kill children, whose numbers stay theirs until we wait for them, again and again.
    """
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            for child in _children():
                _kill(child)
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Of ours. The kernel's own list is read in less time than a process takes to fork and exit."""
    me = os.getpid()
    listed = procfs.children(me)
    if listed:
        return listed
    parents = {int(name): procfs.fields(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    return [pid for pid, fields in parents.items() if fields and int(fields[procfs.PARENT]) == me]


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib takes its time to load
        os.kill(pid, SIGKILL)
    except OSError:  # it has ended, or is another user's: then we wait for it
        pass


def _write_status(code: int, message: str, oom: str) -> None:
    peak_bytes = 1024 * getrusage(RUSAGE_CHILDREN).ru_maxrss
    while True:
        try:
            write_status(".", code, message, by="shepherd", oom=oom, peak_bytes=peak_bytes)
        except FileNotFoundError:  # the home folder was removed: no coordinator will ask
            return
        except OSError:  # a full disk; no other process knows the status, so we wait for room
            time.sleep(RETRY_S)
        else:
            reach("shepherd-status-named")
            return


def write_status(folder: str, code: int, message: str, by: str, oom: str = "", peak_bytes: int = 0) -> None:
    """How the task ended, on the disk once this returns. `at_s` tells which rank of a gang was first.

    If it is by the shepherd, nothing that the command started lives any more.
    """
    said = f'"exit_code": {code}, "at_s": {time.monotonic()!r}, "by": "{by}", "message": {_quoted(message)}'
    said += f', "oom": "{oom}", "peak_bytes": {peak_bytes}'
    draft = _write_draft(f"{folder}/.status", f"{{{said}}}\n")
    reach(by + "-status-written")
    try:
        os.replace(draft, f"{folder}/status.json")
    except IsADirectoryError:  # the job has put a folder there
        os.rename(f"{folder}/status.json", f"{folder}/.aside-{os.urandom(8).hex()}")
        os.replace(draft, f"{folder}/status.json")


def _write_draft(prefix: str, text: str) -> str:
    """A new file on the disk, under a name that a job cannot have put something else under."""
    draft = f"{prefix}-{os.urandom(8).hex()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    return draft


def _quoted(message: str) -> str:
    if not message:
        return '""'
    import json  # slow to load, and seldom needed

    return json.dumps(message)


def counts(counters: dict[str, str]) -> dict[str, int]:
    """What each counter file says; a file that is not there counts nothing."""
    return {scope: _count(path) for scope, path in counters.items()}


def risen(before: dict[str, int], after: dict[str, int]) -> str:
    """The innermost scope in which something was killed meanwhile; empty if nothing was."""
    return next((scope for scope, count in after.items() if count > before.get(scope, 0)), "")


def _count(path: str) -> int:
    """`oom_kill N` stands in memory.events, in memory.oom_control of cgroups v1, and in /proc/vmstat."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        for line in os.read(fd, MOST_BYTES).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    finally:
        os.close(fd)
    return 0
