"""Lists of jobs: pages, and what several ids or an array stand for together.

Pages are read beside the writer, in the order of ids, so that no job is missed or listed twice: a page ends with the id
of its last job, and the next one begins behind that id, whatever came or went in between. One question about an array
of thousands of elements is one query, not thousands.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from weft.control.api.views import EXPLAINED, JobView, Json, Views, described, iso
from weft.control.loop.control_state import ControlState
from weft.control.loop.job_record import FIRST, JobRecord, Key, key_of
from weft.control.loop.job_state import JobState
from weft.control.loop.requests import NotFoundError, no_such_job
from weft.control.store.log_store import LogStore, Row
from weft.control.store.replay import known as known_jobs
from weft.core.errors import InputError
from weft.core.value import value
from weft.system.home import Home

MOST_A_PAGE = 1_000
LIVE = (JobState.PENDING, JobState.RUNNING, JobState.PAUSED)
MOST_GROUPS = 20
"""Reasons that a summary tells apart; further ones are counted together."""
MOST_EXPANDED = 100_000
IN_LINE = "waits behind other jobs"
OTHERS = "for other reasons"
Group = tuple[str, str, int | None]
"""A state, the reason for it and an exit code."""


@value
class PageQuery:
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

    jobs: Sequence[JobView]
    total: int


def live_page(control: ControlState, views: Views, wanted: PageQuery, now: float) -> LivePage:
    """To be called while no instant is under way."""
    if not wanted.has_live:
        return LivePage((), 0)
    found = islice(_matching(control, wanted, wanted.key), wanted.limit + 1)
    jobs = [views.seen(control, record, now) for record in found]
    total = sum(1 for _ in _matching(control, wanted, FIRST)) if wanted.is_filtered else len(control.records)
    return LivePage(jobs, total)


def page(live: LivePage, store: LogStore, views: Views, wanted: PageQuery, ended_counts: Mapping[str, int]) -> bytes:
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


def _ended_count(store: LogStore, wanted: PageQuery, counts: Mapping[str, int]) -> int:
    if any(wanted.matching[1:]):
        return store.count("ended_count", *wanted.matching)
    return sum(counts.values()) if wanted.state is None else counts.get(wanted.state, 0)


def history_page(store: LogStore, views: Views, limit: int, cursor: str | None, total: int) -> bytes:
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


def _matching(control: ControlState, wanted: PageQuery, key: Key) -> Iterator[JobRecord]:
    records: Iterable[JobRecord] = control.live_jobs.after(key)
    if wanted.state in (JobState.RUNNING, JobState.PAUSED):
        records = control.live_jobs.alive_after(key)  # few, where those that wait may be many
    return (record for record in records if _fits(control, record, wanted))


def _fits(control: ControlState, record: JobRecord, wanted: PageQuery) -> bool:
    request: Mapping[str, Any] = record.request
    return (
        wanted.name in (None, request["name"])
        and wanted.tenant in (None, request["tenant"])
        and record.id.startswith(wanted.prefix or "")
        and (wanted.state is None or control.job_state(record.id) == wanted.state)
    )


def _key(job: JobView) -> Key:
    number, _, _ = job.id.partition("_")
    return key_of(int(number), job.array_index)


@value
class Selection:
    """Jobs by the ids that name them, each with how many jobs it stands for."""

    counts: Mapping[str, int]

    def is_over(self, control: ControlState, *, is_any: bool) -> bool:
        """Whether all of them have ended, or any one of them."""
        ended = (total - control.live_jobs.count_of(each) for each, total in self.counts.items())
        return any(ended) if is_any else not any(control.live_jobs.count_of(each) for each in self.counts)


def selected(store: LogStore, ids: Iterable[str]) -> Selection:
    counts = {}
    for each in dict.fromkeys(ids):
        counts[each] = 1 if store.one("job", each) else _elements(store, each)["jobs"]
    return Selection(counts)


def expanded(store: LogStore, ids: Iterable[str]) -> list[str]:
    """All jobs that these stand for, each once, in the order of the ids."""
    found = dict[str, None]()
    for each in dict.fromkeys(ids):
        known = known_jobs(store, each)
        if not known:
            raise no_such_job(each)
        found.update((job_id, None) for job_id, _ in known)
        if len(found) > MOST_EXPANDED:
            raise InputError(f"these ids stand for more than {MOST_EXPANDED:,} jobs", "name fewer of them at once")
    return list(found)


def waited_for(selection: Selection, control: ControlState, store: LogStore, *, is_any: bool) -> Json:
    """How the selected jobs stand. To be called while no instant is under way."""
    states, unsuccessful, ended = Counter[str](), [], list[Row]()
    for each in selection.counts:
        row = store.one("job", each)
        if row is None:
            found = Counter(control.job_state(job_id) for job_id in control.live_jobs.ids_of(each))
            found.update({JobState(group["state"]): group["jobs"] for group in store.all("ended_groups", int(each))})
            first = store.one("first_ended", int(each))
        else:
            found, first = Counter([JobState(row["state"])]), row if row["finished_at"] is not None else None
        states.update(found)
        ended += [first] if first else []
        unsuccessful += [each] if found[JobState.FAILED] or found[JobState.CANCELLED] else []
    first = min(ended, key=lambda row: float(row["finished_at"]), default=None)
    return {
        "is_over": selection.is_over(control, is_any=is_any),
        "jobs": sum(selection.counts.values()),
        "states": _in_order(states),
        "unsuccessful": unsuccessful,
        "first": {name: first[name] for name in ("id", "state", "exit_code", "reason")} if first else None,
    }


def array_summary(control: ControlState, store: LogStore, views: Views, home: Home, array: str, now: float) -> Json:
    """An array as a whole. To be called while no instant is under way."""
    if store.one("job", array):
        raise NotFoundError(f"job {array} is not an array", f"weft status {array}")
    counts = _elements(store, array)
    row = store.one("first_element", int(array))
    assert row is not None
    groups = Counter[Group]()
    firsts = dict[Group, str]()
    run_s = 0.0
    front = {job.id for job in views.front(control, EXPLAINED, now)}
    for job_id in control.live_jobs.ids_of(array):
        group = (str(control.job_state(job_id)), _reason(control, views, job_id, front, now), None)
        groups[group] += 1
        firsts.setdefault(group, job_id)
        run_s += control.job(job_id).run_s(now)
    for found in store.all("ended_groups", int(array)):
        group = (found["state"], found["reason"], found["exit_code"])
        groups[group] += found["jobs"]
        firsts[group] = f"{array}_{found['first']}"
    described_once = described(array, json.loads(row["request"]), home)
    states = Counter[str]()
    for (state, _, _), jobs in groups.items():
        states[state] += jobs
    return {
        **{name: described_once[name] for name in ("id", "name", "tenant", "class", "command", "cwd", "array")},
        "elements": counts["jobs"],
        "states": _in_order(states),
        "groups": _largest(groups, firsts),
        "submitted_at": iso(counts["submitted_at"]),
        "started_at": iso(counts["started_at"]),
        "finished_at": iso(counts["finished_at"]) if counts["ended"] == counts["jobs"] else None,
        "run_s": round(run_s + counts["run_s"], 3),
    }


def _elements(store: LogStore, wanted: str) -> Row:
    counts = store.one("element_counts", int(wanted)) if wanted.isdecimal() else None
    if counts is None or not counts["jobs"]:
        raise no_such_job(wanted)
    return counts


def _reason(control: ControlState, views: Views, job_id: str, front: set[str], now: float) -> str:
    """Those far behind differ only in how many are ahead of them, which is not told."""
    job = control.job(job_id)
    if job.is_computing and not control.records[job_id].ending:
        return ""
    if job.is_waiting and job_id not in front and control.inventory.devices:
        return IN_LINE
    return views.reason(control, job_id, now)


def _largest(groups: Mapping[Group, int], firsts: Mapping[Group, str]) -> list[Json]:
    """In the order of states, and of each the largest first."""
    order = {str(state): at for at, state in enumerate(JobState)}
    ranked = sorted(groups, key=lambda group: -groups[group])
    told = [
        {"state": state, "reason": reason, "exit_code": code, "jobs": groups[state, reason, code],
         "first": firsts[state, reason, code]}
        for state, reason, code in ranked[:MOST_GROUPS]
    ]  # fmt: skip
    others = Counter[str]()
    for group in ranked[MOST_GROUPS:]:
        others[group[0]] += groups[group]
    told += [
        {"state": state, "reason": OTHERS, "exit_code": None, "jobs": jobs, "first": None}
        for state, jobs in others.items()
    ]
    return sorted(told, key=lambda group: order[group["state"]])


def _in_order(states: Mapping[Any, int]) -> dict[str, int]:
    return {str(state): states[state] for state in JobState if states.get(state)}
