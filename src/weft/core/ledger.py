"""Which job holds which devices, and which guests use them too.

With `recording`, which applies events, the only writer of jobs, free devices, seats and attained service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from heapq import heappush

from weft.core.bounds import cpus_left, nodes_short_of_cpus
from weft.core.commands import Preempt, Seat, Seating, Start, Stop, Unseat
from weft.core.devices import Devices, Seats
from weft.core.errors import IllegalEventError
from weft.core.events import Event
from weft.core.job import NOTHING, Job
from weft.core.plan import Eviction, Grant
from weft.core.reasons import Code, Reason
from weft.core.sharing import Offer, Withdrawal, devices_of, fits, holders, members_on
from weft.core.tenants import Tenants
from weft.core.transitions import TERMINAL, State
from weft.core.values import Cluster, JobSpec, Node


class Change(StrEnum):
    """Changes that a policy's indexes follow, other than those its own plan made."""

    QUEUED = "queued"
    LEFT = "left"
    PROGRESSED = "progressed"
    STARTUP = "startup"
    MEASURED = "measured"


QUEUED, LEFT = Change.QUEUED, Change.LEFT


LEAST_EXCUSED = 0.1
"""The part of a start-up that is worth excusing."""


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
        """Rises when nodes join or leave: indexes built before are void."""
        self.changes: list[tuple[Change, Job]] = []
        self.submitted = 0
        self.exceptions = 0
        """Live jobs that are bound or have a priority: while there are any, planners look at every job."""
        self.prioritised: dict[str, int] = {}
        """The number of live jobs with a priority, for tenants that have any."""
        self.unordered: set[str] = set()
        """Tenants with priorities whose jobs have not exchanged their ties since the last submission."""
        self.begins: list[tuple[float, str]] = []
        """Begin times of jobs that have one, as a heap. Some of these jobs may be over."""
        self.stops: list[Stop | Unseat | Preempt] = []
        for node in cluster.nodes:
            self.join(node)

    @property
    def device_count(self) -> int:
        return self.devices.device_count

    @property
    def jobs_waiting(self) -> int:
        return len(self.jobs) - len(self.running) - self.jobs_held

    def take_stops(self) -> list[Stop | Unseat | Preempt]:
        """Commands for jobs that were cancelled or paused by their owner while computing, and for evicted guests: each
        returned once.
        """
        stops, self.stops = self.stops, []
        return stops

    # ---- the committed plan

    def grant(self, grant: Grant, now: float) -> Start:
        """Give a waiting job its devices; the check has been made."""
        job = self.jobs[grant.job_id]
        last = job.seating.allocation if job.seating else job.last_allocation
        if self.exceptions and job.spec.device_ids:
            allocation = self.devices.pick_ids(grant.placement, job.spec.device_ids)
        else:
            allocation = self.devices.pick(grant.placement, last)
        stays = job.seating is not None and allocation == job.seating.allocation
        turns = job.seating if job.seating and stays else grant  # to leave its lane it would have to pause
        given = Start(job.id, job.generation + 1, allocation, grant.reason, turns.lane, turns.base, turns.weight)
        return self._give(job, given, now)

    def seat(self, offer: Offer, now: float) -> Seat:
        """Seat a waiting job as a guest; the check has been made."""
        return self._seat(self.jobs[offer.job_id], offer.seating, offer.reason, now)

    def unseat(self, withdrawal: Withdrawal, now: float) -> Unseat:
        job = self.jobs[withdrawal.job_id]
        self.vacate(job, now)
        return Unseat(job.id, job.generation, withdrawal.reason)

    def seat_again(self, seat: Seat, now: float) -> None:
        """Apply what was committed before, from the log."""
        self._seat(self.jobs[seat.job_id], seat.seating, seat.reason, now)

    def give_again(self, start: Start, now: float) -> None:
        """Apply what was committed before, from the log: the same devices."""
        lacking = self.devices.lacking(start.allocation)
        if lacking is not None:
            raise IllegalEventError(f"{start} is in the log, but {lacking.name} has not these devices free")
        self.devices.take(start.allocation)
        self._give(self.jobs[start.job_id], start, now)

    def _give(self, job: Job, start: Start, now: float) -> Start:
        after = job.after(Start)
        if job.seating:
            self.vacate(job, now)
        else:
            self.settle(job, now)
        job.enter(after)
        job.generation += 1
        job.allocation = start.allocation
        job.lane = start.lane
        job.speed = 1.0
        job.rate_hz = job.spec.rate_hz(self.nodes[start.allocation[0][0]].device_type)
        job.served_from_s = now + job.startup_left_s
        if job.generation == 1:
            job.first_start_s = now
            job.first_wait_s = job.settled_wait_s
        self.devices_held += job.gang_size
        self.running[job.id] = job
        self.tenants.widen(job.tenant, job.gang_size, now)
        self.tenants.excuse(job, now)
        if self.seats.guests:
            self.make_way(job, Code.SEAT_TAKEN, now)
            if job.spec.cpus:
                self._make_way_on_cores(job, now)
        return start

    def evict(self, eviction: Eviction, now: float) -> Preempt:
        """Take a running job's devices away; the check has been made."""
        job = self.jobs[eviction.job_id]
        self.free(job, now)
        job.enter(job.after(Preempt))
        return Preempt(job.id, job.generation, eviction.reason)

    # ---- guests

    def _seat(self, job: Job, seating: Seating, reason: Reason, now: float) -> Seat:
        self.settle(job, now)
        job.generation += 1
        job.seating = seating
        job.speed = seating.speed
        job.rate_hz = job.spec.rate_hz(self.nodes[seating.allocation[0][0]].device_type)
        job.served_from_s = now + job.startup_left_s
        if job.generation == 1:
            job.first_start_s = now
            job.first_wait_s = job.settled_wait_s
        self.seats.take(job)
        self.tenants.seat(job.tenant, job.gang_size * job.speed, now)
        self.tenants.excuse(job, now)
        self.changes.append((Change.PROGRESSED, job))
        return Seat(job.id, job.generation, seating, reason)

    def vacate(self, job: Job, now: float) -> None:
        """End its seat: the job waits again."""
        assert job.seating is not None
        self.settle(job, now)
        self.seats.leave(job)
        self.tenants.seat(job.tenant, -job.gang_size * job.speed, now)
        job.last_allocation, job.seating = job.seating.allocation, None
        job.speed = 0.0
        self.tenants.excuse(job, now)
        job.rate_hz = job.best_rate_hz
        self.changes.append((Change.PROGRESSED, job))

    def pace(self, job: Job, speed: float, now: float) -> None:
        """Correct the share of its devices' time that a guest is charged for, from now on.

        Its seat began when it did before, so what it has had so far is kept in the settled figures.
        """
        assert job.seating is not None
        slower, elapsed_s = job.speed - speed, job.served_elapsed_s(now)
        job.settled_run_s += slower * elapsed_s
        job.settled_steps += slower * elapsed_s * job.rate_hz
        self.tenants.seat(job.tenant, -job.gang_size * slower, now)
        job.seating, job.speed = replace(job.seating, speed=speed), speed
        self.changes.append((Change.PROGRESSED, job))

    def dismiss(self, job: Job, reason: Reason, now: float) -> None:
        self.vacate(job, now)
        self.stops.append(Unseat(job.id, job.generation, reason))

    def withdraw(self, job: Job, reason: Reason, now: float) -> None:
        """Take a running job's devices away because its owner wants it to pause, not because the policy preempts it."""
        self.free(job, now)
        self.stops.append(Preempt(job.id, job.generation, reason))

    def make_way(self, job: Job, code: Code, now: float) -> None:
        """Evict guests until the rest fit on its devices: the newest guest first, a holder never."""
        held = holders(self) if job.seating else dict.fromkeys(devices_of(job.allocation), job)
        for device in devices_of(job.seating.allocation if job.seating else job.allocation):
            while device in self.seats.guests and not fits(self, device, members_on(self, device, held)):
                self.dismiss(self.seats.guests[device][-1], Reason(code, (job.id,)), now)

    def _make_way_on_cores(self, job: Job, now: float) -> None:
        """Evict guests from CPU cores that a holder needs: the newest guest first."""
        while short := nodes_short_of_cpus(self, job.allocation):
            using = [guest for guest in self.seats.seated.values() if guest.spec.cpus and short & guest.seated_nodes]
            if not using:
                return
            self.dismiss(using[-1], Reason(Code.CPUS_TAKEN, (job.id,)), now)

    def free(self, job: Job, now: float) -> None:
        self.settle(job, now)
        self.devices.give(job.allocation)
        job.last_allocation = job.allocation
        job.allocation = NOTHING
        job.lane = 0
        job.speed = 0.0
        job.rate_hz = job.best_rate_hz
        self.devices_held -= job.gang_size
        del self.running[job.id]
        self.tenants.widen(job.tenant, -job.gang_size, now)
        self.tenants.excuse(job, now)

    def settle(self, job: Job, now: float) -> None:
        """Charge the time since the last change to the job's service or waiting."""
        if job.speed:
            served_s = job.served_elapsed_s(now)
            job.settled_run_s += job.speed * served_s
            job.settled_steps += job.speed * served_s * job.rate_hz
            if job.served_from_s > job.since_s:
                self._settle_startup(job, now)
        elif job.is_waiting:
            job.settled_wait_s += now - job.since_s
        job.since_s = job.served_from_s = now

    # ---- starting up

    def begin_startup(self, job: Job, startup_s: float, now: float) -> None:
        """An attempt was launched: until its first step, for at most `startup_s`, it is not charged.

        In all a job gets no more of that than `startup_s` plus what it has been charged: otherwise a job that fails and
        is retried over and over would never be charged. If less than LEAST_EXCUSED of `startup_s` is left,
        nothing is excused: each end of a protection is a decision, so remainders of microseconds that grow again
        with each decision would stop the clock of a policy that preempts at every decision.
        """
        self.settle(job, now)
        excused_s = min(startup_s, startup_s + job.settled_run_s - job.settled_startup_s)
        job.startup_left_s = excused_s if excused_s >= LEAST_EXCUSED * startup_s else 0.0
        job.served_from_s = now + job.startup_left_s
        self.tenants.excuse(job, now)
        self.changes.append((Change.STARTUP, job))

    def end_startup(self, job: Job, now: float) -> None:
        """It made its first step, or its attempt is gone."""
        is_starting, job.startup_left_s = job.is_starting(now), 0.0
        if is_starting:
            job.served_from_s = now
            self.tenants.excuse(job, now)
            self.changes.append((Change.STARTUP, job))

    def _settle_startup(self, job: Job, now: float) -> None:
        started_s = min(now, job.served_from_s) - job.since_s
        job.settled_startup_s += job.speed * started_s
        job.startup_left_s = max(0.0, job.startup_left_s - started_s)

    # ---- from a snapshot

    def restore_nodes(self, nodes: Sequence[tuple[Node, bool, int]]) -> None:
        for node, is_here, blocked_mask in nodes:
            self.devices.join(node, is_here, blocked_mask)
            self.version += 1

    def restore_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.tenants.join(job.tenant)
        self.jobs_held += job.state is State.HELD
        if job.spec.is_bound or job.spec.priority:
            self.enter(job.spec)
        if job.spec.begin_s is not None and Code.BEGINS_AT in job.held_for:
            heappush(self.begins, (job.spec.begin_s, job.id))
        if job.is_running:
            self.devices.take(job.allocation)
            self.devices_held += job.gang_size
            self.running[job.id] = job
        self.tenants.resume(job)

    # ---- jobs that device counts and the policy's order do not cover

    def enter(self, spec: JobSpec) -> None:
        """A job that is bound or has a priority was submitted."""
        self.version += not self.exceptions
        self.exceptions += 1
        if spec.priority:
            self.prioritised[spec.tenant] = self.prioritised.get(spec.tenant, 0) + 1

    def forget(self, spec: JobSpec) -> None:
        self.exceptions -= 1
        self.version += not self.exceptions
        if spec.priority:
            self.prioritised[spec.tenant] -= 1
            if not self.prioritised[spec.tenant]:
                del self.prioritised[spec.tenant]

    def reorder(self) -> None:
        """Reassign the ties of a tenant's jobs that have never run, by priority.

        The tenant has the same ties as before: an order by arrival lets no tenant pass another, then or later.
        """
        tenants, self.unordered = self.unordered, set()
        own: dict[str, list[Job]] = {tenant: [] for tenant in tenants}
        for job in self.jobs.values():
            if job.tenant in own and not job.generation:
                own[job.tenant].append(job)
        for jobs in own.values():
            ties = sorted(job.tie for job in jobs)
            wanted = sorted(jobs, key=lambda job: (-job.spec.priority, job.tie))
            for job, tie in zip(wanted, ties, strict=True):
                if job.tie != tie:
                    job.tie, job.is_reordered = tie, True
                    self.version += 1

    # ---- states

    def leave(self, job: Job, event: Event, now: float) -> None:
        was_running, was_held = job.is_running, job.state is State.HELD
        after = job.after(type(event))
        if was_running:
            self.free(job, now)
        elif job.seating:
            self.vacate(job, now)
        job.enter(after)
        self.jobs_held -= was_held
        del self.jobs[job.id]
        if self.exceptions and (job.spec.is_bound or job.spec.priority):
            self.forget(job.spec)
        self.changes.append((LEFT, job))

    def change(self, job: Job, event: Event, now: float) -> None:
        after = job.after(type(event))
        self.settle(job, now)
        job.enter(after)

    def best_rate_hz(self, spec: JobSpec) -> float:
        if not spec.step_rate_hz:
            return 1.0
        return max((spec.rate_hz(kind) for kind in self.devices.device_types if spec.allows(kind)), default=1.0)

    def join(self, node: Node) -> None:
        if self.devices.index_of(node.name) is not None:
            raise IllegalEventError(f"node {node.name} joined but is already present")
        self.devices.join(node)
        self.version += 1

    def validate(self) -> None:
        """The invariants, for tests: no device held twice, no gang in part, every count correct."""
        for job in self.jobs.values():
            assert job.state not in TERMINAL, f"{job!r} is over but still here"
            held = sum(mask.bit_count() for _, mask in job.allocation)
            assert held == (job.gang_size if job.is_running else 0), f"{job!r} holds {held} devices"
        self.devices.validate(job.allocation for job in self.jobs.values())
        assert self.devices_held == sum(job.gang_size for job in self.jobs.values() if job.is_running)
        assert self.running.keys() == {job.id for job in self.jobs.values() if job.is_running}
        assert all(bool(job.holds) == (job.state is State.HELD) for job in self.jobs.values())
        assert self.jobs_held == sum(job.state is State.HELD for job in self.jobs.values())
        assert self.exceptions == sum(job.spec.is_bound or job.spec.priority != 0 for job in self.jobs.values())
        assert all(left >= 0 for left in cpus_left(self).values()), f"CPU cores are used twice: {cpus_left(self)}"
        for job in self.jobs.values():
            place = job.seating.allocation if job.seating else job.allocation
            pinned = [(node, self.nodes[node].mask_of(job.spec.device_ids)) for node, _ in place]
            assert not job.spec.device_ids or list(place) == pinned, f"{job!r} computes on {place}"
        self.tenants.validate(self.jobs.values())
        self._validate_seats()

    def _validate_seats(self) -> None:
        self.seats.validate(self.jobs)
        held = holders(self)
        for device in self.seats.guests:
            together = members_on(self, device, held)
            assert fits(self, device, together), f"{together} do not fit on {device}"
        for job in self.jobs.values():
            assert job.speed == (1.0 if job.is_running else job.seating.speed if job.seating else 0.0), f"{job!r}"
            assert job.startup_left_s >= 0.0, f"{job!r}"
            assert job.served_from_s >= job.since_s, f"{job!r}"
