"""A bound on bypass: nobody waits for ever behind a stream of luckier jobs."""

from __future__ import annotations

import inspect

import pytest
from policy_helpers import by_id, cluster, job, run
from sharing_words import Stage

from weft.core.events import Finished, Held, Lost, Released, Woken
from weft.core.values import JobClass
from weft.policies.order.keyed import Fifo
from weft.policies.order.quota import QuotaClasses
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

BOUND_S = 100.0
SMALL_RUN_S = 20.0

BOUNDED = [name for name in POLICIES if "bypass_limit_s" in inspect.signature(POLICIES[name]).parameters]

SMALL = [job(f"s{i}", 5.0 * i, SMALL_RUN_S) for i in range(200)]
STREAM = [*SMALL, job("wide", 1.0, 30.0, 4)]
"""One small job comes every 5 s and runs for 20 s: four devices are never free together."""


def wide_starts_at(name: str, bypass_limit_s: float | None) -> float:
    policy = POLICIES[name](bypass_limit_s=bypass_limit_s)
    return by_id(run(STREAM, cluster((1, 4, "any")), policy), "first_start_s")["wide"]


@pytest.mark.parametrize("name", BOUNDED)
def test_with_a_bound_a_wide_gang_starts_soon_after_it(name: str) -> None:
    assert wide_starts_at(name, BOUND_S) <= 1.0 + BOUND_S + SMALL_RUN_S


@pytest.mark.parametrize("name", ["backfill", "srtf", "srsf"])  # elsewhere newcomers make room for it by themselves
def test_without_a_bound_it_waits_for_the_end_of_the_stream(name: str) -> None:
    assert wide_starts_at(name, None) >= 200 * 5.0


def test_an_overdue_job_keeps_its_place_to_its_end() -> None:
    table = run(STREAM, cluster((1, 4, "any")), POLICIES["srtf"](bypass_limit_s=BOUND_S))
    assert by_id(table, "preemptions")["wide"] == 0
    assert by_id(table, "finish_s")["wide"] <= 1.0 + BOUND_S + SMALL_RUN_S + 30.0


def with_quotas(from_scratch: bool, **quotas: int) -> Stage:
    order = QuotaClasses(Fifo(strict=False))
    stage = Stage(Policy(order, bypass_limit_s=BOUND_S, from_scratch=from_scratch), 2)
    stage.scheduler.ledger.tenants.quotas = quotas
    return stage


@pytest.mark.parametrize("from_scratch", [False, True])
def test_who_uses_what_quotas_leave_takes_nothing_from_who_is_charged_however_long_it_waits(from_scratch: bool) -> None:
    stage = with_quotas(from_scratch, ada=2)
    stage.submit(0.0, "a", "b", tenant="ada")
    stage.submit(1.0, "x", tenant="bo")
    stage.tell(5.0 * BOUND_S)
    assert stage.running == {"a", "b"}
    stage.submit(5.0 * BOUND_S + 1.0, "c", tenant="ada")
    stage.tell(5.0 * BOUND_S + 2.0, Finished("a", 1))
    assert stage.running == {"b", "c"}


@pytest.mark.parametrize("from_scratch", [False, True])
def test_who_is_charged_goes_before_others_that_are_once_it_is_overdue(from_scratch: bool) -> None:
    stage = with_quotas(from_scratch, ada=2, bo=2)
    stage.submit(0.0, "a", "b", tenant="ada")
    stage.submit(1.0, "x", gang_size=2, tenant="bo")
    stage.tell(2.0 * BOUND_S)
    assert stage.running == {"x"}


@pytest.mark.parametrize("from_scratch", [False, True])
def test_without_quotas_everybody_is_owed_the_bound_but_who_is_opportunistic(from_scratch: bool) -> None:
    stage = with_quotas(from_scratch)
    stage.submit(0.0, "a", "b")
    stage.submit(1.0, "x", job_class=JobClass.OPPORTUNISTIC)
    stage.submit(2.0, "y")
    stage.tell(2.0 * BOUND_S)
    assert stage.running == {"a", "y"}


@pytest.mark.parametrize("from_scratch", [False, True])
def test_an_overdue_job_that_is_charged_no_more_goes_first_no_more(from_scratch: bool) -> None:
    stage = with_quotas(from_scratch, ada=2, bo=2)
    stage.submit(0.0, "a", "b", tenant="ada")
    stage.submit(1.0, "x", gang_size=2, tenant="bo")
    stage.tell(1.5 * BOUND_S)
    stage.scheduler.ledger.tenants.quotas = {"ada": 2}
    stage.tell(1.5 * BOUND_S + 1.0, Woken())
    assert stage.running == {"a", "b"}


@pytest.mark.parametrize("from_scratch", [False, True])
def test_an_overdue_job_keeps_its_place_when_its_attempt_is_lost_and_it_is_held_for_a_while(from_scratch: bool) -> None:
    stage = with_quotas(from_scratch)
    stage.submit(0.0, "a", "b")
    stage.submit(1.0, "x", gang_size=2)
    stage.tell(1.5 * BOUND_S)
    assert stage.running == {"x"}
    stage.tell(1.5 * BOUND_S + 1.0, Lost("x", 1))
    assert stage.running == {"x"}
    stage.tell(1.5 * BOUND_S + 2.0, Lost("x", 2), Held("x"))
    assert stage.running == {"a", "b"}
    stage.tell(1.5 * BOUND_S + 3.0, Released("x"))
    assert stage.running == {"x"}
