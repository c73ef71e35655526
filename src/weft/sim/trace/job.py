"""One job of a trace: its description and, beside it, the truth that no policy is shown."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.values import JobSpec


@dataclass(frozen=True, slots=True)
class TraceJob:
    spec: JobSpec
    arrival_s: float
    """Seconds after the first arrival of the trace."""
    duration_s: float
    """How long it runs alone, consolidated, on a device of speed 1 (or: declared_steps / step_rate_hz)."""
