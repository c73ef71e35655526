"""AlloX's matching among jobs that run: who gains little by a fast device leaves it to who gains much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sharing_words import GB, Stage

from weft.core.events import Submitted
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.registry import weft

LITTLE, MUCH = {"V100": 1.05, "K80": 1.0}, {"V100": 10.0, "K80": 1.0}
CHANGED = [
    "preempt little: migrated: to K80, as much gains more by V100",
    "preempt much: migrated: to V100, where it is faster",
    "start little: migrated: to K80, as much gains more by V100",
    "start much: migrated: to V100, where it is faster",
]


def on_nodes(*nodes: tuple[int, str], cost_s: float = 30.0) -> Stage:
    stage = Stage(weft())
    cluster = Cluster(tuple(Node(f"n{i}", size, kind, 16 * GB) for i, (size, kind) in enumerate(nodes)))
    stage.scheduler = Scheduler(cluster, weft(migration_s=cost_s))
    return stage


def one_after_the_other(**of_the_first: Any) -> Stage:
    stage = on_nodes((1, "V100"), (1, "K80"))
    stage.scheduler.ledger.tenants.quotas = {"gold": 1}
    stage.submit(0.0, "little", step_rate_hz=LITTLE, **of_the_first)
    stage.submit(0.0, "much", step_rate_hz=MUCH)
    assert [stage.job(name).allocation[0][0] for name in ("little", "much")] == [0, 1]
    return stage


def changes(stage: Stage, until_s: float) -> list[str]:
    stage.tell(until_s)
    return sorted(line for line in stage.lines if "migrated" in line)


def test_two_change_their_types_when_both_together_end_sooner_for_it() -> None:
    assert changes(one_after_the_other(), 600.0) == CHANGED


def test_they_do_not_before_they_save_more_than_two_moves_cost() -> None:
    """The one saves nine tenths of its time, the other loses a twentieth: after 71 s it is more than 60."""
    stage = one_after_the_other()
    assert changes(stage, 70.0) == []
    assert changes(stage, 140.0) == CHANGED


@pytest.mark.parametrize("kept", [{"may_migrate": False}, {"device_types": frozenset({"V100"})}])
def test_who_may_not_go_stays(kept: dict[str, Any]) -> None:
    assert changes(one_after_the_other(**kept), 10_000.0) == []


def test_who_is_guaranteed_does_not_lose_its_fast_device_to_others() -> None:
    assert changes(one_after_the_other(tenant="gold"), 10_000.0) == []


def test_places_of_different_form_are_not_exchanged() -> None:
    """A gang of two on one node does not go to two nodes."""
    stage = on_nodes((2, "V100"), (1, "K80"), (1, "K80"))
    stage.submit(0.0, "little", gang_size=2, step_rate_hz=LITTLE)
    stage.submit(0.0, "much", gang_size=2, step_rate_hz=MUCH)
    assert changes(stage, 10_000.0) == []


@given(st.lists(st.tuples(*[st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0, 9.0])] * 2), min_size=2, max_size=8))
@settings(max_examples=60, deadline=None)
def test_of_two_types_it_is_the_matching_with_the_least_sum_of_times(rates: list[tuple[float, float]]) -> None:
    rates = rates[: len(rates) // 2 * 2]
    stage = on_nodes(*((len(rates) // 2, kind) for kind in ("V100", "K80")), cost_s=0.0)
    specs = [JobSpec(f"j{i}", step_rate_hz={"V100": v100, "K80": k80}) for i, (v100, k80) in enumerate(rates)]
    stage.tell(0.0, *map(Submitted, specs))
    before = [stage.job(spec.id).allocation[0][0] for spec in specs]
    stage.tell(61.0)
    after = [stage.job(spec.id).allocation[0][0] for spec in specs]
    times = np.array([[pair[was] / pair[to] for to in (0, 1)] for pair, was in zip(rates, before, strict=True)])
    best = np.repeat(times, len(rates) // 2, axis=1)
    least = best[linear_sum_assignment(best)].sum()
    assert sum(times[i, to] for i, to in enumerate(after)) == pytest.approx(least)
