"""What classes promise, for random jobs and quotas; and both planners promise the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plans import agreed
from weft.core.commands import Command
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Reason
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.core.view import View
from weft.policies.order.keyed import Fifo, KeyedOrder
from weft.policies.order.quota import QuotaClasses
from weft.policies.order.starvation import BypassBound
from weft.policies.order.tiresias import ServiceQueues
from weft.policies.placement import Consolidated, SkewAware
from weft.policies.plan.free_devices import NodeGroup
from weft.policies.plan.preemption import placement_of
from weft.policies.plan.reservation import Reservation, Reservations
from weft.policies.policy import Policy
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import World

WORLD = World("plain", counts_only=False, preemption_s=0.125, speed={"any": 1.0, "V100": 1.0, "K80": 0.5})
GUARANTEED, OPPORTUNISTIC, AUTO = JobClass.GUARANTEED, JobClass.OPPORTUNISTIC, JobClass.AUTO

steady = settings(
    phases=(Phase.explicit, Phase.generate),
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# ---- policies


def arrival(convert_after_s: float) -> Policy:
    return Policy(QuotaClasses(Fifo(strict=False), convert_after_s), place=Consolidated())


def queues(convert_after_s: float) -> Policy:
    order = QuotaClasses(ServiceQueues((4.0, 20.0)), convert_after_s)
    return Policy(order, place=SkewAware(0.2), bypass_limit_s=30.0)


MAKERS = (arrival, queues)


class Twin:
    """Decides with indexes and from scratch, and insists that both plans are one, and what they keep for whom."""

    def __init__(self, make: Callable[[float], Policy], convert_after_s: float) -> None:
        self.fast, other = make(convert_after_s), make(convert_after_s)
        self._plain = Policy(other.order, match=other.match, place=other.place, from_scratch=True)

    @property
    def order(self) -> QuotaClasses:
        order = self.fast.order
        inner = order.inner if isinstance(order, BypassBound) else order
        assert isinstance(inner, QuotaClasses)
        return inner

    @property
    def kept(self) -> dict[str, Reservation]:
        return kept_by(self.fast)

    def decide(self, view: View) -> Plan:
        return agreed(self.fast.decide(view), self._plain.decide(view), view.now)

    def explain(self, view: View, job: Job) -> Reason:
        return self.fast.explain(view, job)


def kept_by(policy: Policy) -> dict[str, Reservation]:
    reservations = policy.planner.reservations
    assert isinstance(reservations, Reservations)
    return dict(reservations.kept)


# ---- jobs


GANGS = st.sampled_from((0, 0, 0, 1, 3, 5))


@dataclass(frozen=True)
class Case:
    cluster: Cluster
    jobs: list[TraceJob]
    quotas: dict[str, int]


@st.composite
def cases(
    draw: st.DrawFn,
    classes: tuple[JobClass, ...] = (GUARANTEED, OPPORTUNISTIC, AUTO),
    runs: tuple[float, ...] = (0.0,),
    least_quota: int = 1,
) -> Case:
    """Many are single jobs, so that there is a stream of them in which a gang could go under."""
    kinds = draw(st.sampled_from((("any",), ("any",), ("V100", "K80"))))
    sizes = draw(st.lists(st.sampled_from((1, 2, 4)), min_size=len(kinds), max_size=3))
    cluster = Cluster(tuple(Node(f"n{i}", size, kinds[i % len(kinds)]) for i, size in enumerate(sizes)))
    jobs = []
    for i in range(draw(st.integers(2, 25))):
        arrival_s, lasts_s, gang = draw(st.tuples(st.integers(0, 120), st.integers(1, 120), GANGS))
        spec = JobSpec(
            f"j{i}",
            tenant=draw(st.sampled_from("ab")),
            job_class=draw(st.sampled_from(classes)),
            declared_steps=lasts_s / 4,
            skew=draw(st.sampled_from((0.0, 1.0))),
            min_run_s=draw(st.sampled_from(runs)),
        )
        gang_size = 1 + gang % cluster.largest_gang(spec)
        spec = JobSpec(**{**vars_of(spec), "gang_size": gang_size})
        jobs.append(TraceJob(spec, arrival_s / 4 if i else 0.0, lasts_s / 4))
    quotas = {tenant: max(least_quota, draw(st.integers(1, cluster.device_count))) for tenant in "ab"}
    for tenant, devices in quotas.items():  # what could never be charged is refused when it is submitted
        gangs = [job.spec.gang_size for job in jobs if job.spec.tenant == tenant and job.spec.job_class is GUARANTEED]
        quotas[tenant] = max([devices, *gangs])
    return Case(cluster, jobs, quotas)


def vars_of(spec: JobSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).__dataclass_fields__}


def run(case: Case, policy: Any, watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None) -> Simulation:
    simulation = Simulation(Trace.of(case.jobs), case.cluster, policy, WORLD, quotas=case.quotas)
    handle = simulation.scheduler.handle

    def watched(events: Any, now: float) -> list[Command]:
        commands = handle(events, now)
        simulation.scheduler.ledger.validate()
        watch(simulation.scheduler, now)
        return commands

    simulation.scheduler.handle = watched  # type: ignore[method-assign]
    simulation.run()
    return simulation


# ---- what holds


@pytest.mark.parametrize("make", MAKERS)
@given(case=cases(runs=(0.0, 0.0, 2.5)), convert_after_s=st.sampled_from((0.0, 5.0)))
@steady
def test_both_planners_agree_where_there_are_quotas(
    make: Callable[[float], Policy], case: Case, convert_after_s: float
) -> None:
    run(case, Twin(make, convert_after_s))


@pytest.mark.parametrize("make", MAKERS)
@given(case=cases(runs=(0.0, 2.5)), convert_after_s=st.sampled_from((0.0, 5.0)))
@steady
def test_who_asked_to_be_guaranteed_never_runs_as_opportunistic_and_who_left_it_to_us_only_after_waiting(
    make: Callable[[float], Policy], case: Case, convert_after_s: float
) -> None:
    policy = Twin(make, convert_after_s)

    def watch(scheduler: Scheduler, now: float) -> None:
        for job in scheduler.ledger.running.values():
            if job.id in policy.order.charged:
                continue
            assert job.spec.job_class is not GUARANTEED
            could_be = job.gang_size <= case.quotas[job.tenant]
            if job.spec.job_class is AUTO and could_be:
                assert job.first_wait_s >= convert_after_s - 1e-5
        for job in scheduler.ledger.jobs.values():
            assert job.is_running or scheduler.reason(job.id, now) is not None

    run(case, policy, watch)


@given(case=cases(classes=(GUARANTEED, OPPORTUNISTIC, AUTO)))
@steady
def test_within_its_quota_a_guaranteed_job_waits_only_for_guaranteed_ones(case: Case) -> None:
    """With everything that others hold within no quota taken away, there is no place for it, or one is promised."""
    policy = Twin(arrival, 5.0)

    def watch(scheduler: Scheduler, now: float) -> None:
        ledger, charged = scheduler.ledger, policy.order.charged
        free = list(ledger.free_counts)
        for job in ledger.running.values():
            for node, count in placement_of(job) if job.id not in charged else ():
                free[node] += count
        first = min((kept.job.tie for kept in policy.kept.values()), default=None)
        for job in ledger.jobs.values():
            if job.is_waiting and job.id in charged and (first is None or job.tie < first):
                for kind in case.cluster.device_types:
                    nodes = [i for i, node in enumerate(case.cluster.nodes) if node.device_type == kind]
                    group = NodeGroup(nodes, [node.device_count for node in case.cluster.nodes])
                    assert Consolidated().choose(job.spec, group, free) is None

    run(case, policy, watch)


@given(case=cases(classes=(GUARANTEED, GUARANTEED, OPPORTUNISTIC), least_quota=64))
@steady
def test_a_gang_starts_no_later_than_when_the_last_of_those_ends_for_whom_it_waits(case: Case) -> None:
    """That is, of those that held its nodes when they were promised, or came before it and got quota after it."""
    policy, waits_for, since_s = Twin(arrival, 0.0), dict[str, set[str]](), dict[str, float]()

    def watch(scheduler: Scheduler, now: float) -> None:
        running, jobs = scheduler.ledger.running, scheduler.ledger.jobs
        sure = [job for job in running.values() if job.id in policy.order.charged]
        for gang_id, holders in waits_for.items():
            if gang_id in jobs and gang_id not in running:
                tie, promised_s = jobs[gang_id].tie, since_s[gang_id]
                holders |= {job.id for job in sure if job.tie < tie and job.since_s > promised_s}
                assert holders & running.keys(), f"{gang_id} waits for nobody at {now} s"
        for gang_id, kept in policy.kept.items():
            nodes = {node for node, _ in kept.placement}
            there = {job.id for job in sure if nodes & {node for node, _ in placement_of(job)}}
            waits_for.setdefault(gang_id, there)
            since_s.setdefault(gang_id, now)

    run(case, policy, watch)


def test_every_order_has_the_hooks_of_reservations() -> None:
    order, job = KeyedOrder(), Job(JobSpec("j"), 0, 0.0, 1.0)
    assert not any((order.is_barred(job), order.reserves(job), order.heeds_reservations(job)))
