"""Simulating from a program, and from the command line, which is one."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from weft.core.errors import InputError
from weft.core.values import Cluster
from weft.core.view import Decider
from weft.policies.loader import NamedPolicy, policies_asked
from weft.policies.order.keyed import KeyedOrder
from weft.sim.engine import Simulation
from weft.sim.request import Misfit, ProgressListener, Request, cluster_text, parse_cluster
from weft.sim.results.report import write_report
from weft.sim.results.result_files import JOB_COLUMNS, as_json, class_rows, job_rows, json_text
from weft.sim.results.summary import PolicyRun
from weft.sim.results.text_table import render_table
from weft.sim.trace import Trace, TraceJob, read_trace
from weft.sim.world import World, load_world

if TYPE_CHECKING:
    from pandas import DataFrame


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
    watcher: ProgressListener | None = None,
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
    watcher = watcher or ProgressListener()
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


def run(request: Request, named: NamedPolicy, watch: Callable[[int], None]) -> PolicyRun:
    started_s = time.perf_counter()
    simulation = Simulation(
        request.trace, request.cluster, named.build(), request.world, request.seed, watch, request.quotas
    )
    with _no_garbage_collection():
        simulation.run()
    wall_s = time.perf_counter() - started_s
    return PolicyRun(
        policy=named.label,
        parameters={**named.parameters, **request.parameters},
        trace=request.trace.name,
        cluster=cluster_text(request.cluster),
        device_count=request.cluster.device_count,
        seed=request.seed,
        jobs=simulation.jobs(),
        timeline=simulation.timeline(),
        events=simulation.events,
        wall_s=wall_s,
        heeds_classes=simulation.scheduler.heeds_classes,
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A simulation makes no reference cycles; looking for them takes a twentieth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _run_apart(
    request: Request, asked: Sequence[NamedPolicy], workers: int, watcher: ProgressListener
) -> list[PolicyRun]:
    from weft.sim.workers import run_apart

    return run_apart(request, asked, workers, watcher)


def _run_here(request: Request, asked: Sequence[NamedPolicy], watcher: ProgressListener) -> list[PolicyRun]:
    finished = [0] * len(asked)

    def watch(at: int) -> Callable[[int], None]:
        def report(count: int) -> None:
            finished[at] = count
            watcher.progressed(finished)

        return report

    return [run(request, named, watch(at)) for at, named in enumerate(asked)]


# ---- What a simulation hands back to a program: its runs, and every way to look at them.

TEXT_WIDTH = 80
NESTED = ("parameters", "bins", "classes")


@dataclass(frozen=True)
class Results:
    """The runs of one simulation, one a policy; printing it shows the tables."""

    runs: tuple[PolicyRun, ...]
    skipped: tuple[Misfit, ...] = ()
    """Jobs of the trace that could never run here and are in no run."""

    def __iter__(self) -> Iterator[PolicyRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, which: int | str) -> PolicyRun:
        """By position, or by the text that asked for the policy; the first if it was asked for twice."""
        if not isinstance(which, str):
            return self.runs[which]
        for one in self.runs:
            if one.policy == which:
                return one
        raise KeyError(f"no run of {which}; the policies: {', '.join(run.policy for run in self.runs)}")

    def __str__(self) -> str:
        text = io.StringIO()
        render_table(self.runs, Console(file=text, width=TEXT_WIDTH, color_system=None))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def to_json(self) -> str:
        return json_text(self.runs, self.skipped)

    def to_frame(self) -> DataFrame:
        """One row a policy, with every column of the JSON output that is a single value."""
        rows = as_json(self.runs)["runs"]
        return _pandas().DataFrame([{key: row[key] for key in row if key not in NESTED} for row in rows])

    def classes_frame(self) -> DataFrame:
        """One row per policy and class that some job asked for, and one per policy for all jobs."""
        return _pandas().DataFrame(list(class_rows(self.runs)))

    def jobs_frame(self) -> DataFrame:
        """One row per job and policy, with the columns of the CSV output."""
        return _pandas().DataFrame(list(job_rows(self.runs)), columns=list(JOB_COLUMNS))

    def report(self, path: Path | str, title: str | None = None) -> None:
        first = self.runs[0]
        title = f"{first.trace} on {first.cluster}" if title is None else title
        write_report(self.runs, path, title, self.skipped)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError("a data frame needs pandas, which is not installed", "pip install 'weft[sim]'") from error
    return pandas
