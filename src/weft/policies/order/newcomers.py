"""In which order those who never ran go: by what their tenants have had, and what is promised to those before them."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.view import View


class Newcomers:
    """The tenant that had had less when they came goes first. Each counts for those of its tenant that come after it as
    if it had had its first `part` of device-seconds already: fifty at once do not go before another tenant's next one.
    """

    def __init__(self, part: float) -> None:
        self._part = part
        self._tags: dict[str, float] = {}
        self._by_tenant: dict[str, dict[str, Job]] = {}
        """As they came: all that have not started since, and some that have."""
        self._version = -1

    def tag(self, job: Job) -> float:
        """It counts for nothing any more once the job has begun."""
        return 0.0 if job.generation else self._tags.get(job.id, 0.0)

    def __len__(self) -> int:
        return len(self._tags) + len(self._by_tenant)

    def learn(self, view: View) -> bool:
        """True if one that was there before goes elsewhere now."""
        is_anew = view.version != self._version
        if is_anew:  # what has changed since may not be told
            self._version = view.version
            self._forget(job for line in list(self._by_tenant.values()) for job in list(line.values()))
            self._add(sorted(view.jobs.values(), key=lambda job: job.tie), view)
        for change, job in view.changes:
            if change is Change.QUEUED:
                self._add((job,), view)
            elif change is Change.LEFT:
                self._forget((job,))
        return is_anew

    def _add(self, jobs: Iterable[Job], view: View) -> None:
        """Who is held by its owner has no place in the line before it is released."""
        for job in jobs:
            if job.is_waiting and not job.generation and job.id not in self._tags:
                line = self._by_tenant.setdefault(job.tenant, {})
                self._tags[job.id] = max(self._promised(line), view.tenants.attained(job.tenant, view.now))
                line[job.id] = job

    def _promised(self, line: dict[str, Job]) -> float:
        """What the tenant will have had when all of these have had their parts."""
        while line:
            last = line[next(reversed(line))]
            if not last.generation:
                return self._tags[last.id] + self._part
            self._drop(line, last)  # it has begun
        return 0.0

    def _forget(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            line = self._by_tenant.get(job.tenant, {})
            if job.id in line:
                self._drop(line, job)
            if not line:
                self._by_tenant.pop(job.tenant, None)

    def _drop(self, line: dict[str, Job], job: Job) -> None:
        del line[job.id]
        del self._tags[job.id]
