"""The simulator's driver: a heap of things to come, the model of the world, and the same scheduler as live."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType

import numpy as np

from weft.core.commands import Allocation, Command, Preempt, Seat, Start, Unseat, WakeAt
from weft.core.errors import WeftError
from weft.core.events import Event, Finished, Launched, Measured, NodeJoined, NodeLost, Stepped, Submitted, Woken
from weft.core.policy_base import completed
from weft.core.scheduler import Scheduler
from weft.core.sharing import Device, devices_of
from weft.core.text import count_of
from weft.core.values import EPSILON_S, STARTUP_S, Cluster
from weft.core.view import Decider
from weft.sim.colocation import Occupant, rates_on
from weft.sim.results.summary import JobTable, Timeline
from weft.sim.simulated_job import SimulatedJob
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import Speeds, World

NO_OUTAGE = (math.inf, "", math.inf)
SAVED_EVERY_S = 1800.0
"""A job writes a checkpoint this often: later progress is lost when its node fails."""
MOST_WAKES = 1_000
"""More wake-ups in a row at one instant, and no other event, mean a faulty policy."""

REPORT_EVERY = 256
"""Finished jobs between two reports of progress."""


class Rows:
    """One entry a job in each column. Arrays, because setting single numbers in numpy's takes twice as long."""

    def __init__(self, jobs: int) -> None:
        self.arrival_s, self.first_start_s, self.first_steps_s, self.finish_s = (
            array("d", bytes(8 * jobs)) for _ in range(4)
        )
        self.run_s, self.guest_s, self.alone_s = (array("d", bytes(8 * jobs)) for _ in range(3))
        self.gang_size, self.preemptions = (array("q", bytes(8 * jobs)) for _ in range(2))

    def table(self, trace: Trace) -> JobTable:
        columns = {name: np.asarray(column) for name, column in vars(self).items()}
        return JobTable(ids=trace.ids, tenants=trace.tenants_by_job, classes=trace.classes_by_job, **columns)


class Simulation:
    """One policy over one trace. `run` once; then `jobs`, `timeline` and `events` are the result."""

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        policy: Decider,
        world: World,
        seed: int = 0,
        watch: Callable[[int], None] = lambda finished: None,
        quotas: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        shaped = world.shape(cluster)
        whole_policy = completed(policy)
        self.scheduler = Scheduler(shaped, whole_policy)
        self.scheduler.ledger.tenants.quotas = quotas
        self.events = 0
        self._outages = world.outages(shaped, seed, math.inf)
        self._next_outage = next(self._outages, NO_OUTAGE)
        self._repairs: list[tuple[float, str]] = []
        self._trace = trace
        self._world = world
        self._speeds = Speeds(world, shaped, self.scheduler.ledger.nodes)
        self._nodes = {node.name: node for node in shaped.nodes}
        can_share = any(node.memory_bytes is not None for node in shaped.nodes)
        self._learns = can_share and whole_policy.learns_from_measures
        self._shares = whole_policy.shares
        self._seed = seed
        self._watch = watch
        self._live_jobs: dict[str, SimulatedJob] = {}
        self._to_come: list[tuple[float, int, int, SimulatedJob]] = []
        self._to_measure: list[tuple[float, int, int, SimulatedJob]] = []
        self._to_step: list[tuple[float, int, int, SimulatedJob]] = []
        """Those that start up, by when they make their first step, and which of its launches that was."""
        self._holders: dict[Device, SimulatedJob] = {}
        self._disturbed: dict[str, SimulatedJob] = {}
        """The jobs whose neighbours came or went in this instant."""
        self._notes: list[SimulatedJob] = []
        """The jobs whose progress the scheduler must be told, with the next events."""
        self._wake_at = math.inf
        self._woken_s, self._wakes = -math.inf, 0
        self._finished = 0
        self._rows = Rows(len(trace))
        self._times_s, self._held, self._waiting = array("d"), array("q"), array("q")

    def run(self) -> None:
        arrivals = enumerate(self._trace)
        coming = next(arrivals, None)
        while True:
            arrival_s = coming[1].arrival_s if coming else math.inf
            now = min(
                arrival_s,
                self._to_come[0][0] if self._to_come else math.inf,
                self._to_measure[0][0] if self._to_measure else math.inf,
                self._to_step[0][0] if self._to_step else math.inf,
                self._wake_at,
            )
            if coming is None and not self._live_jobs:
                break
            now = min(now, self._next_outage[0], self._repairs[0][0] if self._repairs else math.inf)
            if now == math.inf:
                break
            events = self._due(now)
            while coming and coming[1].arrival_s == now:
                self._arrive(*coming, events)
                coming = next(arrivals, None)
            if events:
                self._step(events, now)
        self._watch(self._finished)
        self._check_all_over()

    def _step(self, events: list[Event], now: float) -> None:
        self.events += len(events)
        if self._notes:
            notes, self._notes = self._notes, []
            events = [*(sim_job.progress(now) for sim_job in notes), *events]
        self._carry_out(self.scheduler.handle(events, now), now)
        if self._disturbed:
            disturbed, self._disturbed = self._disturbed, {}
            computing = [sim_job for sim_job in disturbed.values() if sim_job.generation]
            for sim_job in computing:
                sim_job.settle(now)  # all of them first: the next turn may depend on what each has had
            for sim_job in computing:
                self._pace_anew(sim_job, now)
        ledger = self.scheduler.ledger
        self._times_s.append(now)
        self._held.append(ledger.devices_held)
        self._waiting.append(ledger.jobs_waiting - len(ledger.seats.seated))

    # ---- what happens

    def _due(self, now: float) -> list[Event]:
        """Completions, then the wake-up, of this instant. A job with next to nothing left to do is done."""
        events: list[Event] = []
        while self._to_come and self._to_come[0][0] <= now + EPSILON_S:
            _, _, version, sim_job = heappop(self._to_come)
            if version == sim_job.version:
                events.append(self._finish(sim_job, now))
        while self._to_step and self._to_step[0][0] <= now + EPSILON_S:
            _, _, launch, sim_job = heappop(self._to_step)
            if launch == sim_job.launches and sim_job.generation:
                if sim_job.paces_from_s > now + EPSILON_S:  # it was paused meanwhile
                    heappush(self._to_step, (sim_job.paces_from_s, sim_job.position, launch, sim_job))
                else:
                    events.append(Stepped(sim_job.spec.id, sim_job.generation))
        while self._to_measure and self._to_measure[0][0] <= now + EPSILON_S:
            _, _, version, sim_job = heappop(self._to_measure)
            if version == sim_job.version:
                events.append(self._measure(sim_job))
        if self._next_outage[0] <= now or (self._repairs and self._repairs[0][0] <= now):
            self._break_and_mend(events, now)
        if self._wake_at <= now:
            self._wake_at = math.inf
            events.append(Woken())
            self._check_time_passes(len(events), now)
        return events

    def _break_and_mend(self, events: list[Event], now: float) -> None:
        """Nodes that come back, and nodes that fail: jobs that compute there lose what they have not saved."""
        while self._repairs and self._repairs[0][0] <= now:
            events.append(NodeJoined(self._nodes[heappop(self._repairs)[1]]))
        while self._next_outage[0] <= now:
            _, name, back_s = self._next_outage
            self._next_outage = next(self._outages, NO_OUTAGE)
            heappush(self._repairs, (back_s, name))
            events.append(NodeLost(name))
            nodes = self.scheduler.ledger.nodes
            for sim_job in self._live_jobs.values():
                if sim_job.generation and any(nodes[node].name == name for node, _ in sim_job.devices):
                    self._lose(sim_job, now)

    def _lose(self, sim_job: SimulatedJob, now: float) -> None:
        sim_job.settle(now)
        unsaved_s = min(now - sim_job.started_s, (now - sim_job.started_s) % SAVED_EVERY_S)
        sim_job.steps_left = min(sim_job.steps, sim_job.steps_left + unsaved_s * sim_job.pace)
        sim_job.allocation, sim_job.is_as_reckoned = (), False
        self._pause(sim_job, now)

    def _check_time_passes(self, due: int, now: float) -> None:
        """A policy may ask to be woken very soon, but not for ever at one instant."""
        is_same_instant = due == 1 and now - self._woken_s <= EPSILON_S
        self._wakes, self._woken_s = self._wakes + 1 if is_same_instant else 0, now
        if self._wakes > MOST_WAKES:
            raise WeftError(
                f"the policy asks again and again to be woken at {now:g} s, and nothing comes of it",
                "changes_at must be a time at which the key is another one than before",
            )

    def _arrive(self, position: int, job: TraceJob, events: list[Event]) -> None:
        rows, spec = self._rows, self._world.describe(job, self._seed)
        steps = job.duration_s if spec.declared_steps is None else spec.declared_steps
        rows.gang_size[position] = spec.gang_size
        rows.arrival_s[position] = job.arrival_s
        rows.alone_s[position] = steps / self._speeds.best_pace(spec)
        if job.duration_s > EPSILON_S:
            self._live_jobs[spec.id] = SimulatedJob(position, spec, steps, self._world.profile(spec, self._seed))
            events.append(Submitted(spec))
        else:  # nothing to do: over before any decision
            rows.first_start_s[position] = rows.first_steps_s[position] = rows.finish_s[position] = job.arrival_s
            self._finished += 1

    def _finish(self, sim_job: SimulatedJob, now: float) -> Event:
        rows, position = self._rows, sim_job.position
        sim_job.settle(now)
        rows.first_start_s[position] = sim_job.first_start_s
        rows.first_steps_s[position] = now if math.isnan(sim_job.first_steps_s) else sim_job.first_steps_s
        rows.finish_s[position] = now
        rows.preemptions[position] = sim_job.preemptions
        generation = sim_job.generation
        self._leave(sim_job, now)
        rows.run_s[position] = sim_job.run_s
        rows.guest_s[position] = sim_job.guest_s
        del self._live_jobs[sim_job.spec.id]
        self._finished += 1
        if self._finished % REPORT_EVERY == 0:
            self._watch(self._finished)
        return Finished(sim_job.spec.id, generation)

    def _measure(self, sim_job: SimulatedJob) -> Event:
        beside = {one.spec.id for device in sim_job.devices for one in self._on(device)} - {sim_job.spec.id}
        noise = self._world.noise(sim_job.spec.id, self._seed, sim_job.version)
        profile = sim_job.profile
        rate_hz, error = sim_job.pace * noise, None
        if not beside:
            sim_job.alone_hz = rate_hz
        elif sim_job.alone_hz is not None:
            error = 0.0  # no other load comes to these machines, so what it made alone before holds for this window
        return Measured(
            sim_job.spec.id,
            sim_job.generation,
            rate_hz,
            profile.utilisation,
            profile.persistent_bytes,
            profile.ephemeral_bytes,
            tuple(sorted(beside)),
            alone_hz=sim_job.alone_hz if beside else None,
            error=error,
        )

    # ---- what is done

    def _carry_out(self, commands: Iterable[Command], now: float) -> None:
        for command in commands:
            match command:
                case Start(job_id, generation, allocation):
                    rule = Occupant(
                        self._live_jobs[job_id].profile, command.lane, base=command.base, weight=command.weight
                    )
                    sim_job = self._enter(job_id, generation, allocation, rule, now)
                    self._holders.update(dict.fromkeys(sim_job.devices, sim_job))
                case Seat(job_id, generation, seating):
                    rule = Occupant(
                        self._live_jobs[job_id].profile,
                        seating.lane,
                        seating.is_throttled,
                        seating.base,
                        seating.weight,
                    )
                    self._enter(job_id, generation, seating.allocation, rule, now).is_guest = True
                case Preempt(job_id) | Unseat(job_id):
                    self._pause(self._live_jobs[job_id], now)
                case WakeAt(time_s):
                    self._wake_at = time_s

    def _enter(self, job_id: str, generation: int, allocation: Allocation, rule: Occupant, now: float) -> SimulatedJob:
        """It computes here from now on, once it has started or resumed."""
        sim_job = self._live_jobs[job_id]
        is_launched = sim_job.allocation != allocation
        delay_s = self._delay_s(sim_job, allocation, now)
        is_guest = sim_job.generation > 0
        if is_guest:
            self._leave(sim_job, now)  # it has got devices of its own
        if not sim_job.last_generation:
            sim_job.first_start_s = now
        rate_hz, slowdown = self._speeds.pace(sim_job.spec, allocation)
        sim_job.generation = sim_job.last_generation = generation
        sim_job.usual_pace = rate_hz / slowdown
        sim_job.allocation = allocation
        sim_job.join(rule, tuple(devices_of(allocation)), has_computed=is_guest)
        sim_job.is_guest = False
        sim_job.started_s = now
        sim_job.paces_from_s = now + delay_s
        sim_job.is_as_reckoned = slowdown == 1.0 and delay_s == 0.0
        if is_launched:
            self._launch(sim_job, now)
        self._disturbed[job_id] = sim_job
        self._disturb_beside(sim_job)
        return sim_job

    def _delay_s(self, sim_job: SimulatedJob, allocation: Allocation, now: float) -> float:
        """The time to the next step: none where it computes already, little where it is paused in memory. A job
        that has not started up yet still has to."""
        if not sim_job.last_generation:
            return self._world.startup_s
        if sim_job.allocation != allocation:
            return self._world.preemption_s
        if sim_job.generation:
            return max(0.0, sim_job.paces_from_s - now)
        return sim_job.startup_left_s + self._world.pause_s

    def _launch(self, sim_job: SimulatedJob, now: float) -> None:
        """Until its first step it starts up."""
        sim_job.launches += 1
        if sim_job.paces_from_s > now:
            self.scheduler.record([Launched(sim_job.spec.id, sim_job.generation, STARTUP_S)], now)
            heappush(self._to_step, (sim_job.paces_from_s, sim_job.position, sim_job.launches, sim_job))

    def _pause(self, sim_job: SimulatedJob, now: float) -> None:
        sim_job.preemptions += 1
        self._leave(sim_job, now)
        if not sim_job.is_as_reckoned:
            self._notes.append(sim_job)
        if len(self._to_come) > 64 + 2 * len(self._live_jobs):
            self._to_come = [item for item in self._to_come if item[2] == item[3].version]
            heapify(self._to_come)

    def _leave(self, sim_job: SimulatedJob, now: float) -> None:
        """It no longer computes where it was."""
        sim_job.settle(now)
        sim_job.startup_left_s = max(0.0, sim_job.paces_from_s - now)
        sim_job.run_s += now - sim_job.started_s
        if sim_job.is_guest:
            sim_job.guest_s += now - sim_job.started_s
        sim_job.generation = 0
        sim_job.version += 1  # what was to come of it is stale
        for device in sim_job.devices:
            if self._holders.get(device) is sim_job:
                del self._holders[device]
        self._disturb_beside(sim_job)

    def _disturb_beside(self, sim_job: SimulatedJob) -> None:
        if self._shares:
            for device in sim_job.devices:
                for one in self._on(device):
                    self._disturbed[one.spec.id] = one

    def _on(self, device: Device) -> list[SimulatedJob]:
        """The jobs that compute on a device: its holder first, then its guests."""
        guests = [
            self._live_jobs[job.id]
            for job in self.scheduler.ledger.seats.guests.get(device, ())
            if job.id in self._live_jobs
        ]
        return [self._holders[device], *guests] if device in self._holders else guests

    def _pace_anew(self, sim_job: SimulatedJob, now: float) -> None:
        """Its pace from now on, among those that are there now."""
        pace = sim_job.usual_pace * min((self._rate_on(device, sim_job) for device in sim_job.devices), default=1.0)
        sim_job.is_as_reckoned = sim_job.is_as_reckoned and pace == sim_job.usual_pace
        sim_job.pace = pace
        sim_job.version += 1
        heappush(self._to_come, (sim_job.ends_s, sim_job.position, sim_job.version, sim_job))
        if self._learns:
            measured_s = max(now, sim_job.paces_from_s) + self._world.measure_s
            heappush(self._to_measure, (measured_s, sim_job.position, sim_job.version, sim_job))

    def _rate_on(self, device: Device, sim_job: SimulatedJob) -> float:
        here = self._on(device)
        if len(here) == 1:
            return 1.0
        kind = self.scheduler.ledger.nodes[device[0]].device_type
        occupants = [one.as_occupant.after(one.turned_s) for one in here]
        rates = rates_on(kind, occupants, self._world.interference, self._world.held_back)
        return rates[here.index(sim_job)]

    # ---- what is left

    def jobs(self) -> JobTable:
        return self._rows.table(self._trace)

    def timeline(self) -> Timeline:
        return Timeline(
            np.array(self._times_s),
            np.array(self._held, dtype=np.int64),
            np.array(self._waiting, dtype=np.int64),
        )

    def _check_all_over(self) -> None:
        if self._live_jobs:
            job_id = next(iter(self._live_jobs))
            now = self._times_s[-1]
            raise WeftError(
                f"the policy leaves {count_of(len(self._live_jobs), 'job')} waiting for ever, {job_id} among them: "
                f"{self.scheduler.reason(job_id, now)}",
                "a policy must start every job at some time, or ask to be woken",
            )
