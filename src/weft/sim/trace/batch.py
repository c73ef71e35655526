"""What a form makes of a few thousand rows: columns with the meaning they have in a JobSpec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.core.values import JobClass
from weft.sim.trace.column import Floats, Ints


@dataclass(frozen=True, slots=True)
class Batch:
    """One entry a job in each column; a column that the trace does not have is None."""

    lines: Sequence[int]
    arrival_s: Floats
    """On the clock of the file: seconds since its own zero, or since 1970 where it tells dates."""
    duration_s: Floats
    gang_size: Ints
    ids: Sequence[str] | None = None
    tenants: Sequence[str] | None = None
    job_classes: Sequence[JobClass] | None = None
    device_types: Sequence[frozenset[str] | None] | None = None
    duration_by_type_s: Mapping[str, Floats] = field(default_factory=dict)
    """NaN where the job does not run on the type."""
    memory_bytes: Sequence[int | None] | None = None
    skew: Floats | None = None
    min_run_s: Floats | None = None
    models: Sequence[str] | None = None
