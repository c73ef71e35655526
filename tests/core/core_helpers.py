"""Small words for events and clusters, and a picture of everything a ledger knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.commands import Allocation, Command, Preempt, Start, Stop, WakeAt
from weft.core.events import Submitted
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.values import JobSpec, Node
from weft.core.view import View

Make = Callable[..., Scheduler]

BECAUSE = Reason(Code.NEXT_DECISION)


def submitted(job_id: str, gang_size: int = 1, **described: Any) -> Submitted:
    return Submitted(JobSpec(job_id, gang_size, **described))


def nodes(*sizes: int, kind: str = "any") -> tuple[Node, ...]:
    return tuple(Node(f"n{i}", size, kind) for i, size in enumerate(sizes))


def started(commands: list[Command]) -> dict[str, Allocation]:
    return {command.job_id: command.allocation for command in commands if isinstance(command, Start)}


def preempted(commands: list[Command]) -> list[str]:
    return [command.job_id for command in commands if isinstance(command, Preempt)]


def stopped(commands: list[Command]) -> list[tuple[str, int]]:
    return [(command.job_id, command.generation) for command in commands if isinstance(command, Stop)]


def wakes(commands: list[Command]) -> list[float]:
    return [command.time_s for command in commands if isinstance(command, WakeAt)]


def running(scheduler: Scheduler) -> set[str]:
    return {job.id for job in scheduler.ledger.jobs.values() if job.is_running}


def picture(ledger: Ledger) -> dict[str, Any]:
    """Everything the ledger knows, as values that later events cannot change."""
    seen = {name: _value_of(value) for name, value in vars(ledger).items() if name != "devices"}
    seen |= {"device_count": ledger.device_count, "_device_types": ledger.devices.device_types}
    seen["tenants"] = {
        name: (ledger.tenants.attained(name, 1e6), ledger.tenants.devices_held(name)) for name in ledger.tenants
    }
    seen["seats"] = {device: [guest.id for guest in some] for device, some in ledger.seats.guests.items()}
    return seen


def _value_of(value: Any) -> Any:
    match value:
        case Job():
            return {name: getattr(value, name) for name in Job.__slots__}
        case dict():
            return {key: _value_of(one) for key, one in value.items()}
        case list():
            return [_value_of(one) for one in value]
        case _:
            return value


class Script:
    """A policy that says what it is told to, once, and then nothing."""

    def __init__(self, *plans: Plan) -> None:
        self.plans = list(plans)
        self.asked = 0

    def decide(self, view: View) -> Plan:
        self.asked += 1
        return self.plans.pop(0) if self.plans else Plan()

    def explain(self, view: View, job: Job) -> Reason:
        return BECAUSE


def grant(job_id: str, *placement: tuple[int, int]) -> Grant:
    where: Placement = placement
    return Grant(job_id, where, BECAUSE)


def eviction(job_id: str) -> Eviction:
    return Eviction(job_id, BECAUSE)
