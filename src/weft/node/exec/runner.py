"""A command started as a task by `weft exec`: its process group, its signals, its terminal, its end."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from signal import Signals

from weft.core.errors import InputError, WeftError
from weft.node.shepherd.command import NOT_FOUND, limit_memory, signals_as_bare, why_not_started
from weft.node.task.control_page import ControlPage
from weft.node.task.page_snapshot import DamagedPageError
from weft.runtime.page import layout
from weft.runtime.page.page_file import start_time
from weft.system import processes

ENDING = {Signals.SIGTERM, Signals.SIGHUP, Signals.SIGINT, Signals.SIGQUIT}
PASSED_ON = ENDING | {Signals.SIGUSR1, Signals.SIGUSR2, Signals.SIGWINCH}
JOB_CONTROL = {Signals.SIGTSTP, Signals.SIGCONT, Signals.SIGTTOU}
HELD = PASSED_ON | JOB_CONTROL | {Signals.SIGCHLD}
OF_THE_TERMINAL = {Signals.SIGTTIN, Signals.SIGTTOU}  # sent to a process that uses another group's terminal

Mask = set[int | Signals]


class Terminal:
    """The controlling terminal, if there is one. Callers have SIGTTOU blocked, or `lend` may stop them.

    A terminal that goes away in the middle is no error: its group gets SIGHUP.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        with suppress(OSError):
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def is_with(self, group: int) -> bool:
        if self._fd is None:
            return False
        try:
            return os.tcgetpgrp(self._fd) == group
        except OSError:
            return False

    def is_ours(self) -> bool:
        return self.is_with(os.getpgrp())

    def lend(self, group: int) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._fd, group)

    def take_back(self, group: int) -> bool:
        """Whether this group had it. A third one that has it keeps it."""
        if not self.is_with(group):
            return False
        self.lend(os.getpgrp())
        return True

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


@contextmanager
def signals_held() -> Iterator[Mask]:
    """Signals wait until `Watched.wait` takes them, so that none comes unseen, or else until the end of this context.

    Gives the signal mask of before. A signal that we were told to ignore (nohup) is held as well: the command was told
    the same, and may have thought otherwise since.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class LaunchedCommand:
    """A command in a process group of its own, which its pid names."""

    def __init__(self, pid: int, page: ControlPage, terminal: Terminal) -> None:
        self._group = pid
        self._page = page
        self._terminal = terminal

    def wait(self) -> int:
        """Its wait status, once it has ended. Signals must be held from before it was started."""
        while True:
            received = Signals(signal.sigwait(HELD))
            if received == Signals.SIGCHLD:
                pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED)
                if pid and os.WIFSTOPPED(status):
                    self._has_stopped(Signals(os.WSTOPSIG(status)))
                elif pid:
                    self._forget_signals()
                    return status
            elif received == Signals.SIGTSTP:
                self._send(received)
                if not self._stop(os.getpid(), received):
                    self._continue(lend=False)
            elif received == Signals.SIGCONT:
                self._continue(lend=os.isatty(0))
            elif received in PASSED_ON:
                self._send(received)
                if received in ENDING:
                    self._wake()

    def _has_stopped(self, by: Signals) -> None:
        """Ctrl-Z, or a terminal it may not use. A stop by SIGSTOP is a pause, and left alone."""
        if by in OF_THE_TERMINAL and self._terminal.is_ours():
            self._continue(lend=True)
        elif by in OF_THE_TERMINAL:
            self._stop(0, by)
        elif by == Signals.SIGTSTP and self._terminal.take_back(self._group) and not self._stop(0, by):
            self._continue(lend=True)

    def _stop(self, target: int, by: Signals) -> bool:
        """Stop ourselves, or our whole group (0) as the terminal would have done.

        False if the kernel declines, because no shell is left that could ever continue us: then Ctrl-Z does nothing.
        """
        os.kill(target, by)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {by})
        signal.pthread_sigmask(signal.SIG_BLOCK, {by})
        return Signals.SIGCONT in signal.sigpending()

    def _continue(self, lend: bool) -> None:
        if lend and self._terminal.is_ours():
            self._terminal.lend(self._group)
        if not self._is_stopped:  # a paused task goes on when the pause ends, not before
            self._send(Signals.SIGCONT)

    @property
    def _is_stopped(self) -> bool:
        """By a pause, as far as its page can be read."""
        try:
            return self._page.words[layout.STOPPED] != 0
        except DamagedPageError:
            return False

    def _wake(self) -> None:
        """A stopped process would not notice that it should end. A pause stops those outside the group as well."""
        if self._is_stopped:
            processes.go_on([self._group])  # before the leader runs and ends: its children are found through it
        self._send(Signals.SIGCONT)

    def _send(self, number: Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)

    def _forget_signals(self) -> None:
        """Signals for a command that has ended are dropped."""
        while signal.sigtimedwait(HELD, 0):
            pass


class CommandError(InputError):
    """The command cannot be started; `exit_code` is what a shell would answer."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def run(command: Sequence[str], page: ControlPage, env: Mapping[str, str], mask: Mask, process_bytes: int = 0) -> int:
    """Run a command to its end; its exit code, or 128 + N if signal N ended it.

    `process_bytes` bounds the private memory of each of its processes; 0: nothing does. `mask` is what `signals_held`
    gave, within which this is called. A Ctrl-C that ended the command comes out of it as KeyboardInterrupt: without
    weft, it would have reached us as well.
    """
    terminal = Terminal()
    try:
        pid = _start(command, page, env, mask, process_bytes, terminal)
        code = os.waitstatus_to_exitcode(LaunchedCommand(pid, page, terminal).wait())
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
