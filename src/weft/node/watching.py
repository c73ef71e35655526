"""A launched command as a shell would see it: signals reach it, Ctrl-Z stops it, its end is noticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import Signals

from weft.node.control_page import ControlPage
from weft.node.snapshot import DamagedPageError
from weft.node.terminal import Terminal
from weft.runtime.page import layout
from weft.system import processes

ENDING = {Signals.SIGTERM, Signals.SIGHUP, Signals.SIGINT, Signals.SIGQUIT}
PASSED_ON = ENDING | {Signals.SIGUSR1, Signals.SIGUSR2, Signals.SIGWINCH}
JOB_CONTROL = {Signals.SIGTSTP, Signals.SIGCONT, Signals.SIGTTOU}
HELD = PASSED_ON | JOB_CONTROL | {Signals.SIGCHLD}
OF_THE_TERMINAL = {Signals.SIGTTIN, Signals.SIGTTOU}  # sent to who uses a terminal that another group has

Mask = set[int | Signals]


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


class Watched:
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
                    self._go_on(lend=False)
            elif received == Signals.SIGCONT:
                self._go_on(lend=os.isatty(0))
            elif received in PASSED_ON:
                self._send(received)
                if received in ENDING:
                    self._wake()

    def _has_stopped(self, by: Signals) -> None:
        """Ctrl-Z, or a terminal it may not use. A pause stops it with SIGSTOP; that is between it and who asked."""
        if by in OF_THE_TERMINAL and self._terminal.is_ours():
            self._go_on(lend=True)
        elif by in OF_THE_TERMINAL:
            self._stop(0, by)
        elif by == Signals.SIGTSTP and self._terminal.take_back(self._group) and not self._stop(0, by):
            self._go_on(lend=True)

    def _stop(self, whom: int, by: Signals) -> bool:
        """Stop ourselves, or our whole group (0) as the terminal would have done.

        False if the kernel declines, because no shell is left that could ever continue us: then Ctrl-Z does nothing.
        """
        os.kill(whom, by)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {by})
        signal.pthread_sigmask(signal.SIG_BLOCK, {by})
        return Signals.SIGCONT in signal.sigpending()

    def _go_on(self, lend: bool) -> None:
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
        """What came for a command that has ended is nobody's."""
        while signal.sigtimedwait(HELD, 0):
            pass
