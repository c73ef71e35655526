"""Who holds what. The only writer of jobs, of free devices and of attained service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from weft.core.commands import Allocation, Preempt, Start, Stop
from weft.core.errors import IllegalEventError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Held,
    Lost,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Submitted,
    Woken,
)
from weft.core.job import NOTHING, Job
from weft.core.plan import Eviction, Grant, Placement
from weft.core.reasons import Reason
from weft.core.tenants import Tenants
from weft.core.transitions import TERMINAL, TRANSITIONS, State
from weft.core.values import Cluster, JobSpec, Node, check_spec


class Change(StrEnum):
    """What a policy's indexes must hear of. What its own plan did, it knows."""

    QUEUED = "queued"
    LEFT = "left"
    PROGRESSED = "progressed"


QUEUED, LEFT = Change.QUEUED, Change.LEFT


class Ledger:
    """Live jobs, free devices, service per tenant. Finished jobs are forgotten."""

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[str, Job] = {}
        self.running: dict[str, Job] = {}
        self.nodes: list[Node] = []
        self.is_present: list[bool] = []
        self.free_masks: list[int] = []
        self.free_counts: list[int] = []
        self.blocked_masks: list[int] = []
        self.device_count = 0
        self.devices_held = 0
        self.jobs_held = 0
        self.tenants = Tenants()
        self.version = 0
        """Rises when nodes come or go: whoever remembers anything must start anew."""
        self.changes: list[tuple[Change, Job]] = []
        self.submitted = 0
        self._device_types: tuple[str, ...] = ()
        self._stops: list[Stop] = []
        for node in cluster.nodes:
            self._join(node)

    @property
    def jobs_waiting(self) -> int:
        return len(self.jobs) - len(self.running) - self.jobs_held

    # ---- events

    def take_stops(self) -> list[Stop]:
        """What cancelled jobs were still running, each handed out once."""
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
        if job.is_running:
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

    def _hold(self, event: Held, now: float) -> None:
        job = self._known(event)
        if job is None:
            return  # too late: it is over
        after = self._after(job, Held)
        job.holds = (*(hold for hold in job.holds if hold.code != event.reason.code), event.reason)
        if after is not job.state:
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
            reckoned_since_s = now - job.since_s if job.is_running else 0.0
            job.settled_steps = event.steps_done - reckoned_since_s * job.rate_hz
            if job.state is not State.HELD:
                self.changes.append((Change.PROGRESSED, job))

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
        self.is_present[at] = False
        self._count_devices()
        self.free_masks[at] = self.free_counts[at] = self.blocked_masks[at] = 0

    def _block(self, event: DevicesBlocked, now: float) -> None:
        at = self._present(event)
        usable = self.free_masks[at] | self.blocked_masks[at]
        blocked = usable & event.mask
        if blocked != self.blocked_masks[at]:
            self.blocked_masks[at] = blocked
            self.free_masks[at] = usable & ~blocked
            self.free_counts[at] = self.free_masks[at].bit_count()
            self.version += 1

    def _wake(self, event: Woken, now: float) -> None:
        """Nothing has changed but the time."""

    # ---- the committed plan

    def grant(self, grant: Grant, now: float) -> Start:
        """Give a waiting job its devices; the check has been made."""
        job = self.jobs[grant.job_id]
        return self._give(job, self._take(grant.placement, job.last_allocation), grant.reason, now)

    def give_again(self, start: Start, now: float) -> None:
        """What was committed before, from the log: the very same devices."""
        for node, mask in start.allocation:
            if self.free_masks[node] & mask != mask:
                raise IllegalEventError(
                    f"{start} is in the log, but {self.nodes[node].name} has not these devices free"
                )
        for node, mask in start.allocation:
            self.free_masks[node] ^= mask
            self.free_counts[node] -= mask.bit_count()
        self._give(self.jobs[start.job_id], start.allocation, start.reason, now)

    def _give(self, job: Job, allocation: Allocation, reason: Reason, now: float) -> Start:
        job.enter(self._after(job, Start))
        job.settled_wait_s += now - job.since_s
        job.since_s = now
        job.generation += 1
        job.allocation = allocation
        job.rate_hz = job.spec.rate_hz(self.nodes[allocation[0][0]].device_type)
        if job.generation == 1:
            job.first_start_s = now
            job.first_wait_s = job.settled_wait_s
        self.devices_held += job.gang_size
        self.running[job.id] = job
        self.tenants.widen(job.tenant, job.gang_size, now)
        return Start(job.id, job.generation, allocation, reason)

    def evict(self, eviction: Eviction, now: float) -> Preempt:
        """Take a running job's devices away; the check has been made."""
        job = self.jobs[eviction.job_id]
        self._free(job, now)
        job.enter(self._after(job, Preempt))
        return Preempt(job.id, job.generation, eviction.reason)

    # ---- devices and service

    def _take(self, placement: Placement, last: Allocation) -> Allocation:
        if len(placement) == 1:
            node, count = placement[0]
            return ((node, self._take_of(node, count, last)),)
        return tuple([(node, self._take_of(node, count, last)) for node, count in placement])

    def _take_of(self, node: int, count: int, last: Allocation) -> int:
        """Those it had last if it can have them, where it may still be in memory; otherwise the lowest free ones."""
        free = rest = self.free_masks[node]
        had = dict(last).get(node, 0) if last else 0
        if had and had & free == had and had.bit_count() == count:
            rest ^= had
        else:
            for _ in range(count):
                rest &= rest - 1  # clears the lowest free device
        self.free_masks[node] = rest
        self.free_counts[node] -= count
        return free ^ rest

    def _free(self, job: Job, now: float) -> None:
        self._settle(job, now)
        for node, mask in job.allocation:
            self.free_masks[node] |= mask
            self.free_counts[node] += mask.bit_count()
        job.last_allocation = job.allocation
        job.allocation = NOTHING
        job.rate_hz = job.best_rate_hz
        self.devices_held -= job.gang_size
        del self.running[job.id]
        self.tenants.widen(job.tenant, -job.gang_size, now)

    def _settle(self, job: Job, now: float) -> None:
        """Charge the time since the last change to whatever the job was doing."""
        elapsed_s = now - job.since_s
        job.since_s = now
        if job.is_running:
            job.settled_run_s += elapsed_s
            job.settled_steps += elapsed_s * job.rate_hz
        elif job.is_waiting:
            job.settled_wait_s += elapsed_s

    # ---- from a snapshot

    def restore_nodes(self, nodes: Sequence[tuple[Node, bool, int]]) -> None:
        for node, is_here, blocked_mask in nodes:
            self._add(node, is_here, blocked_mask)

    def restore_job(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.tenants.join(job.tenant)
        self.jobs_held += job.state is State.HELD
        if job.is_running:
            for node, mask in job.allocation:
                self.free_masks[node] &= ~mask
                self.free_counts[node] = self.free_masks[node].bit_count()
            self.devices_held += job.gang_size
            self.running[job.id] = job
            self.tenants.hold(job.tenant, job.gang_size)

    # ---- states

    def _leave(self, job: Job, event: Event, now: float) -> None:
        was_running, was_held = job.is_running, job.state is State.HELD
        after = self._after(job, type(event))
        if was_running:
            self._free(job, now)
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

    def _known(self, event: Finished | Failed | Lost | Progressed | Cancelled | Held | Released) -> Job | None:
        return self.jobs.get(event.job_id)

    def _present(self, event: NodeLost | DevicesBlocked) -> int:
        for at, node in enumerate(self.nodes):
            if node.name == event.node_name and self.is_present[at]:
                return at
        raise IllegalEventError(f"{type(event).__name__} names {event.node_name}, a node that is not there")

    def _best_rate_hz(self, spec: JobSpec) -> float:
        if not spec.step_rate_hz:
            return 1.0
        return max((spec.rate_hz(kind) for kind in self._device_types if spec.allows(kind)), default=1.0)

    def _count_devices(self) -> None:
        self.version += 1
        present = [node for node, here in zip(self.nodes, self.is_present, strict=True) if here]
        self.device_count = sum(node.device_count for node in present)
        self._device_types = tuple(dict.fromkeys(node.device_type for node in present))

    def _join(self, node: Node) -> None:
        if any(other.name == node.name and here for other, here in zip(self.nodes, self.is_present, strict=True)):
            raise IllegalEventError(f"node {node.name} joined but was there already")
        self._add(node, is_here=True, blocked_mask=0)

    def _add(self, node: Node, is_here: bool, blocked_mask: int) -> None:
        free_mask = ((1 << node.device_count) - 1) & ~blocked_mask if is_here else 0
        self.nodes.append(node)
        self.is_present.append(is_here)
        self.free_masks.append(free_mask)
        self.blocked_masks.append(blocked_mask)
        self.free_counts.append(free_mask.bit_count())
        self._count_devices()

    def validate(self) -> None:
        """The invariants, for tests: no device held twice, no gang in part, every count as it should be."""
        free = [free | blocked for free, blocked in zip(self.free_masks, self.blocked_masks, strict=True)]
        for job in self.jobs.values():
            assert job.state not in TERMINAL, f"{job!r} is over but still here"
            held = sum(mask.bit_count() for _, mask in job.allocation)
            assert held == (job.gang_size if job.is_running else 0), f"{job!r} holds {held} devices"
            for node, mask in job.allocation:
                assert free[node] & mask == 0, f"{job!r} holds a device of {self.nodes[node].name} that another has"
                free[node] |= mask
        for at, there in enumerate(self.nodes):
            full = (1 << there.device_count) - 1 if self.is_present[at] else 0
            assert free[at] == full, f"devices of {there.name} are lost: {free[at]:b}"
            assert self.free_counts[at] == self.free_masks[at].bit_count()
        assert self.devices_held == sum(job.gang_size for job in self.jobs.values() if job.is_running)
        assert self.running.keys() == {job.id for job in self.jobs.values() if job.is_running}
        assert all(bool(job.holds) == (job.state is State.HELD) for job in self.jobs.values())
        assert self.jobs_held == sum(job.state is State.HELD for job in self.jobs.values())
        self.tenants.validate(self.jobs.values())


# How to write down each kind of event. One that does not fit the job's state raises and changes nothing.
RECORDERS: dict[type, Callable[[Ledger, Any, float], None]] = {
    Submitted: Ledger._submit,
    Finished: Ledger._finish,
    Failed: Ledger._finish,
    Lost: Ledger._lose,
    Progressed: Ledger._progress,
    Cancelled: Ledger._cancel,
    Held: Ledger._hold,
    Released: Ledger._release,
    NodeJoined: Ledger._join_node,
    NodeLost: Ledger._lose_node,
    DevicesBlocked: Ledger._block,
    Woken: Ledger._wake,
}
