"""Every job on the fastest type it allows that has room for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from weft.core.job import Job
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.plan.full_scan import FullScan
from weft.policies.plan.node_groups import fastest_first


@dataclass(frozen=True)
class Fastest:
    is_static: ClassVar[bool] = True

    def pairs(self, view: View, builder: FullScan, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
        present = tuple(builder.room.groups)
        for job in line:
            yield job, self.types(job.spec, present)

    def types(self, spec: JobSpec, present: Sequence[str]) -> tuple[str, ...]:
        return fastest_first(spec, present)
