"""A guest stays as it was seated only while its holder is what it was: nobody guaranteed feels one that runs free."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sharing_words import GB, Stage, told

from protection import unprotected
from weft.core.commands import Preempt, Seat
from weft.core.events import Cancelled, Event, Finished, Measured, NodeJoined, NodeLost, Submitted
from weft.core.values import JobClass, JobSpec, Node
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.mixed import MixedSharing


def look(stage: Stage, now: float, utilisation: float = 0.3) -> None:
    """As if the nodes had measured all who compute: a job beside others makes nineteen twentieths of its steps."""
    ledger = stage.scheduler.ledger
    places = {
        name: job.seating.allocation if job.seating else job.allocation
        for name, job in ledger.jobs.items()
        if job.is_computing
    }
    beside = {
        name: tuple(sorted(other for other, there in places.items() if there == place and other != name))
        for name, place in places.items()
    }
    stage.tell(
        now,
        *(
            Measured(
                *(name, stage.job(name).generation, 0.95 if others else 1.0, utilisation, GB, GB, others, 0),
                *((1.0, 0.0) if others else ()),
            )
            for name, others in beside.items()
        ),
    )


def pass_time(stage: Stage, until_s: float) -> None:
    while stage.now + 2.0 < until_s:
        look(stage, stage.now + 2.0)


def guests_of(policy: Policy) -> MixedSharing:
    assert isinstance(policy.share, MixedSharing)
    return policy.share


def packed_peers(policy: Policy, *sizes: int, quotas: dict[str, int], tenant: str, with_first: bool = False) -> Stage:
    """On the last device b is packed with a; the others are held by jobs that do not share."""
    stage = Stage(policy, *sizes)
    stage.scheduler.ledger.tenants.quotas = quotas
    if with_first:
        stage.submit(0.0, "g0", may_share=False, tenant=tenant)
    stage.submit(0.5, "a", tenant=tenant)
    stage.submit(0.6, "b", tenant=tenant)
    pass_time(stage, 300.0)
    assert [one.is_throttled for one in stage.seated.values()] == [False]
    return stage


def test_two_that_were_kept_compute_on_together_when_the_guest_goes_first_from_now_on() -> None:
    stage = Stage(POLICIES["weft"](), 1)
    stage.submit(0.0, "a")
    stage.submit(0.6, "b")
    pass_time(stage, 700.0)
    kept_at_s = next(at_s for at_s, one in stage.log if "kept" in "".join(told([one])))
    preempted = [(at_s, one.job_id) for at_s, one in stage.log if isinstance(one, Preempt) and at_s > kept_at_s]
    assert len(preempted) > 4
    assert preempted == [(at_s, one.job_id) for at_s, one in stage.log if isinstance(one, Seat) and at_s > kept_at_s]


def test_a_guest_leaves_when_a_guaranteed_job_that_nobody_knows_takes_the_device_of_its_peer() -> None:
    policy = POLICIES["weft"]()
    stage = packed_peers(policy, 1, quotas={"gold": 1}, tenant="poor")
    [guest] = stage.seated
    stage.submit(stage.now + 1.0, "gold", tenant="gold", job_class=JobClass.GUARANTEED, memory_bytes=2 * GB)
    assert (stage.running, stage.seated) == ({"gold"}, {})
    assert stage.lines[-1] == (
        f"unseat {guest}: evicted: gold, which holds its device, takes precedence and is not to share"
    )
    pass_time(stage, stage.now + 100.0)
    assert stage.seated
    assert all(seating.is_throttled for seating in stage.seated.values())


def test_a_guest_is_held_back_from_the_instant_its_holder_comes_to_be_guaranteed() -> None:
    policy = POLICIES["weft"]()
    stage = packed_peers(policy, 2, quotas={"gold": 1, "x": 1}, tenant="gold", with_first=True)
    [guest], [holder] = stage.seated, stage.running - {"g0"}
    taken = Submitted(JobSpec("x0", tenant="x", may_share=False))
    stage.tell(stage.now + 1.0, Finished("g0", stage.job("g0").generation), taken)
    assert guests_of(policy).classes.is_guaranteed(stage.job(holder))
    assert stage.seated[guest].is_throttled
    assert f"seat {guest}: uses what {holder} leaves idle" in stage.lines


def test_it_leaves_if_its_holder_has_no_time_to_fill() -> None:
    policy = POLICIES["weft"](busy=0.2)
    stage = packed_peers(policy, 2, quotas={"gold": 1, "x": 1}, tenant="gold", with_first=True)
    taken = Submitted(JobSpec("x0", tenant="x", may_share=False))
    stage.tell(stage.now + 1.0, Finished("g0", stage.job("g0").generation), taken)
    assert not stage.seated


@pytest.mark.parametrize("policy", ["weft", "antman"])
def test_a_guest_that_gandiva_packed_is_held_back_after_a_change_to_a_policy_with_guarantees(policy: str) -> None:
    stage = Stage(POLICIES["gandiva"](quantum_s=100.0, quantum_steps=1e9), 1)
    stage.submit(0.0, "a", "b", tenant="gold")
    pass_time(stage, 250.0)
    assert [one.is_throttled for one in stage.seated.values()] == [False]
    stage.scheduler.ledger.tenants.quotas = {"gold": 1}
    changed = POLICIES[policy]()
    stage.scheduler.change_policy(changed)
    stage.tell(stage.now + 1.0)
    assert all(one.is_throttled for one in stage.seated.values())
    assert unprotected(stage.scheduler.ledger, guests_of(changed).classes.is_guaranteed) == []


def test_gandiva_ends_a_probe_when_a_job_that_was_never_alone_takes_over_the_device() -> None:
    stage = Stage(POLICIES["gandiva"](quantum_s=100.0, quantum_steps=1e9), 1)
    stage.submit(0.0, "a", "b")
    pass_time(stage, 250.0)
    [guest] = stage.seated
    stage.submit(stage.now + 1.0, "new", memory_bytes=2 * GB)
    while "new" not in stage.running:
        look(stage, stage.now + 2.0)
    assert not stage.seated
    assert f"unseat {guest}: not yet measured alongside new, which holds its device now" in stage.lines


def test_gandiva_measures_anew_when_a_job_that_was_alone_takes_over_the_device() -> None:
    stage = Stage(POLICIES["gandiva"](quantum_s=50.0, quantum_steps=1e9), 1)
    stage.submit(0.0, "a", "b", "c")
    pass_time(stage, 1000.0)
    assert {
        one
        for name in "abc"
        for other in "abc"
        if (one := f"tell {name}: packed with {other}, to be measured") in stage.lines
    }


# ---- whatever happens

NAMES = [f"j{i}" for i in range(8)]
HAPPENINGS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(NAMES),
        st.sampled_from(("gold", "silver", "poor")),
        st.sampled_from(tuple(JobClass)),
        st.sampled_from((1, 1, 1, 2)),
    ),
    st.tuples(st.sampled_from(("end", "cancel")), st.sampled_from(NAMES)),
    st.tuples(st.just("look"), st.sampled_from((0.1, 0.3, 0.6, 0.95))),
    st.tuples(st.just("wait"), st.sampled_from((1.0, 20.0, 700.0))),
    st.tuples(st.just("policy"), st.sampled_from(("gandiva", "salus", "antman", "weft", "weft"))),
    st.tuples(st.just("quotas"), st.sampled_from(({}, {"gold": 1}, {"gold": 2, "silver": 1}))),
    st.tuples(st.just("node"), st.booleans()),
)


@given(happenings=st.lists(HAPPENINGS, min_size=20, max_size=60), first=st.sampled_from(("weft", "antman")))
@settings(max_examples=60, phases=[Phase.generate], derandomize=True, database=None, deadline=None)
def test_nobody_guaranteed_ever_holds_a_device_beside_a_guest_that_is_not_held_back(
    happenings: list[tuple[object, ...]], first: str
) -> None:
    policy = POLICIES[first]()
    stage = Stage(policy, 2)
    for what, *details in happenings:
        jobs, now = stage.scheduler.ledger.jobs, stage.now + 1.0
        match what, *details:
            case "submit", str(name), str(tenant), JobClass() as job_class, int(gang) if name not in jobs:
                spec = JobSpec(name, gang, tenant, job_class, memory_bytes=2 * GB * gang, model="m")
                stage.tell(now, Submitted(spec))
            case "end", str(name) if name in jobs and jobs[name].is_computing:
                stage.tell(now, Finished(name, jobs[name].generation))
            case "cancel", str(name) if name in jobs:
                stage.tell(now, Cancelled(name))
            case "look", float(utilisation):
                look(stage, now, utilisation)
            case "wait", float(seconds):
                stage.tell(stage.now + seconds)
            case "policy", str(name):
                policy = POLICIES[name]()
                stage.scheduler.change_policy(policy)
                stage.tell(now)
            case "quotas", dict(quotas):
                stage.scheduler.ledger.tenants.quotas = quotas
                stage.tell(now)
            case "node", bool(is_lost):
                stage.tell(now, *_node(stage, is_lost))
        if isinstance(policy.share, MixedSharing):
            assert unprotected(stage.scheduler.ledger, policy.share.classes.is_guaranteed) == []


def _node(stage: Stage, is_lost: bool) -> list[Event]:
    is_there = stage.scheduler.ledger.devices.index_of("extra") is not None
    if is_there == is_lost:
        return [NodeLost("extra") if is_lost else NodeJoined(Node("extra", 1, "any", 16 * GB))]
    return []


def test_the_predicate_names_who_is_beside_whom() -> None:
    stage = Stage(POLICIES["gandiva"](quantum_s=100.0, quantum_steps=1e9), 1)
    stage.submit(0.0, "a", "b")
    pass_time(stage, 250.0)
    [guest], [holder] = stage.seated, stage.running
    assert unprotected(stage.scheduler.ledger, lambda job: job.id == holder) == [(holder, guest)]
    assert unprotected(stage.scheduler.ledger, lambda job: job.id == guest) == []
