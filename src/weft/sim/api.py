"""Simulating from a program, and from the command line, which is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.values import Cluster
from weft.core.view import Decider
from weft.policies.stages import KeyedOrder
from weft.sim.cluster import parse_cluster
from weft.sim.named import NamedPolicy, policies_asked
from weft.sim.request import Misfit, Request
from weft.sim.result import Run
from weft.sim.results import Results
from weft.sim.run import run
from weft.sim.trace import Trace, TraceJob, read_trace
from weft.sim.watcher import Watcher
from weft.sim.world import World, load_world

Jobs = str | Path | Sequence[str | Path] | Trace | Iterable[TraceJob]
Asked = str | Decider | KeyedOrder | Callable[..., Any]

SOONER_HERE_JOBS = 2_000
"""Fewer are simulated, one policy after the other, sooner than processes start."""
LONG_BYTES = 100_000
"""A file of this size has more jobs than that."""


def simulate(
    trace: Jobs,
    *,
    cluster: str | Cluster,
    policy: Asked | Iterable[Asked] = "weft",
    jobs: int | None = None,
    world: str | Path | World = "default",
    seed: int = 0,
    quotas: Mapping[str, int] | None = None,
    workers: int = 1,
    form: str | None = None,
    skip_misfits: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """Run each policy over the same jobs on the same cluster; the results are in the order of the policies.

    `trace` is a file or several, a Trace, or TraceJobs; `cluster` is like "64x8:V100". A policy is a text like
    "tiresias-l:thresholds=300/1200", a function or class that makes one, or a list of these. `jobs` takes the
    first so many by arrival. `quotas` are the devices for guaranteed jobs of each tenant. The seed draws what the
    trace leaves open: nothing else is left to chance. A job that can never run on the cluster is an error; with
    `skip_misfits` such jobs are left out of all runs, and are in `skipped` of the results.

    With more than one worker the policies run in processes of their own, which load the caller's main module:
    a script then needs the usual `if __name__ == "__main__":`.
    """
    for name, value, least in (("seed", seed, 0), ("workers", workers, 1), ("jobs", jobs, 1)):
        if value is not None and value < least:
            raise InputError(f"{name} is {value}", f"it is {least} or more")
    nodes = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    model = world if isinstance(world, World) else load_world(str(world))
    asked = policies_asked(policy)
    workers = min(workers, len(asked))
    if workers > 1 and (jobs is None or jobs >= SOONER_HERE_JOBS) and _has_long_file(trace):
        _start_server()  # it loads while the trace is read
    request = Request(_trace_of(trace, form, jobs), nodes, model, seed, quotas or {})
    watcher = watcher or Watcher()
    misfits: list[Misfit] = []
    if skip_misfits:
        jobs_given = len(request.trace)
        request, misfits = request.without_misfits()
        watcher.skipped(misfits, jobs_given)
    request.check()
    for named in asked:
        request.check_policy(named)
    watcher.begins(request.trace, [named.label for named in asked])
    apart = workers > 1 and len(request.trace) >= SOONER_HERE_JOBS
    runs = _run_apart(request, asked, workers, watcher) if apart else _run_here(request, asked, watcher)
    return Results(tuple(runs), tuple(misfits))


def _trace_of(given: Jobs, form: str | None, first: int | None) -> Trace:
    if not isinstance(given, Trace):
        items = [given] if isinstance(given, str | Path) else list(given)
        paths = [item for item in items if isinstance(item, str | Path)]
        given_jobs = [item for item in items if isinstance(item, TraceJob)]
        if len(paths) == len(items):
            return read_trace(paths, form=form, first=first)
        if len(given_jobs) < len(items):
            raise InputError("a trace is made of files or of TraceJobs", "not of both, nor of anything else")
        given = Trace.of(given_jobs)
    return given if first is None else given.first(first)


def _has_long_file(given: Jobs) -> bool:
    paths = [given] if isinstance(given, str | Path) else given if isinstance(given, tuple | list) else ()
    files = [Path(path) for path in paths if isinstance(path, str | Path)]
    return any(file.is_file() and file.stat().st_size > LONG_BYTES for file in files)


def _start_server() -> None:
    from weft.sim.workers import start_server

    start_server()


def _run_apart(request: Request, asked: Sequence[NamedPolicy], workers: int, watcher: Watcher) -> list[Run]:
    from weft.sim.workers import run_apart

    return run_apart(request, asked, workers, watcher)


def _run_here(request: Request, asked: Sequence[NamedPolicy], watcher: Watcher) -> list[Run]:
    finished = [0] * len(asked)

    def watch(at: int) -> Callable[[int], None]:
        def report(count: int) -> None:
            finished[at] = count
            watcher.progressed(finished)

        return report

    return [run(request, named, watch(at)) for at, named in enumerate(asked)]
