"""AlloX's fairness: only the tenants with the least progress compete, until devices would stay free."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.view import View


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
        alpha = self.alpha
        while True:
            yield frozenset(tenants[: math.ceil(alpha * len(tenants))])
            if alpha >= 1:
                return
            alpha = min(1.0, 2 * alpha)


def _progress(view: View) -> dict[str, float]:
    progress = {tenant: 0.0 for tenant in view.tenants if view.tenants.has_live_jobs(tenant)}
    counts: dict[str, int] = {}
    for node, here in zip(view.nodes, view.is_present, strict=True):
        counts[node.device_type] = counts.get(node.device_type, 0) + here * node.device_count
    for job in view.running.values():
        best = max((kind for kind in counts if job.spec.allows(kind)), key=job.spec.rate_hz)
        progress[job.tenant] += job.gang_size / max(1, counts[best]) * job.rate_hz / job.spec.rate_hz(best)
    return progress
