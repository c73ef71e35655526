"""A job in words: state, reason, devices, sharing, losses, its status line and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from weft.cli.render.tables import NOTHING, clock, printable, rate, size

if TYPE_CHECKING:
    from weft.client import Job


LETTERS = {
    "PENDING": "PD",
    "RUNNING": "R",
    "PAUSED": "PA",
    "SUCCEEDED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
}
"""States as squeue writes them, where it has them."""
MOST_METRICS = 3
TERMINATED = 128 + 15
MOST_NAMED = 8
Lost = Mapping[str, Any]


def metrics(job: Mapping[str, Any]) -> list[str]:
    """What it reported last. JSON has no word for what is not a number."""
    reported = job.get("metrics") or {}
    return [f"{name} {'nan' if value is None else f'{value:.4g}'}" for name, value in reported.items()]


def letters(state: str) -> str:
    return LETTERS.get(state, state)


def in_states(states: Mapping[str, int], counts: bool = True) -> str:
    """How many jobs are in which state: 2 running, 3 pending."""
    return ", ".join(f"{number:,} {state.lower()}" if counts else state.lower() for state, number in states.items())


def reason(job: Mapping[str, Any]) -> str:
    """Why it is where it is. An ended job that says nothing ended by its exit code."""
    said = str(job.get("reason") or "")
    code = job.get("exit_code")
    return said or (f"exit code {code}" if code else "")


def loss(job: Mapping[str, Any]) -> str:
    """That its last attempt was lost, and where the present or next one begins."""
    return f"was lost, {restart(job)}" if job.get("loss") else ""


def restart(job: Mapping[str, Any]) -> str:
    """Where a job begins whose attempt was lost."""
    return f"{'restarts' if job['state'] == 'PENDING' else 'restarted'} {from_step(job['loss']['step'])}"


def from_step(step: int) -> str:
    return f"from step {step:,}" if step else "from the beginning"


def share_mark(job: Mapping[str, Any]) -> str:
    """Guest or guaranteed, and the jobs on the same devices. A guest may be alone on its device."""
    right = "guest" if job.get("guest") else "guaranteed" if job.get("guaranteed") else ""
    others = f"beside {' '.join(job['beside'])}" if job.get("beside") else ""
    return f"{right} {others}".strip()


def sharing(job: Mapping[str, Any]) -> str:
    """The same in full."""
    parts = [share_mark(job)] if share_mark(job) else []
    parts += [f"lane {job['lane']}"] if job.get("lane") else []
    if job.get("interference_ratio") is not None:
        parts.append(f"at {job['interference_ratio']:.0%} of its rate alone")
    return ", ".join(parts)


def device_memory(job: Mapping[str, Any]) -> str:
    """P outlives a step, T is the most that a step has besides. Empty where nothing is known."""
    memory = job.get("memory") or {}
    limit = f"{size(memory['limit_bytes'])} allowed" if memory.get("limit_bytes") else ""
    if memory.get("peak_bytes") is None:
        return limit
    peak = f"peak {size(memory['peak_bytes'])}{f' of {limit}' if limit else ''}"
    parts = [f"P {size(memory['persistent_bytes'])}", f"T {size(memory['ephemeral_bytes'])}", peak]
    return ", ".join([*parts, f"overflow {size(memory['overflow_bytes'])}"])


def devices(job: Mapping[str, Any]) -> str:
    """What it holds, as node:0,1; or how many it waits for."""
    held: dict[str, list[str]] = {}
    for each in job.get("devices") or []:
        node, _, index = str(each).rpartition(":")
        held.setdefault(node, []).append(index)
    if held:
        return " ".join(f"{node}:{','.join(indices)}" for node, indices in held.items())
    wanted = job.get("gpus") or job.get("ntasks")
    return f"({wanted})" if wanted and job.get("state") in ("PENDING", "PAUSED") else NOTHING


def status_line(job: Job) -> str:
    """Empty while nothing is known but the id."""
    if "submitted_at" not in job:
        return ""
    if job["state"] == "RUNNING" and not reason(job):  # one that is being ended says so
        return _progress(job)
    parts = [f"job {job['id']}", job["state"].lower()]
    if job.get("position"):
        parts.append(f"position {job['position']}")
    return printable("  ".join([*parts, *([reason(job)] if reason(job) else [])]))


def _progress(job: Job) -> str:
    if not job["steps"]:
        return ""
    of = f" of {job['declared_steps']:,}" if job.get("declared_steps") else ""
    parts = [f"job {job['id']}", f"step {job['steps']:,}{of}", f"{rate(job['step_rate_hz'])} steps/s"]
    parts += sorted(metrics(job), key=lambda each: not each.startswith("loss "))[:MOST_METRICS]
    if job.get("eta_s") is not None:
        parts.append(f"ETA {clock(job['eta_s'])}")
    return printable("  ".join(parts))


def exit_status(job: Job) -> int:
    """What a command that waited for the job ends with. A cancelled job was ended by SIGTERM, as far as we know."""
    if job["exit_code"] is not None:
        return int(job["exit_code"])
    return {"SUCCEEDED": 0, "CANCELLED": TERMINATED}.get(job["state"], 1)


def end_message(job: Job) -> str:
    """How the job ended, where the exit code is not enough; else empty."""
    if job["state"] == "SUCCEEDED":
        return ""
    why = f": {printable(reason(job))}" if reason(job) not in ("", "cancelled") else ""
    return f"job {job['id']} {'was cancelled' if job['state'] == 'CANCELLED' else 'failed'}{why}"


def warn_of_losses(health: Mapping[str, Any]) -> None:
    for line in loss_lines(health.get("lost") or []):
        click.echo(f"warning: {printable(line)}", err=True)


def loss_lines(lost: Iterable[Lost]) -> Iterator[str]:
    """One line for those that begin anew, one for those with checkpoints, one for those that are not tried again."""
    jobs = list(lost)
    anew = [job for job in jobs if job["step"] == 0]
    saved = [job for job in jobs if job["step"]]
    over = [job for job in jobs if job["step"] is None]
    if anew:
        yield f"{_were_lost(anew)} and restarted from the beginning: {_named(anew)}"
    if len({job["step"] for job in saved}) == 1:
        yield f"{_were_lost(saved)} and restarted {from_step(saved[0]['step'])}: {_named(saved)}"
    elif saved:
        yield f"{_were_lost(saved)} and restarted from their checkpoints: {_named(saved, with_steps=True)}"
    if over:
        yield f"{_were_lost(over)} and not restarted: {_named(over)}; weft status {over[0]['id']} says why"


def _were_lost(jobs: list[Lost]) -> str:
    from weft.core.text import count_of

    return f"{count_of(len(jobs), 'job')} {'was' if len(jobs) == 1 else 'were'} lost"


def _named(jobs: list[Lost], *, with_steps: bool = False) -> str:
    named = [job["id"] + (f" (step {job['step']:,})" if with_steps else "") for job in jobs[:MOST_NAMED]]
    more = len(jobs) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
