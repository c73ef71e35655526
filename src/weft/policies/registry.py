"""The policies by name. Each is a function whose keyword arguments are its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from weft.policies.match.allox import AlloxMatching, LeastProgress, ShortestOnEachType
from weft.policies.migrate.cost import MoveCost
from weft.policies.migrate.migration import Migration
from weft.policies.migrate.type_swap import TypeSwap
from weft.policies.order.fair import CapacityQueues, FairTenants
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import Fifo, Las, Srtf
from weft.policies.order.quota import QuotaClasses
from weft.policies.order.tiresias import GittinsQueues, History, ServiceQueues
from weft.policies.order.weft_rank import GittinsRank
from weft.policies.placement import Consolidated, SkewAware
from weft.policies.policy import Policy
from weft.policies.share.first_seats import FirstSeats
from weft.policies.share.lanes import Lanes
from weft.policies.share.mixed import MixedSharing
from weft.policies.share.opportunistic import IdleFill
from weft.policies.share.packing import Packing

DOUBLING = tuple(10.0 * 2**i for i in range(22))
"""Device-seconds from ten seconds to eight months."""


def fifo() -> Policy:
    """Strict arrival order: the head of the line blocks. No preemption."""
    return Policy(Fifo(strict=True))


def backfill(bypass_limit_s: float | None = None) -> Policy:
    """Arrival order; what does not fit is skipped. No preemption."""
    return Policy(Fifo(strict=False), bypass_limit_s=bypass_limit_s)


def srtf(bypass_limit_s: float | None = None) -> Policy:
    """Shortest remaining time first, for declared work."""
    return Policy(Srtf(by_service=False), bypass_limit_s=bypass_limit_s, needs_declared_work=True)


def srsf(bypass_limit_s: float | None = None) -> Policy:
    """Shortest remaining service (time × gang size) first, for declared work."""
    return Policy(Srtf(by_service=True), bypass_limit_s=bypass_limit_s, needs_declared_work=True)


def las(quantum_s: float = 600.0, pack_limit: float = 0.2, bypass_limit_s: float | None = None) -> Policy:
    """2D-LAS, continuous: least attained device-seconds first."""
    return Policy(Las(quantum_s), place=SkewAware(pack_limit), bypass_limit_s=bypass_limit_s)


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
        admit=LeastProgress(alpha),
        match=AlloxMatching(n_max, assume_s),
        bypass_limit_s=bypass_limit_s,
        needs_declared_work=True,
    )


def gandiva(
    quantum_s: float = 60.0,
    quantum_steps: float = 100.0,
    margin: float = 0.05,
    back_off_s: float = 600.0,
    migration_s: float = 30.0,
    resume_s: float = 1.0,
) -> Policy:
    """Gandiva: a server's jobs in turn for a quantum; those that leave devices idle are packed, then kept or undone."""
    cost = MoveCost(migration_s, resume_s)
    order = GandivaOrder(quantum_s, quantum_steps, cost)
    share = Packing(margin, back_off_s)
    return Policy(order, place=Consolidated(), share=share, migration=Migration(migration_s, cost=cost))


def antman(busy: float = 0.8, guests: int = 1, convert_after_s: float = 600.0) -> Policy:
    """AntMan: guaranteed jobs within their tenants' quotas, first come, first served; others use what is left idle."""
    order = QuotaClasses(Fifo(strict=False), convert_after_s)
    share = MixedSharing(order, None, IdleFill(busy, guests), has_lanes=False)
    return Policy(order, place=Consolidated(), share=share)


def salus(in_lane: str = "fair", lanes: int = 1, members: int = 62) -> Policy:
    """Salus: jobs of known memory share devices in lanes, in turns step by step within one, side by side across."""
    return Policy(Fifo(strict=False), share=Lanes(in_lane, lanes, members), needs_declared_work=in_lane == "srtf")


def weft(
    thresholds: tuple[float, ...] = DOUBLING,
    pack_limit: float = 0.05,
    busy: float = 0.8,
    margin: float = 0.05,
    migration_s: float = 30.0,
    bypass_limit_s: float | None = 2_419_200.0,
    convert_after_s: float = 0.0,
) -> Policy:
    """The default: quotas, then 2D-Gittins over what has finished, jobs back where they were, idle time filled."""
    order = QuotaClasses(GittinsRank(thresholds), convert_after_s)
    share = MixedSharing(order, Packing(margin), IdleFill(busy), first=FirstSeats(thresholds[0]))
    return Policy(
        order,
        place=SkewAware(pack_limit),
        share=share,
        migration=Migration(migration_s, classes=order, exchange=TypeSwap(order)),
        bypass_limit_s=bypass_limit_s,
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
        "bypass_limit_s": "Seconds of waiting after which a job goes before all others, and no job passes it by while "
        "the devices that are there could hold it.",
        "max_share": "The part of all devices that one tenant may hold at once, above 0 and up to 1.",
        "alpha": "The part of the tenants, those with the least progress, that compete for free devices, above 0 and "
        "up to 1; it is doubled while devices stay free.",
        "n_max": "How many waiting jobs, the shortest ones, are matched to devices at once.",
        "quantum_steps": "Steps after which a job has had its quantum, if that comes before quantum_s.",
        "margin": "By how much two jobs together must do more than in turns for a packing to be kept: 0.05 is 5 %.",
        "back_off_s": "Seconds until a pair of jobs that did not pay is packed again; twice as long each time.",
        "migration_s": "Seconds that a move is taken to cost a job, until some were measured: only what gains more is "
        "moved.",
        "resume_s": "Seconds that a resume is taken to cost a job on the devices it was paused on, until some were "
        "measured: a quantum is at least fifty times as long, so that 2 % of it at most are lost.",
        "busy": "A device that its holder keeps busy for more of the time than this has nothing to give away.",
        "convert_after_s": "Seconds that a job without a class of its own waits for its tenant's quota; then it is "
        "like an opportunistic one.",
        "guests": "How many jobs at most may use what one holder leaves idle; of a larger gang, one on each device.",
        "in_lane": "How the members of a lane take turns, a step each: fair (least time used), pack (steps "
        "in the order they come), fifo (the first job that came) or srtf (the least remaining time). In all of them a "
        "job opens a lane of its own while memory allows. To the simulator, which knows no steps, pack is fair.",
        "lanes": "How many lanes at most a device has; those in one take turns.",
        "members": "How many jobs at most share one device.",
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
        "gandiva": gandiva,
        "antman": antman,
        "salus": salus,
        "weft": weft,
    }
)
