"""AlloX's choice of whom to match: the shortest jobs on each device type in turn."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.draft import Draft
from weft.policies.match.times import run_s
from weft.policies.order.lines import LineOrder
from weft.policies.types import devices_by_type, fastest_first, free_by_type


@dataclass
class ShortestOnEachType(LineOrder):
    assume_s: float
    """What a job that declares no work is taken to need."""
    by_type: dict[str, list[tuple[float, tuple[float, int], Job]]] = field(default_factory=dict, init=False, repr=False)
    version: int = field(default=0, init=False, repr=False)

    rule = "matched to device types so that the sum of completion times is least"

    def line(self, view: View, draft: Draft, admitted: frozenset[str] | None) -> Iterator[Job]:
        chosen: set[str] = set()
        lists = [self._candidates(kind, draft, admitted) for kind in self.by_type]
        while lists:
            for one in list(lists):
                job = next((job for job in one if job.id not in chosen), None)
                if job is None:
                    lists.remove(one)
                else:
                    chosen.add(job.id)
                    yield job

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        free = free_by_type(view)
        kinds = fastest_first(job.spec, free)
        if any(free[kind] >= job.gang_size for kind in kinds):
            return Reason(Code.BETTER_LATER, (kinds[0],))
        return None

    def _candidates(self, kind: str, draft: Draft, admitted: frozenset[str] | None) -> Iterator[Job]:
        return (
            job
            for _, _, job in self.by_type[kind]
            if job.id not in draft.running and (admitted is None or job.tenant in admitted)
        )

    def prepare(self, view: View) -> None:
        """Keep the waiting jobs of each type sorted by how long they take there."""
        if self.version != view.version:
            self.by_type = {kind: [] for kind in devices_by_type(view)}
            self._insert(view.jobs.values())
        else:
            changed = {job.id: job for change, job in view.changes if change is not Change.LEFT}
            for rows in self.by_type.values():
                rows[:] = [row for row in rows if row[2].is_waiting and row[2].id not in changed]
            self._insert(changed.values())
        self.version = view.version

    def _insert(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.is_waiting:
                for kind, rows in self.by_type.items():
                    if job.spec.allows(kind):
                        insort(rows, (job.gang_size * run_s(job, kind, self.assume_s), job.tie, job))
