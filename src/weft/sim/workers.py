"""The runs of several policies side by side, each in a process of its own."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, MutableSequence, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import active_children, forkserver, get_context, parent_process, resource_tracker

from weft.core.errors import InputError, WeftError
from weft.policies.loader import NamedPolicy
from weft.sim.api import run
from weft.sim.request import ProgressListener, Request
from weft.sim.results.summary import PolicyRun

LOOK_EVERY_S = 0.1
# A worker is forked from a server that has none of the caller's threads and has loaded this module once for all.
CONTEXT = get_context("forkserver")


def start_server() -> None:
    """Start the server that workers are forked from, unless it runs already.

    It starts with Ctrl-C blocked, and so do its workers: the caller's process alone answers that, and ends them.
    """
    CONTEXT.set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # before the signal is blocked, because this unblocks it
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)


def run_apart(
    request: Request, asked: Sequence[NamedPolicy], workers: int, watcher: ProgressListener
) -> list[PolicyRun]:
    """The runs in the order asked. Whatever ends this early ends the workers, too."""
    _check_sendable(asked)
    start_server()
    finished = CONTEXT.RawArray("q", len(asked))
    others = set(active_children())
    with ProcessPoolExecutor(workers, CONTEXT, _begin, (request, finished)) as pool:
        try:
            futures = [pool.submit(_run_at, at, named) for at, named in enumerate(asked)]
            runs = _results(futures, lambda: watcher.progressed(finished))
        except BrokenProcessPool as error:
            raise WeftError(
                "a worker process ended in the middle of its run",
                "was there enough memory? with --workers 1 the policies run one after the other",
            ) from error
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()
            raise
    return [_with_names(each, request) for each in runs]


def _results(futures: Sequence[Future[PolicyRun]], look: Callable[[], None]) -> list[PolicyRun]:
    """All of them, or the first exception as soon as there is one."""
    waiting = set(futures)
    while waiting:
        done, waiting = wait(futures, LOOK_EVERY_S, FIRST_EXCEPTION)
        for future in done:
            future.result()
        look()
    return [future.result() for future in futures]


def _check_sendable(asked: Sequence[NamedPolicy]) -> None:
    for named in asked:
        try:
            pickle.dumps(named)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"{named.label} cannot be sent to another process: {error}",
                "define it at the top of a module, or use one worker",
            ) from error


def _with_names(each: PolicyRun, request: Request) -> PolicyRun:
    trace = request.trace
    ids, tenants, classes = trace.ids, trace.tenants_by_job, trace.classes_by_job
    return replace(each, jobs=replace(each.jobs, ids=ids, tenants=tenants, classes=classes))


# ---- in the worker --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkerChannel:
    """What a worker is given once, for all its runs."""

    request: Request
    finished: MutableSequence[int]
    """How far each run is; its worker writes, the caller reads."""


_channel: list[WorkerChannel] = []


def _begin(request: Request, finished: MutableSequence[int]) -> None:
    threading.Thread(target=_end_with_caller, daemon=True).start()
    _channel.append(WorkerChannel(request, finished))


def _end_with_caller() -> None:
    caller = parent_process()
    if caller:
        caller.join()
        os._exit(1)


def _run_at(at: int, named: NamedPolicy) -> PolicyRun:
    channel = _channel[0]
    each = run(channel.request, named, lambda count: channel.finished.__setitem__(at, count))
    # The caller has the names of the jobs; they would be most of what is sent back.
    return replace(each, jobs=replace(each.jobs, ids=(), tenants=(), classes=()))
