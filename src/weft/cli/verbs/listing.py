"""`weft history` and `weft nodes`: ended jobs, the events of one job, and the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.completion import complete_job
from weft.cli.render.job_text import letters, reason
from weft.cli.render.quantities import clock, count, local_time, printable, shortened, size
from weft.cli.render.tables import note_more, show_json, show_table

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
