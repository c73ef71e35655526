"""AntMan's classes: quotas are charged when jobs come, and who is guaranteed goes before who uses what is left."""

from __future__ import annotations

import pytest
from sharing_words import GB, Stage, told

from weft.core.events import Cancelled, Finished, Held, Lost, Released, Submitted
from weft.core.reasons import Code, Reason
from weft.core.values import JobClass, JobSpec
from weft.policies.order.keyed import Fifo
from weft.policies.order.quota import GUARANTEED_FIRST, OPPORTUNISTIC_LAST, QuotaClasses
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

FREE = {"job_class": JobClass.OPPORTUNISTIC}
SURE = {"job_class": JobClass.GUARANTEED}


class Classes(Stage):
    """First come, first served within a class, on one node."""

    def __init__(self, devices: int, convert_after_s: float = 0.0, **quotas: int) -> None:
        self.order = QuotaClasses(Fifo(strict=False), convert_after_s)
        super().__init__(Policy(self.order), devices)
        self.scheduler.ledger.tenants.quotas = quotas

    def class_rank(self, name: str) -> int:
        return self.order.class_rank(self.job(name))

    def why(self, name: str) -> str:
        return str(self.scheduler.reason(name, self.now))


def test_without_quotas_all_are_peers_but_those_that_want_to_be_opportunistic() -> None:
    stage = Classes(2)
    stage.submit(0.0, "a", job_class=JobClass.GUARANTEED)
    stage.submit(0.0, "b")
    stage.submit(0.0, "c", **FREE)
    assert [stage.class_rank(name) for name in "abc"] == [GUARANTEED_FIRST, GUARANTEED_FIRST, OPPORTUNISTIC_LAST]


def test_a_job_is_charged_to_its_tenants_quota_when_it_comes() -> None:
    stage = Classes(8, ada=3)
    stage.submit(0.0, "a", gang_size=2, tenant="ada")
    stage.submit(0.0, "b", gang_size=2, tenant="ada")
    stage.submit(0.0, "c", tenant="ada")
    stage.submit(0.0, "d", tenant="bo")
    assert [stage.class_rank(name) for name in "abcd"] == [
        GUARANTEED_FIRST,
        OPPORTUNISTIC_LAST,
        GUARANTEED_FIRST,
        OPPORTUNISTIC_LAST,
    ]
    assert stage.order.charged == {"a": 2, "c": 1}


def test_a_guaranteed_job_preempts_opportunistic_ones_the_last_to_come_first() -> None:
    stage = Classes(2, ada=1)
    stage.submit(0.0, "x", "y", tenant="bo", **FREE)
    commands = stage.submit(1.0, "a", tenant="ada")
    assert told(commands) == [
        "preempt y: preempted: a comes before it and needs its devices",
        "start a: starts on 1 device after preempting 1 of the jobs behind it",
    ]


def test_opportunistic_jobs_do_not_preempt_each_other_nor_do_guaranteed_ones() -> None:
    stage = Classes(1, ada=2)
    stage.submit(0.0, "x", tenant="bo")
    stage.submit(1.0, "y", tenant="bo")
    assert stage.running == {"x"}
    stage.submit(2.0, "a", "b", tenant="ada")
    assert stage.running == {"a"}


def test_who_asked_to_be_guaranteed_waits_for_quota_though_devices_are_free() -> None:
    stage = Classes(3, ada=1, bo=1)
    stage.submit(0.0, "a", tenant="ada", **SURE)
    stage.submit(1.0, "beyond", tenant="ada", **SURE)
    assert (stage.running, stage.class_rank("beyond")) == ({"a"}, GUARANTEED_FIRST)
    assert stage.why("beyond") == "needs 1 device within the quota of tenant ada; in use of its 1: 1"
    stage.tell(3.0, Finished("a", 1))
    assert (stage.running, stage.order.charged) == ({"beyond"}, {"beyond": 1})


def test_who_asked_to_be_guaranteed_keeps_its_right_when_the_quota_becomes_smaller() -> None:
    stage = Classes(2, ada=2)
    stage.submit(0.0, "a", "b", tenant="ada", **SURE)
    stage.submit(1.0, "c", tenant="ada", **SURE)
    stage.scheduler.ledger.tenants.quotas = {"ada": 1}
    stage.tell(2.0)
    assert (stage.running, stage.order.charged) == ({"a", "b"}, {"a": 1, "b": 1})
    stage.tell(3.0, Finished("a", 1))
    assert stage.running == {"b"}


def test_small_jobs_of_its_tenant_do_not_use_up_the_quota_of_a_gang_for_more_than_a_day() -> None:
    stage = Classes(2, ada=2)
    stage.submit(0.0, "a", tenant="ada", **SURE)
    stage.submit(1.0, "gang", tenant="ada", gang_size=2, **SURE)
    stage.submit(2.0, "b", tenant="ada", **SURE)
    assert stage.running == {"a", "b"}
    stage.submit(86_401.0, "c", tenant="ada", **SURE)
    stage.tell(86_402.0, Finished("a", 1))
    assert stage.running == {"b"}
    stage.tell(86_403.0, Finished("b", 1))
    assert stage.running == {"gang"}


def test_who_left_its_class_to_us_is_converted_after_waiting_for_quota() -> None:
    stage = Classes(2, convert_after_s=600.0, ada=1)
    stage.submit(0.0, "a", tenant="ada")
    stage.submit(10.0, "b", tenant="ada")
    assert (stage.running, stage.class_rank("b")) == ({"a"}, GUARANTEED_FIRST)
    assert stage.why("b").endswith("in use of its 1: 1; opportunistic after 10 min of waiting")
    stage.tell(609.0)
    assert stage.running == {"a"}
    stage.tell(611.0)
    assert (stage.running, stage.class_rank("b"), stage.job("b").since_s) == ({"a", "b"}, OPPORTUNISTIC_LAST, 610.0)


def test_who_could_never_be_within_its_quota_does_not_wait_for_it() -> None:
    stage = Classes(4, convert_after_s=600.0, ada=1)
    stage.submit(0.0, "large", tenant="ada", gang_size=2)
    stage.submit(0.0, "none", tenant="bo")
    assert stage.running == {"large", "none"}


def test_conversions_and_upgrades_are_told() -> None:
    stage = Stage(POLICIES["antman"](convert_after_s=60.0), 1)
    stage.scheduler.ledger.tenants.quotas = {"ada": 1}
    stage.submit(0.0, "a", tenant="ada")
    stage.submit(0.0, "b", tenant="ada")
    stage.tell(100.0)
    stage.tell(200.0, Finished("a", 1))
    assert [line for line in stage.lines if " b: " in line] == [
        "tell b: converted to opportunistic after 60 s of waiting for quota",
        "start b: starts on 1 of 1 free devices",
        "tell b: upgraded to guaranteed: quota is free",
    ]


@pytest.mark.parametrize("policy", ["antman", "weft"])
def test_who_asked_to_be_guaranteed_is_nobodys_guest(policy: str) -> None:
    stage = Stage(POLICIES[policy](), 1)
    stage.scheduler.ledger.tenants.quotas = {"ada": 1}
    stage.submit(0.0, "a", tenant="ada", memory_bytes=GB, **SURE)
    stage.submit(0.0, "sure", tenant="ada", memory_bytes=GB, **SURE)
    stage.submit(0.0, "free", tenant="ada", memory_bytes=GB, **FREE)
    stage.measure(60.0, "a")
    stage.tell(120.0)
    assert set(stage.seated) == {"free"}


def test_when_quota_frees_the_first_that_came_is_upgraded_and_may_preempt() -> None:
    stage = Classes(1, ada=1)
    stage.submit(0.0, "a", tenant="ada")
    stage.submit(1.0, "first", tenant="ada")
    stage.submit(2.0, "second", tenant="ada")
    stage.submit(3.0, "x", tenant="bo")
    stage.tell(4.0, Finished("a", 1))
    assert [stage.class_rank(name) for name in ("first", "second")] == [GUARANTEED_FIRST, OPPORTUNISTIC_LAST]
    assert stage.running == {"first"}


def test_who_is_held_for_another_takes_no_quota_from_the_one_it_waits_for() -> None:
    stage = Classes(4, ada=4)
    stage.submit(0.0, "c", gang_size=2, tenant="ada", **SURE)
    stage.submit(0.0, "b", gang_size=4, tenant="ada", **SURE)
    after = Held("a", Reason(Code.COMES_AFTER, ("b",)))
    stage.tell(1.0, Submitted(JobSpec("a", gang_size=2, tenant="ada", **SURE)), after)
    stage.tell(2.0, Finished("c", 1))
    assert (stage.order.charged, stage.running) == ({"b": 4}, {"b"})
    stage.tell(3.0, Finished("b", 1), Released("a", after.reason.code))
    assert (stage.order.charged, stage.running) == ({"a": 2}, {"a"})


@pytest.mark.parametrize(("code", "charged"), [(Code.HELD, {"b": 1}), (Code.BACKING_OFF, {"a": 1})])
def test_who_is_put_on_hold_gives_its_quota_back_but_not_before_its_next_try(code: Code, charged: object) -> None:
    stage = Classes(1, ada=1)
    stage.submit(1.0, "a", tenant="ada", **SURE)
    stage.tell(2.0, Lost("a", 1), Held("a", Reason(code, (1, "failed", "5") if code is Code.BACKING_OFF else ())))
    stage.submit(3.0, "b", tenant="ada", **SURE)
    assert stage.order.charged == charged


def test_a_job_that_comes_and_is_cancelled_in_one_instant_is_not_charged_for_ever() -> None:
    stage = Classes(1, ada=1)
    stage.tell(0.0, Submitted(JobSpec("z", tenant="ada")))
    stage.tell(1.0, Submitted(JobSpec("a", tenant="ada")), Cancelled("z"), Cancelled("a"))
    stage.submit(2.0, "b", tenant="ada")
    assert (stage.order.charged, stage.class_rank("b")) == ({"b": 1}, GUARANTEED_FIRST)


def test_who_left_while_the_policy_could_not_look_is_charged_no_more() -> None:
    """When a decision fails, what had changed is not told again: the version says so."""
    stage = Classes(1, ada=1)
    stage.submit(0.0, "a", tenant="ada")
    stage.scheduler.record([Finished("a", 1)], 1.0)
    stage.scheduler.ledger.changes.clear()
    stage.scheduler.ledger.version += 1
    stage.submit(2.0, "b", tenant="ada")
    assert stage.order.charged == {"b": 1}


def test_new_quotas_count_from_the_next_decision_on_by_arrival() -> None:
    stage = Classes(2)
    stage.submit(0.0, "a", "b", tenant="ada")
    stage.scheduler.ledger.tenants.quotas = {"ada": 1}
    stage.tell(1.0)
    assert [stage.class_rank(name) for name in "ab"] == [GUARANTEED_FIRST, OPPORTUNISTIC_LAST]
    stage.scheduler.ledger.tenants.quotas = {}
    stage.tell(2.0)
    assert [stage.class_rank(name) for name in "ab"] == [GUARANTEED_FIRST, GUARANTEED_FIRST]
