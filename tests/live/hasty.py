"""weft's own policy, in a hurry: it looks for guests all the time, and jobs are old after a few seconds."""

from __future__ import annotations

from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.mixed import MixedSharing
from weft.policies.share.packing import Packing
from weft.policies.share.seat_review import SearchTimer


def weft() -> Policy:
    policy = POLICIES["weft"](thresholds=(2.0, 8.0, 32.0), migration_s=1.0)
    assert isinstance(policy.share, MixedSharing)
    policy.share.looks = SearchTimer(every_s=1.0)
    policy.share.packing = Packing(back_off_s=5.0)
    return policy
