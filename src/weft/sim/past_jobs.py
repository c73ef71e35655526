"""A trace of what really happened: the jobs that a weft has run, as its REST API lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.policies.loader import policies_asked
from weft.sim.request import cluster_text
from weft.sim.results.summary import JobTable, PolicyRun, Timeline
from weft.sim.trace import Trace, TraceJob

HOLDS, SITS, WAITS, IS_OVER = "holds devices", "sits as a guest", "waits", "is over"
AFTER = {"Submitted": WAITS, "Start": HOLDS, "Preempt": WAITS, "Seat": SITS, "Unseat": WAITS, "Ended": IS_OVER}
"""What a job does from a decision about it on."""

Story = list[tuple[float, str]]
"""From when on it did what."""


@dataclass(frozen=True)
class PastJobs:
    """The jobs that ended and had devices, on what they ran, and how long each waited."""

    trace: Trace
    cluster: Cluster
    wait_s: Mapping[str, float]
    """By job."""

    def mean_wait_s(self, ids: Iterable[str]) -> float:
        """Of these jobs alone: of those that were simulated, so that the same jobs are compared."""
        waits_s = [self.wait_s[job_id] for job_id in ids]
        return sum(waits_s) / len(waits_s)


def past_jobs(
    jobs: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]], first: int | None = None
) -> PastJobs:
    """How long a job ran is taken as how long it needs; what it waited, in all its attempts, is left to the policy."""
    ran = sorted((job for job in jobs if job["run_s"] > 0), key=_arrival_s)[:first]
    if not ran:
        raise InputError("no job has run here yet", "weft run -- CMD, and look at it again afterwards")
    traced = [TraceJob(_spec(job), _arrival_s(job), job["run_s"]) for job in ran]
    return PastJobs(Trace.of(traced, "history"), _cluster(nodes), {job["id"]: job["wait_s"] for job in ran})


def _arrival_s(job: Mapping[str, Any]) -> float:
    """When it could have run. What it was held for by its owner or by other jobs is no waiting of the policy's.

    Of its time as a guest only the part is known that it had of the devices: so much later it seems to have come.
    """
    return _time_s(job["finished_at"]) - float(job["run_s"]) - float(job["wait_s"])


def _spec(job: Mapping[str, Any]) -> JobSpec:
    return JobSpec(job["id"], job["gpus"], job["tenant"], JobClass(job["class"]), declared_steps=job["run_s"])


def _cluster(nodes: Iterable[Mapping[str, Any]]) -> Cluster:
    shape = []
    for node in nodes:
        types = [device["type"] for device in node["devices"]]
        shape += [Node(f"{node['name']}/{kind}", types.count(kind), kind) for kind in dict.fromkeys(types)]
    if not shape:
        raise InputError("weft does not know its devices yet", "give --cluster, e.g. --cluster 1x4")
    return Cluster(tuple(shape))


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def past_run(
    policy: str,
    jobs: Sequence[Mapping[str, Any]],
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    nodes: Sequence[Mapping[str, Any]],
) -> PolicyRun:
    """What really happened, in the form that the simulator leaves: for its tables, figures and report.

    `events` are those of each job. How long it would have run alone is not known: what it had of its devices stands in.
    """
    ran = sorted((job for job in jobs if job["started_at"]), key=lambda job: str(job["submitted_at"]))
    start_s = _time_s(ran[0]["submitted_at"])
    cluster = _cluster(nodes)
    stories = [_story(events[job["id"]], start_s) for job in ran]
    guest_s = np.array([_spent_s(story, SITS) for story in stories])
    table = JobTable(
        ids=[job["id"] for job in ran],
        tenants=[job["tenant"] for job in ran],
        classes=[job["class"] for job in ran],
        gang_size=np.array([job["gpus"] for job in ran], dtype=np.int64),
        arrival_s=np.array([_time_s(job["submitted_at"]) - start_s for job in ran]),
        first_start_s=np.array([_time_s(job["started_at"]) - start_s for job in ran]),
        finish_s=np.array([_time_s(job["finished_at"]) - start_s for job in ran]),
        alone_s=np.array([job["run_s"] for job in ran]),
        run_s=np.array([_spent_s(story, HOLDS) for story in stories]) + guest_s,
        preemptions=np.array([job["preemptions"] for job in ran], dtype=np.int64),
        guest_s=guest_s,
    )
    return PolicyRun(
        policy=policy,
        parameters={"world.name": "this machine"},
        trace="live",
        cluster=cluster_text(cluster),
        device_count=cluster.device_count,
        seed=0,
        jobs=table,
        timeline=_timeline(table.gang_size.tolist(), stories),
        events=sum(len(events[job["id"]]) for job in ran),
        wall_s=float(table.finish_s.max()),
        heeds_classes=policies_asked(policy)[0].heeds_classes,
    )


def _story(events: Iterable[Mapping[str, Any]], start_s: float) -> Story:
    return [(_time_s(event["at"]) - start_s, AFTER[event["what"]]) for event in events if event["what"] in AFTER]


def _spent_s(story: Story, doing: str) -> float:
    return sum(end_s - at_s for (at_s, what), (end_s, _) in pairwise(story) if what == doing)


def _timeline(gang_sizes: Sequence[int], stories: Sequence[Story]) -> Timeline:
    changes = []
    for gang_size, story in zip(gang_sizes, stories, strict=True):
        for (_, before), (at_s, now) in pairwise([(0.0, IS_OVER), *story]):
            devices = gang_size * ((now == HOLDS) - (before == HOLDS))
            changes.append((at_s, devices, (now == WAITS) - (before == WAITS)))
    changes.sort()
    time_s, held, waiting = (np.array(column) for column in zip(*changes, strict=True))
    last = np.append(time_s[1:] != time_s[:-1], True)  # of one instant, what it comes to
    return Timeline(time_s[last], held.cumsum()[last], waiting.cumsum()[last])
