"""Share accelerators among deep-learning jobs of unknown length."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.core.values import JobSpec
    from weft.policies.policy import Policy
    from weft.policies.stages import KeyedOrder
    from weft.sim.api import simulate
    from weft.sim.trace import Trace, TraceJob

__all__ = ["JobSpec", "KeyedOrder", "Policy", "Trace", "TraceJob", "simulate"]
__version__ = "0.1.0"

HOMES = {
    "JobSpec": "weft.core.values",
    "KeyedOrder": "weft.policies.stages",
    "Policy": "weft.policies.policy",
    "Trace": "weft.sim.trace",
    "TraceJob": "weft.sim.trace",
    "simulate": "weft.sim.api",
}
"""Loaded when first asked for: numpy alone takes longer to load than `weft --version` may."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
