"""What the two planners must agree on."""

from __future__ import annotations

import math

from weft.core.plan import Plan
from weft.policies.policy import Policy


def agreed(fast: Plan, plain: Plan, now: float) -> Plan:
    """The incremental planner's plan, which is that of the one from scratch."""
    where = f"at {now} s: incremental {fast}, from scratch {plain}"
    assert list(fast.grants) == list(plain.grants), where
    assert {one.job_id for one in fast.evictions} == {one.job_id for one in plain.evictions}, where
    assert math.isclose(fast.wake_at, plain.wake_at, rel_tol=0.0, abs_tol=1e-6), where
    return fast


def from_scratch(stages: Policy) -> Policy:
    """The same stages under the planner that keeps nothing from one decision to the next."""
    return Policy(
        stages.order,
        match=stages.match,
        place=stages.place,
        share=stages.share,
        migration=stages.migration,
        from_scratch=True,
    )
