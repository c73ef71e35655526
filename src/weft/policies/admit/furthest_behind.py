"""AlloX's fairness: only the tenants with the least progress compete, until devices would stay free."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.view import View
from weft.policies.types import devices_by_type


@dataclass(frozen=True)
class FurthestBehind:
    """A tenant's progress is the sum over its running jobs of the share of its best type's devices that the job
    holds, times its speed where it runs over its speed on that best type: progress counts, not device-seconds.
    """

    alpha: float
    """The part of the tenants that compete; doubled as long as devices stay free and nobody takes them."""

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha {self.alpha:g} is not a share of tenants", "give a number above 0 and up to 1")

    def rounds(self, view: View) -> Iterator[frozenset[str]]:
        progress = _progress(view)
        tenants = sorted(progress, key=lambda tenant: (progress[tenant], tenant))
        alpha, admitted = self.alpha, 0
        while admitted < len(tenants):
            wider = math.ceil(min(1.0, alpha) * len(tenants))
            if wider > admitted:
                admitted = wider
                yield frozenset(tenants[:admitted])
            alpha *= 2


def _progress(view: View) -> dict[str, float]:
    progress = {job.tenant: 0.0 for job in view.jobs.values() if job.is_waiting or job.is_running}
    counts = devices_by_type(view)
    for job in view.running.values():
        best = max((kind for kind in counts if job.spec.allows(kind)), key=job.spec.rate_hz)
        progress[job.tenant] += job.gang_size / counts[best] * job.rate_hz / job.spec.rate_hz(best)
    return progress
