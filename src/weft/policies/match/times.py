"""How long a job would take on a device type, from its declared work and its rate there."""

from __future__ import annotations

from weft.core.job import Job


def run_s(job: Job, kind: str, assume_s: float) -> float:
    """Of what is left to do, for a job that waits."""
    declared_steps = job.spec.declared_steps
    if declared_steps is None:
        return assume_s
    return max(0.0, declared_steps - job.settled_steps) / job.spec.rate_hz(kind)
