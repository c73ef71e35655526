"""What became of jobs that were packed, for the next time: of the very same ones, and of others like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.view import View
from weft.policies.share.backing_off import BackOffs

Pair = frozenset[str]
Kind = tuple[tuple[tuple[str, str], ...], int, tuple[str, int]]
"""Whose jobs of which name, of how many tasks, on which devices. The jobs of a sweep are of one kind."""

LEAST_KEPT = 64


@dataclass
class Verdicts:
    """A pair that was undone is left alone for `back_off_s`, twice as long each time, and so are others of its kind.

    One that was kept, should something else have parted it, may be packed again at once.
    """

    back_off_s: float
    _kept: set[Pair] = field(default_factory=set, init=False, repr=False)
    _doubts: dict[Pair, tuple[int, int]] = field(default_factory=dict, init=False, repr=False)
    """How often a pair was measured without a verdict, and in which window last."""
    _most_kept: int = field(default=LEAST_KEPT, init=False, repr=False)
    _pairs: BackOffs[Pair] = field(init=False, repr=False)
    _kinds: BackOffs[Kind] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pairs = BackOffs(self.back_off_s)
        self._kinds = BackOffs(self.back_off_s)

    def keep(self, jobs: Sequence[Job]) -> bool:
        """Whether that is news."""
        pair, kind = _pair(jobs), _kind(jobs)
        self._doubts.pop(pair, None)
        self._pairs.forgive(pair)
        if kind is not None:
            self._kinds.forgive(kind)
        is_news = pair not in self._kept
        self._kept.add(pair)
        return is_news

    def has_kept(self, jobs: Sequence[Job]) -> bool:
        return _pair(jobs) in self._kept

    def kept_with(self, job: Job) -> list[str]:
        """Whoever it was packed and kept with, some of whom may be gone by now."""
        return sorted(other for pair in self._kept if job.id in pair for other in pair - {job.id})

    def undo(self, jobs: Sequence[Job], now: float) -> None:
        pair, kind = _pair(jobs), _kind(jobs)
        self._doubts.pop(pair, None)
        self._kept.discard(pair)
        self._pairs.begin(pair, now)
        if kind is not None:
            self._kinds.begin(kind, now)

    def doubt(self, jobs: Sequence[Job]) -> int | None:
        """How often they were measured without a verdict by now; None if this comparison was counted before."""
        pair, window = _pair(jobs), max((job.measured.window for job in jobs if job.measured), default=0)
        times, last_window = self._doubts.get(pair, (0, 0))
        if window and window == last_window:
            return None
        self._doubts[pair] = (times + 1, window)
        return times + 1

    def allow(self, jobs: Sequence[Job], now: float) -> bool:
        """What is known of a pair itself counts; of one that was never tried, what is known of its kind."""
        pair = _pair(jobs)
        if pair in self._kept:
            return True
        if self._pairs.is_known(pair):
            return not self._pairs.is_on(pair, now)
        kind = _kind(jobs)
        return kind is None or not self._kinds.is_on(kind, now)

    def is_retry_due(self, view: View) -> bool:
        """Whether a back-off has ended since this was last asked, of two that are both still there, or of a kind."""
        live = view.jobs.keys()
        pairs = self._pairs.has_ended(view.now, lambda pair: not pair <= live)
        return self._kinds.has_ended(view.now, lambda kind: False) or pairs

    @property
    def retry_at_s(self) -> float:
        """When the next back-off ends, as far as was known when last asked whether one has."""
        return min(self._pairs.next_end_s, self._kinds.next_end_s)

    def forget(self, view: View) -> None:
        """Of pairs that are gone; not looked for until there are twice as many as were left the last time."""
        if len(self._kept) + len(self._doubts) > self._most_kept:
            self._kept = {pair for pair in self._kept if pair <= view.jobs.keys()}
            self._doubts = {pair: doubt for pair, doubt in self._doubts.items() if pair <= view.jobs.keys()}
            self._most_kept = 2 * (len(self._kept) + len(self._doubts)) + LEAST_KEPT


def _pair(jobs: Sequence[Job]) -> Pair:
    return frozenset(job.id for job in jobs)


def _kind(jobs: Sequence[Job]) -> Kind | None:
    """None if one of them has no name: then nobody knows what it is like."""
    if not all(job.spec.model for job in jobs):
        return None
    names = tuple(sorted((job.tenant, job.spec.model) for job in jobs))
    return names, jobs[0].gang_size, jobs[0].alone_on
