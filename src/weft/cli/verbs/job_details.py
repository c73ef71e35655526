"""`weft status` and `weft why`: one job in full, an array in short."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import job_ids_argument
from weft.cli.render.job_text import device_memory, devices, in_states, metrics, reason, restart, sharing
from weft.cli.render.tables import clock, count, local_time, printable, rate, show_json, size
from weft.core.text import count_of

if TYPE_CHECKING:
    from weft.client import Client


Answer = dict[str, Any]
AT_THE_BEGINNING = re.compile(r"(\d{4}-\d\d-\d\dT\S+): ")
"""When something was decided, as REST says it."""


@click.command(short_help="Show jobs in full, or an array in short.")
@job_ids_argument
@click.option("--json", "is_json", is_flag=True, help="Print the job as JSON; for several ids, a list.")
def status(job_ids: tuple[str, ...], is_json: bool) -> None:
    """Show jobs in full, one after the other.

    For the number of an array: how many elements are in which state, and why the others wait or failed.

    \b
    Examples:
      weft status 17
      weft status 17_3 18
    """
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
        yield "steps", "none seen yet; a pause stops the processes immediately"
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


@click.command(short_help="Explain why jobs wait, and when they may start.")
@job_ids_argument
@click.option("--json", "is_json", is_flag=True, help="Print the answer as JSON; for several ids, a list.")
def why(job_ids: tuple[str, ...], is_json: bool) -> None:
    """Explain what a job waits for, which jobs are ahead and by which rule, when it may start, and past decisions.

    For the number of an array: what its elements wait for, by reason.
    """
    show_each(job_ids, lambda client, job_id: client.why(job_id), _why_lines, is_json)


def _why_lines(answer: dict[str, Any]) -> Iterator[str]:
    for line in answer["text"]:
        yield AT_THE_BEGINNING.sub(lambda found: f"{local_time(found[1])}  ", printable(line), count=1)


def show_each(
    job_ids: tuple[str, ...],
    ask: Callable[[Client, str], Answer],
    lines: Callable[[Answer], Iterator[str]],
    is_json: bool,
) -> None:
    """One after the other, an array as a summary. As JSON, one object for one id, a list for several."""
    from weft.client import Client

    client = Client()
    if is_json:
        answers = [_asked(client, job_id, ask) for job_id in job_ids]
        show_json(answers[0] if len(answers) == 1 else answers)
        return
    for at, job_id in enumerate(job_ids):
        if at:
            click.echo()
        answer = _asked(client, job_id, ask)
        for line in array_lines(answer) if "elements" in answer else lines(answer):
            click.echo(line)


def _asked(client: Client, job_id: str, ask: Callable[[Client, str], Answer]) -> Answer:
    from weft.client import ArrayError

    try:
        return ask(client, job_id)
    except ArrayError:
        return client.array(job_id)


def array_lines(array: Answer) -> Iterator[str]:
    """How many elements are in which state, and of those that do not run or have failed, why."""
    yield f"array {array['id']} ({printable(array['name'])}): {array['elements']:,} elements of {array['array']}"
    yield f"{in_states(array['states'])}"
    for group in array["groups"]:
        code = f"exit code {group['exit_code']}" if group["exit_code"] else ""
        why = printable(group["reason"]) or code
        if why and group["state"] != "SUCCEEDED":
            example = f" ({group['first']}{', …' if group['jobs'] > 1 else ''})" if group["first"] else ""
            yield f"  {group['jobs']:>5,} {group['state'].lower()}: {why}{example}"
    yield f"command: {printable(shlex.join(array['command']))}"
    times = {"submitted": array["submitted_at"], "started": array["started_at"], "finished": array["finished_at"]}
    yield ", ".join(f"{name} {local_time(at)}" for name, at in times.items() if at)
