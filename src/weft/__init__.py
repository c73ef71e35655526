"""Share accelerators among deep-learning jobs of unknown length."""

from __future__ import annotations  # a job's interpreter may be older than the one that weft runs on

import sys

TYPE_CHECKING = False  # typing takes as long to load as all else here
if TYPE_CHECKING:
    from typing import Any

    from weft.client import Client
    from weft.core.values import JobSpec
    from weft.node.task.handle import attach
    from weft.policies.order.keyed import KeyedOrder
    from weft.policies.policy import Policy
    from weft.runtime.sdk import checkpoint, init, report, step, steps
    from weft.sim.api import simulate
    from weft.sim.trace import Trace, TraceJob

__all__ = [
    "Client",
    "JobSpec",
    "KeyedOrder",
    "Policy",
    "Trace",
    "TraceJob",
    "attach",
    "checkpoint",
    "init",
    "report",
    "simulate",
    "step",
    "steps",
]
__version__ = "0.1.0"

HOMES = {
    "Client": "weft.client",
    "JobSpec": "weft.core.values",
    "KeyedOrder": "weft.policies.order.keyed",
    "Policy": "weft.policies.policy",
    "Trace": "weft.sim.trace",
    "TraceJob": "weft.sim.trace",
    "attach": "weft.node.task.handle",
    "simulate": "weft.sim.api",
}
"""Loaded when first asked for: numpy alone takes longer to load than `weft --version` may, and may not be there."""

IN_THE_JOB = {"checkpoint", "init", "report", "step", "steps"}
"""What a script says to the runtime inside its own process. Where one was injected, that one is meant."""


def __getattr__(name: str) -> Any:
    if name in IN_THE_JOB:
        home = "weft_runtime.sdk" if "weft_runtime" in sys.modules else "weft.runtime.sdk"
    elif name in HOMES:
        home = HOMES[name]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # a shepherd loads this module, and never comes here

    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if home.startswith("weft.sim") and error.name and not error.name.startswith("weft"):
            hint = "%s is not installed, and weft.%s needs it: pip install 'weft[sim]'" % (error.name, name)  # noqa: UP031
            raise ImportError(hint, name=error.name) from error
        raise


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
