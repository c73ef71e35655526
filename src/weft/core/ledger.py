"""Who holds what, and who sits where as a guest. The only writer of jobs, free devices, seats and attained service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from weft.core.commands import Preempt, Seat, Seating, Start, Stop, Unseat
from weft.core.devices import Devices
from weft.core.errors import IllegalEventError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Held,
    Lost,
    Measured,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Submitted,
    Woken,
)
from weft.core.job import NOTHING, Job
from weft.core.plan import Eviction, Grant
from weft.core.reasons import Code, Reason
from weft.core.seats import Seats
from weft.core.sharing import Offer, Withdrawal, devices_of, fits, holders, seated_lane
from weft.core.tenants import Tenants
from weft.core.transitions import TERMINAL, TRANSITIONS, State
from weft.core.values import Cluster, JobSpec, Node, check_spec


class Change(StrEnum):
    """What a policy's indexes must hear of. What its own plan did, it knows."""

    QUEUED = "queued"
    LEFT = "left"
    PROGRESSED = "progressed"
    MEASURED = "measured"


QUEUED, LEFT = Change.QUEUED, Change.LEFT


class Ledger:
    """Live jobs, free devices, service per tenant. Finished jobs are forgotten."""

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[str, Job] = {}
        self.running: dict[str, Job] = {}
        self.devices = devices = Devices()
        self.nodes, self.is_present = devices.nodes, devices.is_present
        self.free_masks, self.free_counts = devices.free_masks, devices.free_counts
        self.blocked_masks = devices.blocked_masks
        self.devices_held = 0
        self.jobs_held = 0
        self.seats = Seats()
        self.tenants = Tenants()
        self.version = 0
        """Rises when nodes come or go: whoever remembers anything must start anew."""
        self.changes: list[tuple[Change, Job]] = []
        self.submitted = 0
        self._stops: list[Stop | Unseat] = []
        for node in cluster.nodes:
            self._join(node)

    @property
    def device_count(self) -> int:
        return self.devices.device_count

    @property
    def jobs_waiting(self) -> int:
        return len(self.jobs) - len(self.running) - self.jobs_held

    # ---- events

    def take_stops(self) -> list[Stop | Unseat]:
        """Who was still computing when it was cancelled, and which guests had to leave: each handed out once."""
        stops, self._stops = self._stops, []
        return stops

    def _submit(self, event: Submitted, now: float) -> None:
        spec = event.job
        if spec.id in self.jobs:
            raise IllegalEventError(f"{spec.id} was submitted before and is still live: {self.jobs[spec.id]!r}")
        check_spec(spec)
        self.submitted += 1
        job = Job(spec, self.submitted, now, self._best_rate_hz(spec))
        self.jobs[spec.id] = job
        self.tenants.join(job.tenant)
        self.changes.append((QUEUED, job))

    def _finish(self, event: Finished | Failed, now: float) -> None:
        job = self._known(event)
        if job is None or job.generation != event.generation:
            return  # a late word of a lease that is over
        if job.generation == 0:
            raise IllegalEventError(f"{type(event).__name__} names a lease that was never given: {job!r}")
        self._leave(job, event, now)

    def _cancel(self, event: Cancelled, now: float) -> None:
        job = self._known(event)
        if job is None:
            return  # too late: it is over
        if job.is_computing:
            self._stops.append(Stop(job.id, job.generation))
        self._leave(job, event, now)

    def _lose(self, event: Lost, now: float) -> None:
        job = self._known(event)
        if job is None or job.generation != event.generation:
            return  # a late word of a lease that is over
        if job.is_running:
            self._free(job, now)
            self._turn(job, event, now)
            self.changes.append((LEFT, job))
            self.changes.append((QUEUED, job))
        elif job.seating:
            self._vacate(job, now)

    def _hold(self, event: Held, now: float) -> None:
        job = self._known(event)
        if job is None:
            return  # too late: it is over
        after = self._after(job, Held)
        job.holds = (*(hold for hold in job.holds if hold.code != event.reason.code), event.reason)
        if after is not job.state:
            if job.seating:
                self._dismiss(job, event.reason, now)
            self._turn(job, event, now)
            self.jobs_held += 1
            self.changes.append((LEFT, job))

    def _release(self, event: Released, now: float) -> None:
        job = self._known(event)
        if job is None or self._after(job, Released) is job.state:
            return  # too late: it is over; or said twice
        job.holds = tuple(hold for hold in job.holds if hold.code != event.code)
        if not job.holds:
            self._turn(job, event, now)
            self.jobs_held -= 1
            self.changes.append((QUEUED, job))

    def _progress(self, event: Progressed, now: float) -> None:
        job = self._known(event)
        if job is not None and job.generation == event.generation:
            job.settled_steps = event.steps_done - job.speed * (now - job.since_s) * job.rate_hz
            if job.state is not State.HELD:
                self.changes.append((Change.PROGRESSED, job))

    def _measure(self, event: Measured, now: float) -> None:
        job = self._known(event)
        if job is not None and job.generation == event.generation:
            before, job.measured = job.memory, event
            if not event.neighbours:
                where = job.seating.allocation if job.seating else job.allocation or job.last_allocation
                job.alone, job.alone_on = event, self.devices.kind_of(where)
            if self.seats.guests and job.memory != before:
                self._make_way_for_what_was_measured(job, now)
            if job.state is not State.HELD:
                self.changes.append((Change.MEASURED, job))

    def _join_node(self, event: NodeJoined, now: float) -> None:
        self._join(event.node)

    def _lose_node(self, event: NodeLost, now: float) -> None:
        at = self._present(event)
        for job in list(self.running.values()):
            if any(node == at for node, _ in job.allocation):
                if len(job.allocation) > 1:
                    self._stops.append(Stop(job.id, job.generation))  # those of its tasks that still run elsewhere
                self._free(job, now)
                self._turn(job, event, now)
        for job in self.seats.on(at, -1):
            if len(job.seating.allocation if job.seating else ()) > 1:
                self._stops.append(Stop(job.id, job.generation))
            self._vacate(job, now)
        self.devices.lose(at)
        self.version += 1

    def _block(self, event: DevicesBlocked, now: float) -> None:
        at = self._present(event)
        blocked = self.devices.blockable(at, event.mask)
        if blocked != self.blocked_masks[at]:
            for job in self.seats.on(at, blocked):
                self._dismiss(job, Reason(Code.SEAT_BLOCKED), now)
            self.devices.block(at, blocked)
            self.version += 1

    def _wake(self, event: Woken, now: float) -> None:
        """Nothing has changed but the time."""

    # ---- the committed plan

    def grant(self, grant: Grant, now: float) -> Start:
        """Give a waiting job its devices; the check has been made."""
        job = self.jobs[grant.job_id]
        last = job.seating.allocation if job.seating else job.last_allocation
        allocation = self.devices.pick(grant.placement, last)
        stays = job.seating is not None and allocation == job.seating.allocation
        turns = job.seating if job.seating and stays else grant  # where it computes already it is in its lane for good
        given = Start(job.id, job.generation + 1, allocation, grant.reason, turns.lane, turns.base, turns.weight)
        return self._give(job, given, now)

    def seat(self, offer: Offer, now: float) -> Seat:
        """Let a waiting job sit; the check has been made."""
        return self._seat(self.jobs[offer.job_id], offer.seating, offer.reason, now)

    def unseat(self, withdrawal: Withdrawal, now: float) -> Unseat:
        job = self.jobs[withdrawal.job_id]
        self._vacate(job, now)
        return Unseat(job.id, job.generation, withdrawal.reason)

    def seat_again(self, seat: Seat, now: float) -> None:
        """What was committed before, from the log."""
        self._seat(self.jobs[seat.job_id], seat.seating, seat.reason, now)

    def give_again(self, start: Start, now: float) -> None:
        """What was committed before, from the log: the very same devices."""
        lacking = self.devices.lacking(start.allocation)
        if lacking is not None:
            raise IllegalEventError(f"{start} is in the log, but {lacking.name} has not these devices free")
        self.devices.take(start.allocation)
        self._give(self.jobs[start.job_id], start, now)

    def _give(self, job: Job, start: Start, now: float) -> Start:
        after = self._after(job, Start)
        if job.seating:
            self._vacate(job, now)
        else:
            self._settle(job, now)
        job.enter(after)
        job.generation += 1
        job.allocation = start.allocation
        job.lane = start.lane
        job.speed = 1.0
        job.rate_hz = job.spec.rate_hz(self.nodes[start.allocation[0][0]].device_type)
        if job.generation == 1:
            job.first_start_s = now
            job.first_wait_s = job.settled_wait_s
        self.devices_held += job.gang_size
        self.running[job.id] = job
        self.tenants.widen(job.tenant, job.gang_size, now)
        if self.seats.guests:
            self._make_way(job, now)
        return start

    def evict(self, eviction: Eviction, now: float) -> Preempt:
        """Take a running job's devices away; the check has been made."""
        job = self.jobs[eviction.job_id]
        self._free(job, now)
        job.enter(self._after(job, Preempt))
        return Preempt(job.id, job.generation, eviction.reason)

    # ---- guests

    def _seat(self, job: Job, seating: Seating, reason: Reason, now: float) -> Seat:
        self._settle(job, now)
        job.generation += 1
        job.seating = seating
        job.speed = seating.speed
        job.rate_hz = job.spec.rate_hz(self.nodes[seating.allocation[0][0]].device_type)
        if job.generation == 1:
            job.first_start_s = now
            job.first_wait_s = job.settled_wait_s
        self.seats.take(job)
        self.changes.append((Change.PROGRESSED, job))
        return Seat(job.id, job.generation, seating, reason)

    def _vacate(self, job: Job, now: float) -> None:
        """It sits no more, and waits as before."""
        assert job.seating is not None
        self._settle(job, now)
        self.seats.leave(job)
        job.last_allocation, job.seating = job.seating.allocation, None
        job.speed = 0.0
        job.rate_hz = job.best_rate_hz
        self.changes.append((Change.PROGRESSED, job))

    def _dismiss(self, job: Job, reason: Reason, now: float) -> None:
        self._vacate(job, now)
        self._stops.append(Unseat(job.id, job.generation, reason))

    def _make_way(self, holder: Job, now: float) -> None:
        """Who holds a device comes first: guests that do not fit beside it leave, the latest first."""
        for device in devices_of(holder.allocation):
            guests = self.seats.guests.get(device, ())
            while guests and not fits(self, device, [(holder, holder.lane), *((g, seated_lane(g)) for g in guests)]):
                self._dismiss(guests[-1], Reason(Code.SEAT_TAKEN, (holder.id,)), now)
                guests = self.seats.guests.get(device, ())

    def _make_way_for_what_was_measured(self, job: Job, now: float) -> None:
        """It may need more memory than was known when guests sat down beside it, or it beside others."""
        held = holders(self)
        for device in devices_of(job.seating.allocation if job.seating else job.allocation):
            guests = self.seats.guests.get(device, ())
            holder = [(held[device], held[device].lane)] if device in held else []
            while guests and not fits(self, device, [*holder, *((g, seated_lane(g)) for g in guests)]):
                self._dismiss(guests[-1], Reason(Code.SEAT_OUTGROWN, (job.id,)), now)
                guests = self.seats.guests.get(device, ())

    def _free(self, job: Job, now: float) -> None:
        self._settle(job, now)
        self.devices.give(job.allocation)
        job.last_allocation = job.allocation
        job.allocation = NOTHING
        job.lane = 0
        job.speed = 0.0
        job.rate_hz = job.best_rate_hz
        self.devices_held -= job.gang_size
        del self.running[job.id]
        self.tenants.widen(job.tenant, -job.gang_size, now)

    def _settle(self, job: Job, now: float) -> None:
        """Charge the time since the last change to whatever the job was doing."""
        elapsed_s = now - job.since_s
        job.since_s = now
        if job.speed:
            job.settled_run_s += job.speed * elapsed_s
            job.settled_steps += job.speed * elapsed_s * job.rate_hz
        elif job.is_waiting:
            job.settled_wait_s += elapsed_s

    # ---- from a snapshot

    def restore_nodes(self, nodes: Sequence[tuple[Node, bool, int]]) -> None:
        for node, is_here, blocked_mask in nodes:
            self.devices.join(node, is_here, blocked_mask)
            self.version += 1

    def restore_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.tenants.join(job.tenant)
        self.jobs_held += job.state is State.HELD
        if job.is_running:
            self.devices.take(job.allocation)
            self.devices_held += job.gang_size
            self.running[job.id] = job
            self.tenants.hold(job.tenant, job.gang_size)

    # ---- states

    def _leave(self, job: Job, event: Event, now: float) -> None:
        was_running, was_held = job.is_running, job.state is State.HELD
        after = self._after(job, type(event))
        if was_running:
            self._free(job, now)
        elif job.seating:
            self._vacate(job, now)
        job.enter(after)
        self.jobs_held -= was_held
        self.tenants.leave(job.tenant)
        del self.jobs[job.id]
        self.changes.append((LEFT, job))

    def _turn(self, job: Job, event: Event, now: float) -> None:
        after = self._after(job, type(event))
        self._settle(job, now)
        job.enter(after)

    def _after(self, job: Job, cause: type) -> State:
        after = TRANSITIONS.get((job.state, cause))
        if after is None:
            raise IllegalEventError(f"{cause.__name__} does not fit {job!r}")
        return after

    def _known(
        self, event: Finished | Failed | Lost | Progressed | Measured | Cancelled | Held | Released
    ) -> Job | None:
        return self.jobs.get(event.job_id)

    def _present(self, event: NodeLost | DevicesBlocked) -> int:
        at = self.devices.index_of(event.node_name)
        if at is not None:
            return at
        raise IllegalEventError(f"{type(event).__name__} names {event.node_name}, a node that is not there")

    def _best_rate_hz(self, spec: JobSpec) -> float:
        if not spec.step_rate_hz:
            return 1.0
        return max((spec.rate_hz(kind) for kind in self.devices.device_types if spec.allows(kind)), default=1.0)

    def _join(self, node: Node) -> None:
        if self.devices.index_of(node.name) is not None:
            raise IllegalEventError(f"node {node.name} joined but was there already")
        self.devices.join(node)
        self.version += 1

    def validate(self) -> None:
        """The invariants, for tests: no device held twice, no gang in part, every count as it should be."""
        for job in self.jobs.values():
            assert job.state not in TERMINAL, f"{job!r} is over but still here"
            held = sum(mask.bit_count() for _, mask in job.allocation)
            assert held == (job.gang_size if job.is_running else 0), f"{job!r} holds {held} devices"
        self.devices.validate(job.allocation for job in self.jobs.values())
        assert self.devices_held == sum(job.gang_size for job in self.jobs.values() if job.is_running)
        assert self.running.keys() == {job.id for job in self.jobs.values() if job.is_running}
        assert all(bool(job.holds) == (job.state is State.HELD) for job in self.jobs.values())
        assert self.jobs_held == sum(job.state is State.HELD for job in self.jobs.values())
        self.tenants.validate(self.jobs.values())
        self._validate_seats()

    def _validate_seats(self) -> None:
        self.seats.validate(self.jobs)
        held = holders(self)
        for device, guests in self.seats.guests.items():
            together = [(guest, seated_lane(guest)) for guest in guests]
            together += [(held[device], held[device].lane)] if device in held else []
            assert fits(self, device, together), f"{together} do not fit on {device}"
        for job in self.jobs.values():
            assert job.speed == (1.0 if job.is_running else job.seating.speed if job.seating else 0.0), f"{job!r}"


# How to write down each kind of event. One that does not fit the job's state raises and changes nothing.
RECORDERS: dict[type, Callable[[Ledger, Any, float], None]] = {
    Submitted: Ledger._submit,
    Finished: Ledger._finish,
    Failed: Ledger._finish,
    Lost: Ledger._lose,
    Progressed: Ledger._progress,
    Measured: Ledger._measure,
    Cancelled: Ledger._cancel,
    Held: Ledger._hold,
    Released: Ledger._release,
    NodeJoined: Ledger._join_node,
    NodeLost: Ledger._lose_node,
    DevicesBlocked: Ledger._block,
    Woken: Ledger._wake,
}
