"""Ends of processes as they come: of shepherds by their pidfd, ours or adopted, and of all who become our children."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from weft.node.tending import become_subreaper
from weft.system import processes

T = TypeVar("T")

log = logging.getLogger(__name__)


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

    `record` is told the pid and the exit code of each before its status is gone: who is killed in between leaves it to
    nobody, but at worst it is told twice.
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
    """What `work` returns or raises. The thread keeps nobody from ending: what it does is safe to be cut off."""
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
