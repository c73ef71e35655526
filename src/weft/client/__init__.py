"""Use a daemon from Python: `Client` speaks its REST API. Each name is loaded when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.client.queries import MOST_A_PAGE
    from weft.client.rest_client import Client
    from weft.client.transport import ENDED, ArrayError, Job, NotRunningError, Page, UnreachableError

__all__ = ["ENDED", "MOST_A_PAGE", "ArrayError", "Client", "Job", "NotRunningError", "Page", "UnreachableError"]
MODULES = {"Client": "weft.client.rest_client", "MOST_A_PAGE": "weft.client.queries"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(MODULES.get(name, "weft.client.transport")), name)
