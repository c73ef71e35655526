"""2D-Gittins over queues: as 2D-LAS until enough has finished; then the queue goes first whose jobs are to end soon."""

from __future__ import annotations

import pytest
from sharing_words import Stage

from weft.core.events import Cancelled, Finished, Held, Released, Submitted
from weft.core.scheduler import Scheduler
from weft.core.snapshot import restored, snapshot
from weft.core.values import JobSpec
from weft.policies.order.tiresias import History
from weft.policies.order.weft_rank import ENOUGH, GittinsRank
from weft.policies.policy import Policy

THRESHOLDS = (10.0, 100.0, 1000.0)
AS_THEY_COME = (0, 1, 2, 3)

HUMP = [150.0] * 60 + [50_000.0] * 40
"""Whoever has had 100 device-seconds is likely to end at 150; who has had 10 has most of that before it."""

LONG_TAIL = [2.0**i for i in range(1, 15)] * 10
"""Who has run long is the likelier to run on."""


def order(*services: float) -> GittinsRank:
    return GittinsRank(THRESHOLDS, history=History(services))


def test_until_enough_has_finished_less_service_goes_first() -> None:
    assert order()._ranks == AS_THEY_COME
    assert order(*HUMP[: ENOUGH - 1])._ranks == AS_THEY_COME


def test_with_a_long_tail_less_service_goes_first_too() -> None:
    assert order(*LONG_TAIL)._ranks == AS_THEY_COME


def test_a_hump_lets_the_queue_before_it_go_first_of_those_that_are_not_new() -> None:
    assert order(*HUMP)._ranks == (0, 2, 1, 3)


def test_what_is_recalled_counts_at_once() -> None:
    learning = order()
    learning.recall(HUMP)
    assert learning._ranks == (0, 2, 1, 3)


def test_the_policy_decides_by_the_new_ranks_when_enough_has_finished() -> None:
    """One device: a has had 120 device-seconds when b comes. By LAS b keeps it for 100; after the hump, for 10."""

    def running_after_20_s(*services: float) -> set[str]:
        policy = Policy(GittinsRank(THRESHOLDS))
        policy.recall(services)
        stage = Stage(policy, 1)
        stage.submit(0.0, "a")
        stage.submit(120.0, "b")
        assert stage.running == {"b"}  # new, which comes first in any case
        stage.tell(140.0)
        return stage.running

    assert running_after_20_s() == {"b"}
    assert running_after_20_s(*HUMP) == {"a"}


def test_finished_jobs_are_learnt_from() -> None:
    learning = GittinsRank(THRESHOLDS)
    stage = Stage(Policy(learning), 4)
    for i in range(ENOUGH + 20):
        stage.submit(150.0 * i, f"j{i}")
        stage.tell(150.0 * (i + 1), Finished(f"j{i}", stage.job(f"j{i}").generation))
    assert len(learning.history) >= ENOUGH
    assert learning._ranks[2] < learning._ranks[1]  # all of them ended at 150


def test_those_that_never_ran_go_by_what_their_tenant_had_had_when_they_came() -> None:
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.submit(0.0, "a", tenant="greedy")
    stage.submit(2.0, "b", tenant="greedy")
    stage.submit(4.0, "c", tenant="modest")
    stage.tell(6.0, Finished("a", 1))
    assert stage.running == {"c"}


def order_of(stage: Stage, running: str, jobs: int) -> list[str]:
    """Who comes next on its one device, when each ends after a second."""
    order = []
    for _ in range(jobs):
        stage.tell(stage.now + 1.0, Finished(running, stage.job(running).generation))
        (running,) = stage.running
        order.append(running)
    return order


def test_many_newcomers_of_one_tenant_do_not_go_before_the_next_of_another() -> None:
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.submit(0.0, "running", tenant="third")
    stage.submit(1.0, *(f"m{i}" for i in range(50)), tenant="many")
    stage.submit(2.0, "one", tenant="few")
    stage.submit(3.0, "two", tenant="few")
    assert order_of(stage, "running", 4) == ["m0", "one", "m1", "two"]


def test_the_promise_to_many_newcomers_outlives_the_scheduler_that_made_it() -> None:
    """A daemon that is started again tells nobody who came when."""
    jobs = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    jobs.submit(0.0, "running", tenant="third")
    jobs.submit(1.0, "m0", "m1", "m2", tenant="many")
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.scheduler = Scheduler(restored(snapshot(jobs.scheduler.ledger)), Policy(GittinsRank(THRESHOLDS)))
    stage.submit(2.0, "one", tenant="few")
    assert order_of(stage, "running", 3) == ["m0", "one", "m1"]


def test_who_is_held_by_its_owner_counts_for_nobody() -> None:
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.submit(0.0, "running", tenant="third")
    held = [f"m{i}" for i in range(5)]
    stage.tell(1.0, *(Submitted(JobSpec(each, 1, tenant="many")) for each in held), *map(Held, held))
    stage.submit(2.0, "first", tenant="many")
    stage.submit(3.0, "other", tenant="few")
    stage.tell(4.0, *map(Released, held))
    assert order_of(stage, "running", 3) == ["first", "other", "m0"]


def test_who_leaves_without_having_run_counts_for_nobody() -> None:
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.submit(0.0, "running", tenant="third")
    stage.submit(1.0, "a", "b", "c", tenant="many")
    stage.tell(2.0, *(Cancelled(each) for each in "abc"))
    stage.submit(3.0, "d", tenant="many")
    stage.submit(4.0, "other", tenant="few")
    stage.tell(5.0, Finished("running", 1))
    assert stage.running == {"d"}


def test_a_job_that_is_over_leaves_no_tag() -> None:
    learning = GittinsRank(THRESHOLDS)
    stage = Stage(Policy(learning), 1)
    stage.submit(0.0, "a", "b")
    stage.tell(5.0, Finished("a", 1))
    stage.tell(9.0, Finished("b", 1))
    assert len(learning._newcomers) == 0


@pytest.mark.parametrize("attained", [0.0, 10.0, 99.0, 100.0, 1000.0])
def test_the_key_follows_the_rank_of_the_queue(attained: float) -> None:
    ranked = order(*HUMP)
    stage = Stage(Policy(ranked), 1)
    stage.submit(0.0, "a")
    queue = ranked.queue_of(stage.job("a"), attained)
    assert ranked.key(stage.job("a"), attained)[0] == (0, 2, 1, 3)[queue]
