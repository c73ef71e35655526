"""The simulator's driver: a heap of things to come, the model of the world, and the same scheduler as live."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from weft.core.commands import Command, Preempt, Start, WakeAt
from weft.core.errors import WeftError
from weft.core.events import Event, Finished, Progressed, Submitted, Woken
from weft.core.scheduler import Scheduler
from weft.core.values import EPSILON_S, Cluster, JobSpec
from weft.core.view import Decider
from weft.sim.result import JobTable, Timeline
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import Ground, World

MOST_STANDING = 1_000
"""Wake-ups in a row at one and the same time, and nothing else: then something is wrong with the policy."""

REPORT_EVERY = 256
"""Finished jobs between two words to whoever watches the progress."""


class Living:
    """A job that has arrived and is not over: what is true of it, beside what the scheduler knows."""

    __slots__ = (
        "first_start_s",
        "generation",
        "is_as_reckoned",
        "last_generation",
        "pace",
        "paces_from_s",
        "position",
        "preemptions",
        "run_s",
        "spec",
        "started_s",
        "steps",
        "steps_left",
    )

    def __init__(self, position: int, spec: JobSpec, steps: float) -> None:
        self.position = position
        self.spec = spec
        self.steps = steps
        self.steps_left = steps
        self.generation = 0  # of the lease it holds; 0 while it holds none
        self.last_generation = 0
        self.preemptions = 0
        self.run_s = 0.0
        self.first_start_s = math.nan
        self.started_s = 0.0
        self.paces_from_s = 0.0
        """From when on this attempt makes progress."""
        self.pace = 1.0
        self.is_as_reckoned = True
        """Whether the scheduler, which knows only the usual rate, reckons its progress right."""

    def progress(self, now: float) -> Progressed:
        """How far it has come by now."""
        made = max(0.0, now - self.paces_from_s) * self.pace if self.generation else 0.0
        return Progressed(self.spec.id, self.last_generation, self.steps - self.steps_left + made)


class Rows:
    """One entry a job in each column. Arrays, because setting single numbers in numpy's takes twice as long."""

    def __init__(self, jobs: int) -> None:
        self.arrival_s, self.first_start_s, self.finish_s, self.run_s, self.alone_s = (
            array("d", bytes(8 * jobs)) for _ in range(5)
        )
        self.gang_size, self.preemptions = (array("q", bytes(8 * jobs)) for _ in range(2))

    def table(self, trace: Trace) -> JobTable:
        columns = {name: np.asarray(column) for name, column in vars(self).items()}
        return JobTable(ids=trace.ids, tenants=trace.tenants_by_job, **columns)


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
    ) -> None:
        shaped = world.shape(cluster)
        self.scheduler = Scheduler(shaped, policy)
        self.events = 0
        self._trace = trace
        self._world = world
        self._ground = Ground(world, shaped)
        self._seed = seed
        self._watch = watch
        self._living: dict[str, Living] = {}
        self._to_come: list[tuple[float, int, int, Living]] = []
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
            now = min(arrival_s, self._to_come[0][0] if self._to_come else math.inf, self._wake_at)
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
        ledger = self.scheduler.ledger
        self._times_s.append(now)
        self._held.append(ledger.devices_held)
        self._waiting.append(ledger.jobs_waiting)

    # ---- what happens

    def _due(self, now: float) -> list[Event]:
        """Completions, then the wake-up, of this instant. Who has next to nothing left to do is done."""
        events: list[Event] = []
        while self._to_come and self._to_come[0][0] <= now + EPSILON_S:
            _, _, generation, living = heappop(self._to_come)
            if generation == living.generation:
                events.append(self._finish(living, now))
        if self._wake_at <= now:
            self._wake_at = math.inf
            events.append(Woken())
            self._check_time_passes(len(events), now)
        return events

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
            self._living[spec.id] = Living(position, spec, steps)
            events.append(Submitted(spec))
        else:  # nothing to do: over before anybody could decide on it
            rows.first_start_s[position] = rows.finish_s[position] = job.arrival_s
            self._finished += 1

    def _finish(self, living: Living, now: float) -> Event:
        rows, position = self._rows, living.position
        rows.first_start_s[position] = living.first_start_s
        rows.finish_s[position] = now
        rows.run_s[position] = living.run_s + now - living.started_s
        rows.preemptions[position] = living.preemptions
        del self._living[living.spec.id]
        self._finished += 1
        if self._finished % REPORT_EVERY == 0:
            self._watch(self._finished)
        generation, living.generation = living.generation, 0
        return Finished(living.spec.id, generation)

    # ---- what is done

    def _carry_out(self, commands: Iterable[Command], now: float) -> None:
        for command in commands:
            match command:
                case Start():
                    self._start(command, now)
                case Preempt():
                    self._preempt(command, now)
                case WakeAt():
                    self._wake_at = command.time_s

    def _start(self, command: Start, now: float) -> None:
        living = self._living[command.job_id]
        rate_hz, slowdown = self._ground.pace(living.spec, command.allocation)
        delay_s = self._world.preemption_s if command.generation > 1 else 0.0
        if command.generation == 1:
            living.first_start_s = now
        living.generation = living.last_generation = command.generation
        living.pace = rate_hz / slowdown
        living.started_s = now
        living.paces_from_s = now + delay_s
        living.is_as_reckoned = slowdown == 1.0 and delay_s == 0.0
        ends_s = living.paces_from_s + living.steps_left / living.pace
        heappush(self._to_come, (ends_s, living.position, living.generation, living))

    def _preempt(self, command: Preempt, now: float) -> None:
        living = self._living[command.job_id]
        living.steps_left -= max(0.0, now - living.paces_from_s) * living.pace
        living.run_s += now - living.started_s
        living.preemptions += 1
        living.generation = 0  # what was to come of it is stale
        if not living.is_as_reckoned:
            self._notes.append(living)
        if len(self._to_come) > 64 + 2 * len(self.scheduler.ledger.running):
            self._to_come = [item for item in self._to_come if item[2] == item[3].generation]
            heapify(self._to_come)

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
                f"the policy leaves {len(self._living)} jobs waiting for ever, {job_id} among them: "
                f"{self.scheduler.reason(job_id, now)}",
                "a policy must start every job at some time, or ask to be woken",
            )
