"""Who runs where: stages, the policies composed of them, and what one's own policy needs."""

from weft.policies.order.keyed import KeyedOrder
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

__all__ = ["POLICIES", "KeyedOrder", "Policy"]
