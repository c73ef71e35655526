"""2D-Gittins over queues: as 2D-LAS until enough has finished; then the queue goes first whose jobs are to end soon."""

from __future__ import annotations

import pytest
from sharing_words import Stage

from weft.core.events import Finished
from weft.policies.history import History
from weft.policies.order.gittins_rank import ENOUGH, GittinsRank
from weft.policies.policy import Policy

THRESHOLDS = (100.0, 1000.0)

HUMP = [150.0] * 60 + [50_000.0] * 40
"""Whoever has had 100 device-seconds is likely to end at 150; a newcomer has all of that before it."""

LONG_TAIL = [2.0**i for i in range(1, 15)] * 10
"""Who has run long is the likelier to run on."""


def order(*services: float) -> GittinsRank:
    return GittinsRank(THRESHOLDS, history=History(services))


def test_until_enough_has_finished_less_service_goes_first() -> None:
    assert order()._ranks == (0, 1, 2)
    assert order(*HUMP[: ENOUGH - 1])._ranks == (0, 1, 2)


def test_with_a_long_tail_less_service_goes_first_too() -> None:
    assert order(*LONG_TAIL)._ranks == (0, 1, 2)


def test_a_hump_lets_the_queue_before_it_go_first() -> None:
    assert order(*HUMP)._ranks == (1, 0, 2)


def test_what_is_recalled_counts_at_once() -> None:
    learning = order()
    learning.recall(HUMP)
    assert learning._ranks == (1, 0, 2)


def test_the_policy_decides_by_the_new_ranks_when_enough_has_finished() -> None:
    """One device: a has had 120 device-seconds. By LAS a newcomer takes its device; after the hump it does not."""

    def newcomer_takes_it(*services: float) -> bool:
        policy = Policy(GittinsRank(THRESHOLDS))
        policy.recall(services)
        stage = Stage(policy, 1)
        stage.submit(0.0, "a")
        stage.submit(120.0, "new")
        return stage.running == {"new"}

    assert newcomer_takes_it()
    assert not newcomer_takes_it(*HUMP)


def test_finished_jobs_are_learnt_from() -> None:
    learning = GittinsRank(THRESHOLDS)
    stage = Stage(Policy(learning), 4)
    for i in range(ENOUGH + 20):
        stage.submit(150.0 * i, f"j{i}")
        stage.tell(150.0 * (i + 1), Finished(f"j{i}", stage.job(f"j{i}").generation))
    assert len(learning.history) >= ENOUGH
    assert learning._ranks[1] == 0  # all of them ended at 150


def test_those_that_never_ran_go_by_what_their_tenant_had_had_when_they_came() -> None:
    stage = Stage(Policy(GittinsRank(THRESHOLDS)), 1)
    stage.submit(0.0, "a", tenant="greedy")
    stage.submit(10.0, "b", tenant="greedy")
    stage.submit(20.0, "c", tenant="modest")
    stage.tell(30.0, Finished("a", 1))
    assert stage.running == {"c"}


def test_a_job_that_is_over_leaves_no_tag() -> None:
    learning = GittinsRank(THRESHOLDS)
    stage = Stage(Policy(learning), 1)
    stage.submit(0.0, "a", "b")
    stage.tell(5.0, Finished("a", 1))
    stage.tell(9.0, Finished("b", 1))
    assert learning._tags == {}


@pytest.mark.parametrize("attained", [0.0, 99.0, 100.0, 1000.0])
def test_the_key_follows_the_rank_of_the_queue(attained: float) -> None:
    ranked = order(*HUMP)
    stage = Stage(Policy(ranked), 1)
    stage.submit(0.0, "a")
    queue = ranked.queue_of(stage.job("a"), attained)
    assert ranked.key(stage.job("a"), attained)[0] == (1, 0, 2)[queue]
