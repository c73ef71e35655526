"""Orders that a user might write: the plan is right, or the mistake is named."""

from __future__ import annotations

import pytest

from weft.core.errors import InputError, PlanRejectedError, WeftError
from weft.core.events import Finished, Submitted, Woken
from weft.core.job import Job
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, Node
from weft.policies import KeyedOrder, Policy
from weft.policies.base import Key
from weft.policies.plan.incremental import IncrementalPlanner
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import load_world

TWO = Cluster((Node("n0", 2),))


def submitted(job_id: str, gang_size: int = 1, tenant: str = "default") -> Submitted:
    return Submitted(JobSpec(job_id, gang_size, tenant))


def running(scheduler: Scheduler) -> set[str]:
    return set(scheduler.ledger.running)


class OneTenantBlocks(KeyedOrder):
    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def blocks(self, job: Job, now: float) -> bool:
        return job.tenant == "a"


def test_a_job_that_blocks_is_seen_behind_one_of_equal_shape_that_does_not() -> None:
    scheduler = Scheduler(TWO, Policy(OneTenantBlocks()))
    waiting = [submitted("w1", 2, "b"), submitted("w2", 2, "a"), submitted("w3", 1, "b")]
    scheduler.handle([submitted("r"), *waiting], 0.0)
    assert running(scheduler) == {"r"}


class EvictedFirst(KeyedOrder):
    """Small gangs first, but whoever lost its devices comes before all others."""

    preempts = True

    def key(self, job: Job, now: float) -> Key:
        return (not (job.generation and job.is_waiting), job.gang_size, job.tie)


def test_a_job_that_eviction_moves_up_is_looked_at_again() -> None:
    scheduler = Scheduler(TWO, Policy(EvictedFirst()))
    scheduler.handle([submitted("big", 2)], 0.0)
    scheduler.handle([submitted("small", 1)], 1.0)
    assert running(scheduler) == {"small"}
    scheduler.handle([Woken()], 2.0)
    assert running(scheduler) == {"big"}


class NoTie(KeyedOrder):
    def key(self, job: Job, now: float) -> Key:
        return (job.gang_size,)


def test_a_key_without_the_tie_is_refused() -> None:
    with pytest.raises(InputError, match="does not end with the job's tie"):
        Scheduler(TWO, Policy(NoTie())).handle([submitted("a")], 0.0)


class WrongOnce(KeyedOrder):
    """Asks once to be woken in the past."""

    is_wrong = True

    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        if self.is_wrong and now == 1.0:
            self.is_wrong = False
            return now
        return float("inf")


def test_after_a_rejected_plan_the_policy_starts_anew() -> None:
    policy = Policy(WrongOnce())
    assert isinstance(policy.planner, IncrementalPlanner)
    scheduler = Scheduler(TWO, policy)
    scheduler.handle([submitted("a")], 0.0)
    with pytest.raises(PlanRejectedError, match="woken at 1 s, which is not after 1 s"):
        scheduler.handle([submitted("b")], 1.0)
    scheduler.handle([submitted("c"), Finished("a", 1)], 2.0)
    assert running(scheduler) == {"b", "c"}


class AlwaysDue(KeyedOrder):
    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        return 0.0


def test_a_policy_that_wants_to_be_woken_for_ever_is_stopped() -> None:
    trace = Trace.of([TraceJob(JobSpec("a"), 0.0, 10.0)])
    with pytest.raises(WeftError, match="again and again to be woken"):
        Simulation(trace, TWO, Policy(AlwaysDue()), load_world("ideal")).run()


def test_fair_leaves_no_device_idle_that_somebody_could_use() -> None:
    from weft.policies import POLICIES

    cluster = Cluster((Node("n0", 1, "V"), Node("n1", 1, "K")))
    scheduler = Scheduler(cluster, POLICIES["fair"]())
    scheduler.handle([submitted("x")], 0.0)
    scheduler.handle([submitted("a")], 1.0)
    scheduler.handle([Finished("x", 1)], 2.0)
    scheduler.handle([Submitted(JobSpec("b", device_types=frozenset({"V"})))], 3.0)
    assert running(scheduler) == {"a", "b"}


def test_allox_starts_what_fits_beyond_a_window_of_gangs_that_do_not() -> None:
    from weft.policies import POLICIES

    scheduler = Scheduler(Cluster((Node("n0", 4),)), POLICIES["allox"](n_max=2, alpha=1.0))
    scheduler.handle([Submitted(JobSpec("r", declared_steps=1000.0))], 0.0)
    gangs = [Submitted(JobSpec(f"g{i}", 4, declared_steps=1.0)) for i in range(2)]
    scheduler.handle([*gangs, Submitted(JobSpec("single", declared_steps=500.0))], 1.0)
    assert running(scheduler) == {"r", "single"}
