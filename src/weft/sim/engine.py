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
from weft.core.values import EPSILON_S, STARTUP_S, Cluster
from weft.core.view import Decider
from weft.core.words import counted
from weft.sim.colocation import Occupant, rates_on
from weft.sim.results.run_result import JobTable, Timeline
from weft.sim.simulated_job import Living
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import Speeds, World

NO_OUTAGE = (math.inf, "", math.inf)
SAVED_EVERY_S = 1800.0
"""A job saves itself this often: what it has made since is lost when its node fails."""
MOST_STANDING = 1_000
"""Wake-ups in a row at one and the same time, and nothing else: then something is wrong with the policy."""

REPORT_EVERY = 256
"""Finished jobs between two words to whoever watches the progress."""


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
    """One policy over one trace. `run` once; then `jobs`, `timeline` and `events` tell what happened."""

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
        self._ground = Speeds(world, shaped, self.scheduler.ledger.nodes)
        self._nodes = {node.name: node for node in shaped.nodes}
        can_share = any(node.memory_bytes is not None for node in shaped.nodes)
        self._learns = can_share and whole_policy.learns_from_measures
        self._shares = whole_policy.shares
        self._seed = seed
        self._watch = watch
        self._living: dict[str, Living] = {}
        self._to_come: list[tuple[float, int, int, Living]] = []
        self._to_measure: list[tuple[float, int, int, Living]] = []
        self._to_step: list[tuple[float, int, int, Living]] = []
        """Those that start up, by when they make their first step, and which of its launches that was."""
        self._holders: dict[Device, Living] = {}
        self._disturbed: dict[str, Living] = {}
        """Those beside whom somebody came or went in this instant."""
        self._notes: list[Living] = []
        """Whose progress the scheduler must be told, with the next events."""
        self._wake_at = math.inf
        self._woken_s, self._standing = -math.inf, 0
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
            if coming is None and not self._living:
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
            events = [*(living.progress(now) for living in notes), *events]
        self._carry_out(self.scheduler.handle(events, now), now)
        if self._disturbed:
            disturbed, self._disturbed = self._disturbed, {}
            computing = [living for living in disturbed.values() if living.generation]
            for living in computing:
                living.settle(now)  # all of them first: whose turn it is may depend on what each has had
            for living in computing:
                self._pace_anew(living, now)
        ledger = self.scheduler.ledger
        self._times_s.append(now)
        self._held.append(ledger.devices_held)
        self._waiting.append(ledger.jobs_waiting - len(ledger.seats.seated))

    # ---- what happens

    def _due(self, now: float) -> list[Event]:
        """Completions, then the wake-up, of this instant. Who has next to nothing left to do is done."""
        events: list[Event] = []
        while self._to_come and self._to_come[0][0] <= now + EPSILON_S:
            _, _, version, living = heappop(self._to_come)
            if version == living.version:
                events.append(self._finish(living, now))
        while self._to_step and self._to_step[0][0] <= now + EPSILON_S:
            _, _, launch, living = heappop(self._to_step)
            if launch == living.launches and living.generation:
                if living.paces_from_s > now + EPSILON_S:  # it was paused meanwhile
                    heappush(self._to_step, (living.paces_from_s, living.position, launch, living))
                else:
                    events.append(Stepped(living.spec.id, living.generation))
        while self._to_measure and self._to_measure[0][0] <= now + EPSILON_S:
            _, _, version, living = heappop(self._to_measure)
            if version == living.version:
                events.append(self._measure(living))
        if self._next_outage[0] <= now or (self._repairs and self._repairs[0][0] <= now):
            self._break_and_mend(events, now)
        if self._wake_at <= now:
            self._wake_at = math.inf
            events.append(Woken())
            self._check_time_passes(len(events), now)
        return events

    def _break_and_mend(self, events: list[Event], now: float) -> None:
        """Nodes that come back, and nodes that fail: whoever computes there loses what it has not saved."""
        while self._repairs and self._repairs[0][0] <= now:
            events.append(NodeJoined(self._nodes[heappop(self._repairs)[1]]))
        while self._next_outage[0] <= now:
            _, name, back_s = self._next_outage
            self._next_outage = next(self._outages, NO_OUTAGE)
            heappush(self._repairs, (back_s, name))
            events.append(NodeLost(name))
            nodes = self.scheduler.ledger.nodes
            for living in self._living.values():
                if living.generation and any(nodes[node].name == name for node, _ in living.devices):
                    self._lose(living, now)

    def _lose(self, living: Living, now: float) -> None:
        living.settle(now)
        unsaved_s = min(now - living.started_s, (now - living.started_s) % SAVED_EVERY_S)
        living.steps_left = min(living.steps, living.steps_left + unsaved_s * living.pace)
        living.allocation, living.is_as_reckoned = (), False
        self._pause(living, now)

    def _check_time_passes(self, due: int, now: float) -> None:
        """A policy may want to look again very soon, but not for ever."""
        is_standing = due == 1 and now - self._woken_s <= EPSILON_S
        self._standing, self._woken_s = self._standing + 1 if is_standing else 0, now
        if self._standing > MOST_STANDING:
            raise WeftError(
                f"the policy asks again and again to be woken at {now:g} s, and nothing comes of it",
                "changes_at must be a time at which the key is another one than before",
            )

    def _arrive(self, position: int, job: TraceJob, events: list[Event]) -> None:
        rows, spec = self._rows, self._world.describe(job, self._seed)
        steps = job.duration_s if spec.declared_steps is None else spec.declared_steps
        rows.gang_size[position] = spec.gang_size
        rows.arrival_s[position] = job.arrival_s
        rows.alone_s[position] = steps / self._ground.best_pace(spec)
        if job.duration_s > EPSILON_S:
            self._living[spec.id] = Living(position, spec, steps, self._world.profile(spec, self._seed))
            events.append(Submitted(spec))
        else:  # nothing to do: over before anybody could decide on it
            rows.first_start_s[position] = rows.first_steps_s[position] = rows.finish_s[position] = job.arrival_s
            self._finished += 1

    def _finish(self, living: Living, now: float) -> Event:
        rows, position = self._rows, living.position
        living.settle(now)
        rows.first_start_s[position] = living.first_start_s
        rows.first_steps_s[position] = now if math.isnan(living.first_steps_s) else living.first_steps_s
        rows.finish_s[position] = now
        rows.preemptions[position] = living.preemptions
        generation = living.generation
        self._leave(living, now)
        rows.run_s[position] = living.run_s
        rows.guest_s[position] = living.guest_s
        del self._living[living.spec.id]
        self._finished += 1
        if self._finished % REPORT_EVERY == 0:
            self._watch(self._finished)
        return Finished(living.spec.id, generation)

    def _measure(self, living: Living) -> Event:
        beside = {one.spec.id for device in living.devices for one in self._on(device)} - {living.spec.id}
        noise = self._world.noise(living.spec.id, self._seed, living.version)
        profile = living.profile
        rate_hz, error = living.pace * noise, None
        if not beside:
            living.alone_hz = rate_hz
        elif living.alone_hz is not None:
            error = 0.0  # no other load comes to these machines, so what it made alone before holds for this window
        return Measured(
            living.spec.id,
            living.generation,
            rate_hz,
            profile.utilisation,
            profile.persistent_bytes,
            profile.ephemeral_bytes,
            tuple(sorted(beside)),
            alone_hz=living.alone_hz if beside else None,
            error=error,
        )

    # ---- what is done

    def _carry_out(self, commands: Iterable[Command], now: float) -> None:
        for command in commands:
            match command:
                case Start(job_id, generation, allocation):
                    rule = Occupant(
                        self._living[job_id].profile, command.lane, base=command.base, weight=command.weight
                    )
                    living = self._enter(job_id, generation, allocation, rule, now)
                    self._holders.update(dict.fromkeys(living.devices, living))
                case Seat(job_id, generation, seating):
                    rule = Occupant(
                        self._living[job_id].profile, seating.lane, seating.is_throttled, seating.base, seating.weight
                    )
                    self._enter(job_id, generation, seating.allocation, rule, now).is_guest = True
                case Preempt(job_id) | Unseat(job_id):
                    self._pause(self._living[job_id], now)
                case WakeAt(time_s):
                    self._wake_at = time_s

    def _enter(self, job_id: str, generation: int, allocation: Allocation, rule: Occupant, now: float) -> Living:
        """It computes here from now on, once it has got going."""
        living = self._living[job_id]
        is_launched = living.allocation != allocation
        delay_s = self._delay_s(living, allocation, now)
        is_guest = living.generation > 0
        if is_guest:
            self._leave(living, now)  # it has got devices of its own
        if not living.last_generation:
            living.first_start_s = now
        rate_hz, slowdown = self._ground.pace(living.spec, allocation)
        living.generation = living.last_generation = generation
        living.usual_pace = rate_hz / slowdown
        living.allocation = allocation
        living.join(rule, tuple(devices_of(allocation)), has_computed=is_guest)
        living.is_guest = False
        living.started_s = now
        living.paces_from_s = now + delay_s
        living.is_as_reckoned = slowdown == 1.0 and delay_s == 0.0
        if is_launched:
            self._launch(living, now)
        self._disturbed[job_id] = living
        self._disturb_beside(living)
        return living

    def _delay_s(self, living: Living, allocation: Allocation, now: float) -> float:
        """What it takes to the next step: nothing where it computes already, little where it pauses in memory. One
        that has not started up yet has that still before it."""
        if not living.last_generation:
            return self._world.startup_s
        if living.allocation != allocation:
            return self._world.preemption_s
        if living.generation:
            return max(0.0, living.paces_from_s - now)
        return living.startup_left_s + self._world.pause_s

    def _launch(self, living: Living, now: float) -> None:
        """Until its first step it starts up."""
        living.launches += 1
        if living.paces_from_s > now:
            self.scheduler.record([Launched(living.spec.id, living.generation, STARTUP_S)], now)
            heappush(self._to_step, (living.paces_from_s, living.position, living.launches, living))

    def _pause(self, living: Living, now: float) -> None:
        living.preemptions += 1
        self._leave(living, now)
        if not living.is_as_reckoned:
            self._notes.append(living)
        if len(self._to_come) > 64 + 2 * len(self._living):
            self._to_come = [item for item in self._to_come if item[2] == item[3].version]
            heapify(self._to_come)

    def _leave(self, living: Living, now: float) -> None:
        """It computes no more where it was."""
        living.settle(now)
        living.startup_left_s = max(0.0, living.paces_from_s - now)
        living.run_s += now - living.started_s
        if living.is_guest:
            living.guest_s += now - living.started_s
        living.generation = 0
        living.version += 1  # what was to come of it is stale
        for device in living.devices:
            if self._holders.get(device) is living:
                del self._holders[device]
        self._disturb_beside(living)

    def _disturb_beside(self, living: Living) -> None:
        if self._shares:
            for device in living.devices:
                for one in self._on(device):
                    self._disturbed[one.spec.id] = one

    def _on(self, device: Device) -> list[Living]:
        """Who computes on a device: its holder first, then its guests."""
        guests = [
            self._living[job.id] for job in self.scheduler.ledger.seats.guests.get(device, ()) if job.id in self._living
        ]
        return [self._holders[device], *guests] if device in self._holders else guests

    def _pace_anew(self, living: Living, now: float) -> None:
        """Its pace from now on, among those that are there now."""
        pace = living.usual_pace * min((self._rate_on(device, living) for device in living.devices), default=1.0)
        living.is_as_reckoned = living.is_as_reckoned and pace == living.usual_pace
        living.pace = pace
        living.version += 1
        heappush(self._to_come, (living.ends_s, living.position, living.version, living))
        if self._learns:
            measured_s = max(now, living.paces_from_s) + self._world.measure_s
            heappush(self._to_measure, (measured_s, living.position, living.version, living))

    def _rate_on(self, device: Device, living: Living) -> float:
        here = self._on(device)
        if len(here) == 1:
            return 1.0
        kind = self.scheduler.ledger.nodes[device[0]].device_type
        occupants = [one.as_occupant.after(one.turned_s) for one in here]
        rates = rates_on(kind, occupants, self._world.interference, self._world.held_back)
        return rates[here.index(living)]

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
        if self._living:
            job_id = next(iter(self._living))
            now = self._times_s[-1]
            raise WeftError(
                f"the policy leaves {counted(len(self._living), 'job')} waiting for ever, {job_id} among them: "
                f"{self.scheduler.reason(job_id, now)}",
                "a policy must start every job at some time, or ask to be woken",
            )
