"""AntMan's classes: quotas are charged when jobs come, and who is guaranteed goes before who uses what is left."""

from __future__ import annotations

from sharing_words import Stage, told

from weft.core.events import Cancelled, Finished, Held, Submitted
from weft.core.values import JobClass, JobSpec
from weft.policies.order.arrival import Arrival
from weft.policies.order.classed import GUARANTEED, OPPORTUNISTIC, Classed
from weft.policies.policy import Policy

FREE = {"job_class": JobClass.OPPORTUNISTIC}


class Classes(Stage):
    """First come, first served within a class, on one node."""

    def __init__(self, devices: int, **quotas: int) -> None:
        self.order = Classed(Arrival(strict=False))
        super().__init__(Policy(self.order), devices)
        self.scheduler.ledger.tenants.quotas = quotas

    def standing(self, name: str) -> int:
        return self.order.standing(self.job(name))


def test_without_quotas_all_are_peers_but_those_that_want_to_be_opportunistic() -> None:
    stage = Classes(2)
    stage.submit(0.0, "a", job_class=JobClass.GUARANTEED)
    stage.submit(0.0, "b")
    stage.submit(0.0, "c", **FREE)
    assert [stage.standing(name) for name in "abc"] == [GUARANTEED, GUARANTEED, OPPORTUNISTIC]


def test_a_job_is_charged_to_its_tenants_quota_when_it_comes() -> None:
    stage = Classes(8, ada=3)
    stage.submit(0.0, "a", gang_size=2, tenant="ada")
    stage.submit(0.0, "b", gang_size=2, tenant="ada")
    stage.submit(0.0, "c", tenant="ada")
    stage.submit(0.0, "d", tenant="bo")
    assert [stage.standing(name) for name in "abcd"] == [GUARANTEED, OPPORTUNISTIC, GUARANTEED, OPPORTUNISTIC]
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


def test_a_guaranteed_job_beyond_its_quota_is_like_an_opportunistic_one_until_quota_frees() -> None:
    stage = Classes(2, ada=1, bo=1)
    stage.submit(0.0, "a", tenant="ada", job_class=JobClass.GUARANTEED)
    stage.submit(1.0, "beyond", tenant="ada", job_class=JobClass.GUARANTEED)
    assert stage.running == {"a", "beyond"}
    stage.submit(2.0, "b", tenant="bo")
    assert stage.running == {"a", "b"}
    stage.tell(3.0, Finished("a", 1))
    assert (stage.standing("beyond"), stage.running) == (GUARANTEED, {"b", "beyond"})


def test_when_quota_frees_the_first_that_came_is_upgraded_and_may_preempt() -> None:
    stage = Classes(1, ada=1)
    stage.submit(0.0, "a", tenant="ada")
    stage.submit(1.0, "first", tenant="ada")
    stage.submit(2.0, "second", tenant="ada")
    stage.submit(3.0, "x", tenant="bo")
    stage.tell(4.0, Finished("a", 1))
    assert [stage.standing(name) for name in ("first", "second")] == [GUARANTEED, OPPORTUNISTIC]
    assert stage.running == {"first"}


def test_a_job_that_is_held_keeps_its_charge() -> None:
    stage = Classes(1, ada=1)
    stage.submit(0.0, "x", tenant="bo")
    stage.tell(1.0, Submitted(JobSpec("a", tenant="ada", device_types=frozenset({"rare"}))), Held("a"))
    stage.submit(2.0, "b", tenant="ada")
    assert (stage.standing("a"), stage.standing("b")) == (GUARANTEED, OPPORTUNISTIC)


def test_a_job_that_comes_and_is_cancelled_in_one_instant_is_not_charged_for_ever() -> None:
    stage = Classes(1, ada=1)
    stage.tell(0.0, Submitted(JobSpec("z", tenant="ada")))
    stage.tell(1.0, Submitted(JobSpec("a", tenant="ada")), Cancelled("z"), Cancelled("a"))
    stage.submit(2.0, "b", tenant="ada")
    assert (stage.order.charged, stage.standing("b")) == ({"b": 1}, GUARANTEED)


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
    assert [stage.standing(name) for name in "ab"] == [GUARANTEED, OPPORTUNISTIC]
    stage.scheduler.ledger.tenants.quotas = {}
    stage.tell(2.0)
    assert [stage.standing(name) for name in "ab"] == [GUARANTEED, GUARANTEED]
