"""Scheduling policies: their stages, the policies composed of them, and what a user's own policy needs."""

from weft.policies.order.keyed import KeyedOrder
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

__all__ = ["POLICIES", "KeyedOrder", "Policy"]
