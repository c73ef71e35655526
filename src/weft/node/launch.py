"""A command started as a task: the runtime in its environment, a control page, a process group of its own."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals

import weft.runtime
from weft.core.errors import InputError, WeftError
from weft.node import serving
from weft.node.bare import NOT_FOUND, limit_memory, signals_as_bare, why_not_started
from weft.node.control_page import ControlPage
from weft.node.terminal import Terminal
from weft.node.watching import Mask, Watched
from weft.runtime import allocator
from weft.runtime.page import layout
from weft.runtime.page.page_file import start_time

INJECT = str(Path(weft.runtime.__file__).parent / "inject")


class CommandError(InputError):
    """The command cannot be started; `exit_code` is what a shell would answer."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def environment(base: Mapping[str, str], page: Path, checkpoints: Path | None) -> dict[str, str]:
    """The environment in which every Python interpreter of the command finds the runtime, and the runtime its page."""
    chosen = dict(base)
    _forget_outer(chosen)
    chosen["WEFT_PAGE"] = str(page.absolute())
    if checkpoints:
        chosen["WEFT_CHECKPOINTS"] = str(checkpoints.absolute())
    # An entry left empty means the current directory, so none is added and those that are there stay.
    before = base.get("PYTHONPATH")
    entries = [entry for entry in before.split(":") if entry != INJECT] if before else []
    chosen["PYTHONPATH"] = ":".join([INJECT, *entries])
    return chosen


def _forget_outer(env: dict[str, str]) -> None:
    """What a weft exec around us said to its command; whether the library is under this one is said elsewhere."""
    for name in ("WEFT_CHECKPOINTS", *serving.SAID):
        env.pop(name, None)
    if allocator.FILE in env.get("LD_PRELOAD", ""):
        others = serving.others_preloaded(env.pop("LD_PRELOAD"))
        env |= {"LD_PRELOAD": ":".join(others)} if others else {}


def run(command: Sequence[str], page: ControlPage, env: Mapping[str, str], mask: Mask, process_bytes: int = 0) -> int:
    """Run a command to its end; its exit code, or 128 + N if signal N ended it.

    `process_bytes` bounds the private memory of each of its processes; 0: nothing does. `mask` is what `signals_held`
    gave, within which this is called. A Ctrl-C that ended the command comes out of it as KeyboardInterrupt: without
    weft, it would have reached us as well.
    """
    terminal = Terminal()
    try:
        pid = _start(command, page, env, mask, process_bytes, terminal)
        code = os.waitstatus_to_exitcode(Watched(pid, page, terminal).wait())
        if terminal.take_back(pid) and code == -Signals.SIGINT:
            os.killpg(0, Signals.SIGINT)
    finally:
        terminal.close()
    return code if code >= 0 else 128 - code


def _start(
    command: Sequence[str],
    page: ControlPage,
    env: Mapping[str, str],
    mask: Mask,
    process_bytes: int,
    terminal: Terminal,
) -> int:
    """The pid of the command, once it has taken the place of our copy; raises CommandError if it could not."""
    lend = os.isatty(0) and terminal.is_ours()
    on_death = signal.signal(Signals.SIGCHLD, signal.SIG_DFL)  # ignored, its end would leave no status
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise WeftError(f"no process can be started: {error.strerror}", "is there a limit? ulimit -u") from error
    if pid == 0:
        try:
            os.setpgid(0, 0)
            if lend:
                terminal.lend(os.getpid())
            page.words[layout.TASK_START] = start_time(os.getpid())
            page.words[layout.TASK_PID] = os.getpid()
            _as_bare(mask, on_death)
            limit_memory(process_bytes)
            os.execvpe(command[0], list(command), env)  # noqa: S606 - to run it is what we are asked
        except OSError as error:
            os.write(writing, struct.pack("i", error.errno))
        finally:
            os._exit(NOT_FOUND)
    os.close(writing)
    answer = os.read(reading, 4)  # nothing, if it closes because the command runs
    os.close(reading)
    if answer:
        os.waitpid(pid, 0)
        terminal.take_back(pid)
        (number,) = struct.unpack("i", answer)
        raise CommandError(*why_not_started(command[0], number, "exec"))
    return pid


def _as_bare(mask: Mask, on_death: object) -> None:
    """Signals as if the command had been started without us."""
    signals_as_bare()
    if on_death == signal.SIG_IGN:
        signal.signal(Signals.SIGCHLD, signal.SIG_IGN)
    if signal.getsignal(Signals.SIGINT) != signal.SIG_IGN:
        signal.signal(Signals.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
