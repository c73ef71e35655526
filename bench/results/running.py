"""Making one simulation and keeping the numbers that the tables need."""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import workloads
from numpy.typing import NDArray
from papers_jobs import FIFTEEN, MB
from task import Outcome, Task, remember

from weft.core.events import Event, Measured, Submitted
from weft.core.values import JobClass
from weft.policies.loader import policies_asked
from weft.sim.engine import Simulation
from weft.sim.request import Request, cluster_text, parse_cluster
from weft.sim.results.summary import PolicyRun, completion_s, queueing_s, summarise
from weft.sim.trace import TraceJob
from weft.sim.world import Habits, World, load_world
from weft.sim.world.model import noise


def world_of(name: str) -> World:
    """The packaged ones, one whose types nobody needs to know, and that of Salus's models."""
    if name == "plain":
        return World("plain", counts_only=False, preemption_s=0.0, speed=dict.fromkeys(("X", "Y", "gpu", "cpu"), 1.0))
    if name == "salus":
        default = load_world("default")
        loads = {model: default.models.get(model, Habits()).load for model in FIFTEEN}
        habits = {model: Habits(loads[model], (p * MB, t * MB)) for model, (p, t) in FIFTEEN.items()}
        return replace(default, name="salus", models={**default.models, **habits})
    return load_world(name)


class Told(Simulation):
    """The policy is told more, or less well, than in the plain simulation; what is true stays as it is."""

    task: Task

    def _arrive(self, position: int, job: TraceJob, events: list[Event]) -> None:
        before = len(events)
        super()._arrive(position, job, events)
        for event in events[before:]:
            if isinstance(event, Submitted) and self.task.error:
                events[events.index(event)] = self._misjudged(event)
            if isinstance(event, Submitted) and self.task.is_profiled:
                profile = self._world.profile(event.job, self._seed)
                memory = (profile.persistent_bytes, profile.ephemeral_bytes)
                elsewhere = ("in an earlier run",)  # so that it does not count as measured alone, on devices here
                rate_hz = event.job.rate_hz("any")
                events.append(Measured(event.job.id, 0, rate_hz, profile.utilisation, *memory, elsewhere))

    def _misjudged(self, event: Submitted) -> Submitted:
        """On each type its run time is off by a factor of its own."""
        spec, error = event.job, self.task.error
        rates = {
            kind: rate_hz / max(0.05, noise(error, self._seed, "told", spec.id, kind))
            for kind, rate_hz in spec.step_rate_hz.items()
        }
        return Submitted(replace(spec, step_rate_hz=rates))


def run(task: Task) -> tuple[Task, Outcome]:
    """In a process of its own; what came of it is on the disk when it returns."""
    trace, cluster, world = workloads.jobs_of(task.workload), parse_cluster(task.cluster), world_of(task.world)
    quotas = dict.fromkeys(trace.tenants, task.quota) if task.quota else {}
    (named,) = policies_asked(task.policy)
    request = Request(trace, cluster, world, task.seed, quotas)
    request.check()
    request.check_policy(named)
    gc.disable()
    started_s = time.process_time()
    simulation = Told(trace, cluster, named.build(), world, task.seed, quotas=quotas)
    simulation.task = task
    simulation.run()
    cpu_s = time.process_time() - started_s
    gc.enable()
    done = PolicyRun(
        policy=named.label,
        parameters={},
        trace=trace.name,
        cluster=cluster_text(cluster),
        device_count=cluster.device_count,
        seed=task.seed,
        jobs=simulation.jobs(),
        timeline=simulation.timeline(),
        events=simulation.events,
        wall_s=cpu_s,
    )
    outcome = _outcome(done, [job.spec.job_class for job in trace])
    remember(task, outcome)
    return task, outcome


def _outcome(done: PolicyRun, classes: list[JobClass]) -> Outcome:
    jobs = done.jobs
    work_s = float((jobs.gang_size * jobs.alone_s).sum())
    numbers: dict[str, Any] = asdict(summarise(done))
    numbers["cpu_s"] = numbers.pop("wall_s")
    numbers["work_rate"] = work_s / numbers["makespan_s"]
    """Devices' worth of work that was done, alone and consolidated, in each second of the makespan."""
    numbers["median_queue_s"], numbers["p95_queue_s"] = np.percentile(queueing_s(jobs), (50, 95)).tolist()
    numbers["first_wait_s"] = float((jobs.first_start_s - jobs.arrival_s).mean())
    of = np.array([each.value for each in classes])
    numbers["classes"] = {name: _of_class(done, of == name) for name in sorted(set(of.tolist()))}
    return numbers


def _of_class(done: PolicyRun, inside: NDArray[np.bool_]) -> dict[str, float]:
    jobs = done.jobs
    timed = inside & (jobs.alone_s > 0)
    slower = jobs.run_s[timed] / jobs.alone_s[timed]
    return {
        "count": int(inside.sum()),
        "mean_jct_s": float(completion_s(jobs)[inside].mean()),
        "mean_queue_s": float(queueing_s(jobs)[inside].mean()),
        "preemptions": int(jobs.preemptions[inside].sum()),
        "slowdown": float(slower.mean()),
        "median_slowdown": float(np.median(slower)),
        "total_slowdown": float(
            (jobs.gang_size * jobs.run_s)[timed].sum() / (jobs.gang_size * jobs.alone_s)[timed].sum()
        ),
    }
