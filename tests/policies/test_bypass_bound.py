"""A bound on bypass: nobody waits for ever behind a stream of luckier jobs."""

from __future__ import annotations

import inspect

import pytest
from policy_helpers import by_id, cluster, job, run

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
