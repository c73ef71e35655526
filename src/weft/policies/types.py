"""Device types: how many there are of each, which one a job runs on, which one it would rather have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.core.job import Job
from weft.core.values import JobSpec
from weft.core.view import View


def devices_by_type(view: View) -> dict[str, int]:
    """Of the nodes that are there, in their order."""
    sizes = [node.device_count for node in view.nodes]
    return _by_type(view, sizes)


def free_by_type(view: View) -> dict[str, int]:
    return _by_type(view, view.free_counts)


def _by_type(view: View, counts: Sequence[int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for node, is_here, count in zip(view.nodes, view.is_present, counts, strict=True):
        if is_here:
            sums[node.device_type] = sums.get(node.device_type, 0) + count
    return sums


def type_of(job: Job, view: View) -> str:
    """The type a running job runs on."""
    return view.nodes[job.allocation[0][0]].device_type


def fastest_first(spec: JobSpec, present: Iterable[str]) -> tuple[str, ...]:
    """The types a job may use. Where rates are equal or unknown, in the order given."""
    return tuple(sorted((kind for kind in present if spec.allows(kind)), key=lambda kind: -spec.rate_hz(kind)))
