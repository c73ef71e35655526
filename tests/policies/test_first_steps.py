"""weft as a person at a small machine meets it: two devices, six jobs of several minutes each, and one more."""

from __future__ import annotations

import pytest
from sharing_words import GB, Stage

from weft.core.values import JobClass
from weft.policies.registry import POLICIES

SIX = [f"old{i}" for i in range(6)]
ALIKE = [900.0] * 140
"""All before needed a quarter of an hour: who has had the most is the likeliest to end soon."""


def busy_machine(*, quota: int | None = None, services: list[float] | None = None) -> Stage:
    """Half an hour in; all six have had some of it, in turns."""
    policy = POLICIES["weft"]()
    policy.recall(services or ())
    stage = Stage(policy, 2)
    stage.scheduler.ledger.tenants.quotas = {"default": quota} if quota else {}
    stage.submit(0.0, *SIX)
    stage.tell(1800.0)
    assert len(stage.running) == 2
    assert min(stage.job(name).attained(1800.0) for name in SIX) >= 10.0
    return stage


@pytest.mark.parametrize("services", [None, ALIKE], ids=["no history", "all alike"])
@pytest.mark.parametrize("quota", [None, 7], ids=["no quotas", "all within quota"])
def test_one_more_job_starts_at_the_decision_on_its_coming(quota: int | None, services: list[float] | None) -> None:
    stage = busy_machine(quota=quota, services=services)
    stage.submit(1801.0, "new")
    assert "new" in stage.running


def test_a_job_beyond_the_quota_waits_while_those_within_it_use_all_devices() -> None:
    """By the rules: who is guaranteed runs as if alone. It sits beside one of them if they leave it room."""
    stage = busy_machine(quota=6)
    stage.submit(1801.0, "new")
    assert "new" not in stage.running


def test_a_job_that_only_wants_what_is_left_waits_likewise() -> None:
    stage = busy_machine()
    stage.submit(1801.0, "new", job_class=JobClass.OPPORTUNISTIC, memory_bytes=GB)
    assert "new" not in stage.running
