"""`weft simulate`: jobs of a trace, on a cluster, under one policy or several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from weft.cli.completion import SAMPLE, complete_form, complete_policies, complete_trace, complete_world
from weft.core.errors import InputError
from weft.system.extras import require_packages

if TYPE_CHECKING:
    from weft.sim.api import Results
    from weft.sim.past_jobs import PastJobs


SAMPLE_CLUSTER = "4x4"
DEFAULT_POLICIES = "fifo,tiresias-l,weft"
MOST_JOBS = 1_000_000


@click.command(short_help="Simulate a trace on a cluster under one policy or several.")
@click.argument("traces", nargs=-1, metavar="TRACE...", type=click.Path(), shell_complete=complete_trace)
@click.option(
    "--cluster",
    metavar="SHAPE",
    help=f"Nodes x devices per node, types after a colon: 64x8, or 64x8:V100,16x4:K80. "
    f"Only the trace {SAMPLE} has a default: {SAMPLE_CLUSTER}.",
)
@click.option(
    "--policy",
    "policies",
    metavar="NAMES",
    multiple=True,
    default=[DEFAULT_POLICIES],
    shell_complete=complete_policies,
    help="What to compare, with commas between; the first is what the others are measured against. Parameters: "
    "NAME:key=value:key=value, lists with slashes. Your own: path/to/file.py:Name. See weft policies.  "
    f"[default: {DEFAULT_POLICIES}]",
)
@click.option(
    "--history",
    is_flag=True,
    help="Instead of a trace: the jobs that this weft has run, on its own devices, with preemption for free. "
    "Jobs that are too large for the devices are skipped, and named.",
)
@click.option("--jobs", type=int, metavar="N", help="Only the first N jobs by arrival.")
@click.option(
    "--world",
    metavar="NAME|FILE",
    shell_complete=complete_world,
    help="What preemption costs and how fast jobs run: ideal (only counts matter, preemption is free), default, "
    "or a TOML file that changes values of the default.  [default: default; with --history, ideal]",
)
@click.option(
    "--quota",
    "quotas",
    metavar="TENANT=N",
    multiple=True,
    help="Devices that the guaranteed jobs of a tenant may hold at once; several times for several tenants.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws what the trace leaves open.")
@click.option(
    "--format",
    "form",
    metavar="FORM",
    shell_complete=complete_form,
    help="The form of the trace; found by itself if not given.",
)
@click.option("--json", metavar="FILE", type=click.Path(), help="Write the figures; - is standard output.")
@click.option("--csv", metavar="FILE", type=click.Path(), help="Write a row per job and policy.")
@click.option("--report", metavar="FILE.html", type=click.Path(), help="Write a page with tables and figures.")
@click.option("--workers", type=int, metavar="N", help="Policies that run at the same time.  [default: one per core]")
def simulate(
    traces: tuple[str, ...],
    cluster: str | None,
    policies: tuple[str, ...],
    history: bool,
    jobs: int | None,
    world: str | None,
    quotas: tuple[str, ...],
    seed: int,
    form: str | None,
    json: str | None,
    csv: str | None,
    report: str | None,
    workers: int | None,
) -> None:
    """Simulate the jobs of a trace on a cluster, under one policy or several.

    TRACE is a file, several files on one clock, or the word sample for the small trace that comes with weft.
    Its simplest form is CSV with a header: arrival, duration, gang, and more columns if you like.

    \b
    Examples:
      weft simulate sample
      weft simulate jobs.csv --cluster 64x8 --policy fifo,srsf,tiresias-l
      weft simulate jobs.csv --cluster 8x8:V100,16x4:K80 --report runs.html
      weft simulate jobs.csv --cluster 64x8 --policy tiresias-l:thresholds=300/1200:promote_knob=8
      weft simulate jobs.csv --cluster 64x8 --policy mine.py:ShortestName --json - | jq .
      weft simulate --history --policy fifo,tiresias-l,tiresias-g
    """
    require_packages("weft simulate", "numpy", "rich", *(["plotly"] if report else []))
    # Loaded here, because they bring numpy: help, completion and --version should not wait for it.
    from weft.cli.render.simulation import OutputFiles, print_results, simulation_notes
    from weft.sim.api import simulate as run

    outputs = OutputFiles(json, csv, report)
    outputs.check()
    past = _past(traces, jobs) if history else None
    with simulation_notes() as watcher:
        results = run(
            past.trace if past else traces,
            cluster=cluster or (past.cluster if past else _default_cluster(traces)),
            policy=policies,
            jobs=jobs,
            world=world or ("ideal" if past else "default"),
            seed=seed,
            quotas=dict(map(_quota, quotas)),
            workers=workers if workers is not None else len(os.sched_getaffinity(0)),
            form=form,
            skip_misfits=history,
            watcher=watcher,
        )
    outputs.write(results)
    print_results(results, to_stderr=outputs.uses_stdout)
    if past:
        _compare(past, results)


def _quota(text: str) -> tuple[str, int]:
    tenant, mark, devices = text.rpartition("=")
    if not mark or not tenant or not devices.isdecimal():
        raise InputError(f'"{text}" is no quota', "TENANT=N, e.g. --quota vision=32")
    return tenant, int(devices)


def _past(traces: tuple[str, ...], first: int | None) -> PastJobs:
    from weft.client import Client
    from weft.sim.past_jobs import past_jobs

    if traces:
        raise InputError("--history stands in place of a trace", f"leave out {traces[0]}, or leave out --history")
    with Client() as client:
        return past_jobs(client.history(limit=MOST_JOBS), client.nodes(), first)


def _compare(past: PastJobs, results: Results) -> None:
    from weft.core.text import duration_text
    from weft.sim.results.summary import summarise

    past_s = duration_text(past.mean_wait_s(results[0].jobs.ids))
    for each in results:
        wait_s = summarise(each).mean_queue_s
        click.echo(f"mean wait: {past_s} as it was → {duration_text(wait_s)} under {each.policy}", err=True)


def _default_cluster(traces: tuple[str, ...]) -> str:
    if traces == (SAMPLE,):
        return SAMPLE_CLUSTER
    if not traces:
        raise InputError("no trace is named", f"to begin with: weft simulate {SAMPLE}")
    raise InputError("no cluster is given", "e.g. --cluster 64x8 for 64 nodes of 8 devices each")
