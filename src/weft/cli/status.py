"""`weft status`: jobs, in full."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import click

from weft.cli.ids import job_ids_argument
from weft.cli.shown import (
    clock,
    count,
    device_memory,
    devices,
    local_time,
    metrics,
    printable,
    rate,
    reason,
    restart,
    sharing,
    size,
)
from weft.core.text import count_of


@click.command(short_help="Show jobs in full, or an array in short.")
@job_ids_argument
@click.option("--json", "is_json", is_flag=True, help="Print the job as JSON; of several, a list.")
def status(job_ids: tuple[str, ...], is_json: bool) -> None:
    """Show jobs in full, one after the other.

    Of the number of an array, how many of its elements are in which state, and why those that wait or failed do.

    \b
    Examples:
      weft status 17
      weft status 17_3 18
    """
    from weft.cli.found import show_each

    show_each(job_ids, lambda client, job_id: client.status(job_id), _texts, is_json)


def _texts(job: dict[str, Any]) -> Iterator[str]:
    for name, text in _lines(job):
        if text and text != "-":
            yield f"{name + ':':<11} {printable(text)}"


def _lines(job: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "id", job["id"]
    yield "name", job["name"] or ""
    yield "state", job["state"] + (f" ({reason(job)})" if reason(job) else "")
    yield "exit code", count(job["exit_code"])
    if job.get("loss"):
        lost = job["loss"]
        why = f": {lost['message']}" if lost["message"] else ""
        yield "lost", f"attempt {lost['attempt']}, noticed {local_time(lost['at'])}{why}; {restart(job)}"
    elif job.get("losses"):
        yield "lost", f"{count_of(job['losses'], 'time')}; weft history {job['id']}"
    yield "position", count(job.get("position"))
    yield "tenant", f"{job['tenant']}, class {job['class']}"
    yield "command", shlex.join(job["command"])
    yield "folder", job["cwd"]
    yield "devices", devices(job)
    yield "sharing", sharing(job)
    yield "processes", " ".join(map(str, job.get("pids") or []))
    yield "attempt", count(job["attempt"]) + (f", retries {job['retries']}" if job.get("retries") else "")
    yield "after", " ".join(job.get("after") or [])
    yield "submitted", local_time(job["submitted_at"])
    yield "started", local_time(job["started_at"])
    yield "finished", local_time(job["finished_at"])
    yield "waited", clock(job.get("wait_s"))
    limit = f" of at most {clock(job['time_s'])}" if job.get("time_s") else ""
    yield "ran", clock(job.get("run_s")) + limit
    if job["steps"]:
        yield "steps", count(job["steps"]) + (f", {rate(job['step_rate_hz'])} a second" if job["step_rate_hz"] else "")
    elif job["state"] in ("RUNNING", "PAUSED"):
        yield "steps", "none seen yet; without steps, a pause stops its processes where they are"
    yield "reported", ", ".join(metrics(job))
    yield "ends in", clock(job.get("eta_s"))
    yield "memory", device_memory(job)
    yield "on host", size(job["host_bytes"]) if job.get("host_bytes") else ""
    if job.get("preemptions"):
        yield "preempted", f"{count_of(job['preemptions'], 'time')}; weft why {job['id']}"
    if job.get("unseats"):
        yield "unseated", f"{count_of(job['unseats'], 'time')}; weft history {job['id']}"
    refused = [name for name in ("share", "migrate") if job.get(name) is False]
    yield "may not", " or ".join(refused)
    yield "weight", f"{job['weight']:g}" if job.get("weight", 1.0) != 1.0 else ""
    yield "priority", str(job["priority"]) if job.get("priority") else ""
    yield "CPU cores", f"{job['cpus']}{' a task' if (job.get('ntasks') or 1) > 1 else ''}" if job.get("cpus") else ""
    yield "names", f"devices {', '.join(map(str, job['gpu_ids']))}" if job.get("gpu_ids") else ""
    yield "begins", local_time(job["begin_at"]) if job.get("begin_at") else ""
    yield "output", job.get("output") or ""
    yield "log", job.get("log") or ""
