"""Pages of jobs: found beside the writer, in the order of their ids, so that none is missed or told twice.

A page ends with the id of its last job, and the next one begins behind that id, whatever came or went in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from weft.control.desk import Desk
from weft.control.record import FIRST, Key, Record, State, key_of
from weft.control.refusals import no_such_job
from weft.control.store import Row, Store
from weft.control.views import Json, Seen, Views
from weft.core.errors import InputError
from weft.core.value import value

MOST_A_PAGE = 1_000
LIVE = (State.PENDING, State.RUNNING, State.PAUSED)


@value
class Wanted:
    """What a listing is asked for; the first page has no cursor."""

    state: str | None = None
    name: str | None = None
    tenant: str | None = None
    prefix: str | None = None
    """What its id begins with."""
    is_all: bool = False
    cursor: str | None = None
    limit: int = MOST_A_PAGE

    @property
    def key(self) -> Key:
        if self.cursor is None:
            return FIRST
        number, _, index = self.cursor.partition("_")
        return key_of(int(number), int(index) if index else None)

    @property
    def is_filtered(self) -> bool:
        return any(self.matching)

    @property
    def matching(self) -> tuple[str | None, ...]:
        """As the queries have it."""
        return self.state, self.name, self.tenant, self.prefix

    @property
    def has_live(self) -> bool:
        return self.state is None or self.state in LIVE

    @property
    def has_ended(self) -> bool:
        return self.state not in LIVE if self.state else self.is_all


@value
class LivePage:
    """Jobs that have not ended, copied; one more than fits on the page, if there is one."""

    jobs: Sequence[Seen]
    total: int


def live_page(desk: Desk, views: Views, wanted: Wanted, now: float) -> LivePage:
    """To be called while no instant is under way."""
    if not wanted.has_live:
        return LivePage((), 0)
    found = islice(_matching(desk, wanted, wanted.key), wanted.limit + 1)
    jobs = [views.seen(desk, record, now) for record in found]
    total = sum(1 for _ in _matching(desk, wanted, FIRST)) if wanted.is_filtered else len(desk.records)
    return LivePage(jobs, total)


def page(live: LivePage, store: Store, views: Views, wanted: Wanted, ended_counts: Mapping[str, int]) -> bytes:
    """The whole answer, as JSON. Each job is encoded by itself: one call for all would keep every other thread out."""
    rows: list[Row] = []
    total = live.total
    if wanted.has_ended:
        rows = store.all("ended_page", *wanted.matching, *wanted.key, wanted.limit + 1)
        total += _ended_count(store, wanted, ended_counts)
    seen = {job.id for job in live.jobs}
    ended = ((key_of(row["number"], row["array_index"]), views.ended(row)) for row in rows if row["id"] not in seen)
    living = ((_key(job), views.shown(job)) for job in live.jobs)
    jobs = [job for _, job in islice(merge(living, ended, key=lambda each: each[0]), wanted.limit + 1)]
    return encoded(jobs, wanted.limit, total)


def _ended_count(store: Store, wanted: Wanted, counts: Mapping[str, int]) -> int:
    if any(wanted.matching[1:]):
        return store.count("ended_count", *wanted.matching)
    return sum(counts.values()) if wanted.state is None else counts.get(wanted.state, 0)


def history_page(store: Store, views: Views, limit: int, cursor: str | None, total: int) -> bytes:
    """Jobs that have ended, the latest first. The row of a job stays, so the cursor finds its place again."""
    before: tuple[Any, ...] = (None, None)
    if cursor is not None:
        row = store.one("job", cursor)
        if row is None:
            raise no_such_job(cursor)
        if row["finished_at"] is None:
            raise InputError(f"job {cursor} has not ended", "a cursor is the id of the last job of a page")
        before = (row["finished_at"], cursor)
    rows = store.all("ended_before", *before, limit + 1)
    return encoded([views.ended(row) for row in rows], limit, total)


def encoded(jobs: Sequence[Json], limit: int, total: int) -> bytes:
    """`jobs` has one more than the limit if there are more."""
    last = jobs[limit - 1]["id"] if len(jobs) > limit else None
    each = ", ".join(json.dumps(job, allow_nan=False) for job in jobs[:limit])
    return f'{{"jobs": [{each}], "total": {total}, "next_cursor": {json.dumps(last)}}}'.encode("ascii")


def _matching(desk: Desk, wanted: Wanted, key: Key) -> Iterator[Record]:
    records: Iterable[Record] = desk.roster.after(key)
    if wanted.state in (State.RUNNING, State.PAUSED):
        records = desk.roster.alive_after(key)  # few, where those that wait may be many
    return (record for record in records if _fits(desk, record, wanted))


def _fits(desk: Desk, record: Record, wanted: Wanted) -> bool:
    request: Mapping[str, Any] = record.request
    return (
        wanted.name in (None, request["name"])
        and wanted.tenant in (None, request["tenant"])
        and record.id.startswith(wanted.prefix or "")
        and (wanted.state is None or desk.state(record.id) == wanted.state)
    )


def _key(job: Seen) -> Key:
    number, _, _ = job.id.partition("_")
    return key_of(int(number), job.array_index)
