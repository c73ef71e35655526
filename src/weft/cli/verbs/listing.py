"""`weft history`, `weft nodes` and `weft policies`: ended jobs, the events of one job, devices, and policies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import complete_job, complete_policy
from weft.cli.render.job_text import letters, reason
from weft.cli.render.tables import (
    clock,
    count,
    local_time,
    note_more,
    printable,
    shortened,
    show_json,
    show_table,
    size,
)
from weft.core.errors import InputError

if TYPE_CHECKING:
    from weft.client import Client


HISTORY_HEADS = ("ID", "NAME", "TENANT", "ST", "EXIT", "SUBMITTED", "WAITED", "TIME", "STEPS", "PREEMPTED", "REASON")


@click.command(short_help="List ended jobs, or the events of one job.")
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=complete_job)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="At most N jobs.")
@click.option("--json", "is_json", is_flag=True, help="Print a list as JSON.")
def history(job_id: str | None, limit: int, is_json: bool) -> None:
    """List the jobs that have ended, the latest first; with an ID, the events of that job, in order.

    TIME is how long it ran; for a guest, in proportion to its share of the devices. WAITED is the time since submission
    without devices, except while held. PREEMPTED is how often it was preempted.
    """
    from weft.client import Client

    if job_id is not None:
        events = Client().events(job_id)
        if is_json:
            show_json(events)
        for event in () if is_json else events:
            click.echo(f"{local_time(event['at'])}  {printable(event['text'])}")
        return
    client = Client()
    jobs = client.history(limit)
    if is_json:
        show_json(jobs)
        _note_more(client, len(jobs), limit)
        return
    rows = [
        (
            job["id"],
            shortened(job["name"] or ""),
            job["tenant"],
            letters(job["state"]),
            count(job["exit_code"]),
            local_time(job["submitted_at"]),
            clock(job["wait_s"]),
            clock(job["run_s"]),
            count(job["steps"]),
            count(job["preemptions"]),
            reason(job),
        )
        for job in jobs
    ]
    show_table(HISTORY_HEADS, rows, goes=("TENANT", "PREEMPTED", "SUBMITTED", "STEPS", "EXIT"))
    _note_more(client, len(jobs), limit)


def _note_more(client: Client, shown: int, limit: int) -> None:
    total = shown if shown < limit else int(client.history_page(limit=1).get("total", shown))
    note_more(shown, total, f"weft history --limit {total} lists all")


NODE_HEADS = ("NODE", "NODE STATE", "DEVICE", "TYPE", "MEMORY", "USED", "CORES", "STATE", "JOBS")


@click.command(short_help="List nodes and their devices.")
@click.option("--json", "is_json", is_flag=True, help="Print a list of nodes as JSON.")
def nodes(is_json: bool) -> None:
    """List nodes and their devices, and which jobs are on them.

    A device is free, busy, or unmanaged: a process that is not weft's uses it, so weft places no job there. USED is the
    memory that PyTorch holds in the jobs on it, where that is measured.
    """
    from weft.client import Client

    found = Client().nodes()
    if is_json:
        show_json(found)
        return
    rows = [
        (
            node["name"],
            node["state"],
            f"{device['kind']}:{device['index']}",
            device["type"],
            size(device["memory_bytes"]),
            size(device.get("used_bytes")),
            ",".join(map(str, device["cores"] or [])),
            device["state"],
            ",".join(device["jobs"]) or device["blocked_by"] or "",
        )
        for node in found
        for device in node["devices"]
    ]
    show_table(NODE_HEADS, rows)
    for node in found:
        if node.get("cpus_declared"):
            declared = f"{node['cpus_declared']} of {node['cpus']} CPU cores are declared by jobs (--cpus)"
            click.echo(f"{node['name']}: {declared}")


WIDTH = 80


@click.command()
@click.argument("name", required=False, shell_complete=complete_policy)
def policies(name: str | None) -> None:
    """List the policies and their parameters, or explain the policy NAME.

    Each parameter is shown with its default.
    """
    # Loaded here, as in the other verbs: `weft --version` should not wait for numpy.
    from weft.policies.loader import registered
    from weft.policies.registry import PARAMETERS, POLICIES

    if name:
        make = registered(name)
        _describe(name, make)
        for key, word in _words(make).items():
            _explain(word, PARAMETERS[key])
        return
    for each, make in POLICIES.items():
        _describe(each, make)
        if _words(make):
            click.echo(_indented(f"parameters: {', '.join(_words(make).values())}"))
    click.secho("\nParameters", bold=True)
    for key, meaning in PARAMETERS.items():
        _explain(key, meaning)
    click.echo("\nGive parameters as in  tiresias-l:thresholds=300/1200:promote_knob=8")
    click.echo("Your own policy needs no registration:  path/to/file.py:Name:key=value")


def _describe(name: str, make: Callable[..., Any]) -> None:
    from weft.policies.loader import policies_asked

    try:
        heeds_classes = policies_asked(name)[0].heeds_classes
        more = " It heeds quotas and classes: opportunistic jobs yield." if heeds_classes else ""
    except InputError as error:  # an extra is not installed
        more = f" Not available here: {error.hint}."
    click.secho(name, bold=True)
    click.echo(_indented(f"{inspect.getdoc(make) or ''}{more}"))


def _words(make: Callable[..., Any]) -> dict[str, str]:
    """Each parameter with its default, as one would type it."""
    from weft.policies.loader import as_typed, declared

    return {key: f"{key}={as_typed(each.default)}" for key, each in declared(make).items()}


def _explain(parameter: str, meaning: str) -> None:
    click.echo(f"  {parameter}")
    click.echo(_indented(meaning, "      "))


def _indented(text: str, indent: str = "  ") -> str:
    return click.wrap_text(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
