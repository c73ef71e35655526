"""The policies by name. Each is a function whose keyword arguments are its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from weft.policies.admit.furthest_behind import FurthestBehind
from weft.policies.history import History
from weft.policies.match.allox import AlloxMatching
from weft.policies.order.arrival import Arrival
from weft.policies.order.attained import Attained
from weft.policies.order.capacity import CapacityQueues
from weft.policies.order.fair import FairTenants
from weft.policies.order.gittins import GittinsQueues
from weft.policies.order.queues import ServiceQueues
from weft.policies.order.remaining import Remaining
from weft.policies.order.shortest_each import ShortestOnEachType
from weft.policies.place.consolidated import Consolidated
from weft.policies.place.skew_aware import SkewAware
from weft.policies.policy import Policy


def fifo() -> Policy:
    """Strict arrival order: the head of the line blocks. No preemption."""
    return Policy(Arrival(strict=True))


def backfill(bypass_limit_s: float | None = None) -> Policy:
    """Arrival order; what does not fit is skipped. No preemption."""
    return Policy(Arrival(strict=False), bypass_limit_s=bypass_limit_s)


def srtf(bypass_limit_s: float | None = None) -> Policy:
    """Shortest remaining time first, for declared work."""
    return Policy(Remaining(by_service=False), bypass_limit_s=bypass_limit_s, needs_declared_work=True)


def srsf(bypass_limit_s: float | None = None) -> Policy:
    """Shortest remaining service (time × gang size) first, for declared work."""
    return Policy(Remaining(by_service=True), bypass_limit_s=bypass_limit_s, needs_declared_work=True)


def las(quantum_s: float = 600.0, pack_limit: float = 0.2, bypass_limit_s: float | None = None) -> Policy:
    """2D-LAS, continuous: least attained device-seconds first."""
    return Policy(Attained(quantum_s), place=SkewAware(pack_limit), bypass_limit_s=bypass_limit_s)


def tiresias_l(
    thresholds: tuple[float, ...] = (3250.0,),
    promote_knob: float | None = None,
    pack_limit: float = 0.2,
    bypass_limit_s: float | None = None,
) -> Policy:
    """Tiresias without prior knowledge: discretised 2D-LAS, skew-aware placement."""
    order = ServiceQueues(thresholds, promote_knob)
    return Policy(order, place=SkewAware(pack_limit), bypass_limit_s=bypass_limit_s)


def tiresias_g(
    thresholds: tuple[float, ...] = (3250.0,),
    history: tuple[float, ...] | None = None,
    promote_knob: float | None = None,
    pack_limit: float = 0.2,
    bypass_limit_s: float | None = None,
) -> Policy:
    """Tiresias with a distribution: discretised 2D-Gittins over a history, given or learnt from finished jobs."""
    order = GittinsQueues(thresholds, promote_knob, History(history or ()), learns=not history)
    return Policy(order, place=SkewAware(pack_limit), bypass_limit_s=bypass_limit_s)


def yarn_cs(max_share: float = 1.0, bypass_limit_s: float | None = None) -> Policy:
    """YARN's capacity scheduler: a FIFO queue per tenant, consolidated gangs, no preemption."""
    return Policy(CapacityQueues(max_share), place=Consolidated(), bypass_limit_s=bypass_limit_s)


def fair(quantum_s: float = 600.0, bypass_limit_s: float | None = None) -> Policy:
    """Max-min over tenants by attained service."""
    return Policy(FairTenants(quantum_s), bypass_limit_s=bypass_limit_s)


def allox(alpha: float = 0.3, n_max: int = 50, assume_s: float = 3600.0, bypass_limit_s: float | None = None) -> Policy:
    """AlloX: jobs matched to device types and queue positions at least total completion time. No preemption."""
    return Policy(
        ShortestOnEachType(assume_s),
        admit=FurthestBehind(alpha),
        match=AlloxMatching(n_max, assume_s),
        bypass_limit_s=bypass_limit_s,
        needs_declared_work=True,
    )


PARAMETERS: Mapping[str, str] = MappingProxyType(
    {
        "thresholds": "Device-seconds of attained service at which a job moves to the next queue.",
        "promote_knob": "A job that has waited this many times as long as it ran returns to the first queue. Short "
        "thresholds and a small knob together make jobs preempt each other all the time.",
        "history": "Device-seconds that earlier jobs needed in all: numbers with slashes, or a file with one a line. "
        "If none, they are learnt from the jobs that finish.",
        "pack_limit": "Gangs whose skew is above it are kept on as few nodes as possible. Skew is by how much longer a "
        "step takes when the gang is spread: 0.2 is a fifth.",
        "quantum_s": "Seconds after which running jobs are compared with waiting ones again.",
        "bypass_limit_s": "Seconds of waiting after which a job goes before all others, and nobody passes it by.",
        "max_share": "The part of all devices that one tenant may hold at once, above 0 and up to 1.",
        "alpha": "The part of the tenants, those with the least progress, that compete for free devices, above 0 and "
        "up to 1; it is doubled while devices stay free.",
        "n_max": "How many waiting jobs, the shortest ones, are matched to devices at once.",
        "assume_s": "Seconds that a job is taken to need if it declares no work.",
    }
)
"""What each parameter means, with its unit, for people."""

POLICIES: Mapping[str, Callable[..., Policy]] = MappingProxyType(
    {
        "fifo": fifo,
        "backfill": backfill,
        "yarn-cs": yarn_cs,
        "srtf": srtf,
        "srsf": srsf,
        "las": las,
        "tiresias-l": tiresias_l,
        "tiresias-g": tiresias_g,
        "fair": fair,
        "allox": allox,
    }
)
