"""One line about a job: where it is in the queue, or how far it has come."""

from __future__ import annotations

from weft.cli.shown import clock, metrics, printable, rate, reason
from weft.client import Job

MOST_METRICS = 3
TERMINATED = 128 + 15


def line_about(job: Job) -> str:
    """Empty while there is nothing to say, as before the daemon has told anything but the id."""
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


def what_ended(job: Job) -> str:
    """What the exit code alone does not tell; empty if it tells all."""
    if job["state"] == "SUCCEEDED":
        return ""
    why = f": {printable(reason(job))}" if reason(job) not in ("", "cancelled") else ""
    return f"job {job['id']} {'was cancelled' if job['state'] == 'CANCELLED' else 'failed'}{why}"
