"""What ids stand for together: single jobs and whole arrays, in how many states, and why they are there.

One question about an array of thousands of elements is one look at them, not thousands of questions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from weft.control.desk import Desk
from weft.control.fold import known as known_jobs
from weft.control.record import State
from weft.control.refusals import NotFoundError, no_such_job
from weft.control.store import Row, Store
from weft.control.views import EXPLAINED, Json, Views, described, iso
from weft.core.errors import InputError
from weft.core.value import value
from weft.system.home import Home

MOST_GROUPS = 20
"""Reasons that a summary tells apart; further ones are counted together."""
MOST_EXPANDED = 100_000
IN_LINE = "waits behind other jobs"
OTHERS = "for other reasons"

Group = tuple[str, str, int | None]
"""A state, the reason for it and an exit code."""


@value
class Selection:
    """Jobs by the ids that name them, each with how many jobs it stands for."""

    counts: Mapping[str, int]

    def is_over(self, desk: Desk, *, is_any: bool) -> bool:
        """Whether all of them have ended, or any one of them."""
        ended = (total - desk.roster.live_count(each) for each, total in self.counts.items())
        return any(ended) if is_any else not any(desk.roster.live_count(each) for each in self.counts)


def selected(store: Store, ids: Iterable[str]) -> Selection:
    counts = {}
    for each in dict.fromkeys(ids):
        counts[each] = 1 if store.one("job", each) else _elements(store, each)["jobs"]
    return Selection(counts)


def expanded(store: Store, ids: Iterable[str]) -> list[str]:
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


def waited_for(selection: Selection, desk: Desk, store: Store, *, is_any: bool) -> Json:
    """How the selected jobs stand. To be called while no instant is under way."""
    states, unsuccessful, ended = Counter[str](), [], list[Row]()
    for each in selection.counts:
        row = store.one("job", each)
        if row is None:
            found = Counter(desk.state(job_id) for job_id in desk.roster.live(each))
            found.update({State(group["state"]): group["jobs"] for group in store.all("ended_groups", int(each))})
            first = store.one("first_ended", int(each))
        else:
            found, first = Counter([State(row["state"])]), row if row["finished_at"] is not None else None
        states.update(found)
        ended += [first] if first else []
        unsuccessful += [each] if found[State.FAILED] or found[State.CANCELLED] else []
    first = min(ended, key=lambda row: float(row["finished_at"]), default=None)
    return {
        "is_over": selection.is_over(desk, is_any=is_any),
        "jobs": sum(selection.counts.values()),
        "states": _in_order(states),
        "unsuccessful": unsuccessful,
        "first": {name: first[name] for name in ("id", "state", "exit_code", "reason")} if first else None,
    }


def array_summary(desk: Desk, store: Store, views: Views, home: Home, array: str, now: float) -> Json:
    """An array as a whole. To be called while no instant is under way."""
    if store.one("job", array):
        raise NotFoundError(f"job {array} is not an array", f"weft status {array}")
    counts = _elements(store, array)
    row = store.one("first_element", int(array))
    assert row is not None
    groups = Counter[Group]()
    firsts = dict[Group, str]()
    run_s = 0.0
    front = {job.id for job in views.front(desk, EXPLAINED, now)}
    for job_id in desk.roster.live(array):
        group = (str(desk.state(job_id)), _reason(desk, views, job_id, front, now), None)
        groups[group] += 1
        firsts.setdefault(group, job_id)
        run_s += desk.job(job_id).run_s(now)
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


def _elements(store: Store, wanted: str) -> Row:
    counts = store.one("element_counts", int(wanted)) if wanted.isdecimal() else None
    if counts is None or not counts["jobs"]:
        raise no_such_job(wanted)
    return counts


def _reason(desk: Desk, views: Views, job_id: str, front: set[str], now: float) -> str:
    """Those far behind differ only in how many are ahead of them, which is not told."""
    job = desk.job(job_id)
    if job.is_computing and not desk.records[job_id].ending:
        return ""
    if job.is_waiting and job_id not in front and desk.floor.devices:
        return IN_LINE
    return views.reason(desk, job_id, now)


def _largest(groups: Mapping[Group, int], firsts: Mapping[Group, str]) -> list[Json]:
    """In the order of states, and of each the largest first."""
    order = {str(state): at for at, state in enumerate(State)}
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
    return {str(state): states[state] for state in State if states.get(state)}
