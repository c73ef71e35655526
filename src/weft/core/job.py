"""A live job: its description and its state. Only the ledger writes it.

A job that holds devices is running. One that waits may be a guest meanwhile: it has a seat, and computes, on devices
that it does not hold.
"""

from __future__ import annotations

import math

from weft.core.commands import Allocation, Seating
from weft.core.errors import IllegalEventError
from weft.core.events import Measured
from weft.core.reasons import Code, Reason
from weft.core.sharing import Memory
from weft.core.transitions import PENDING, RUNNING, TRANSITIONS, State
from weft.core.values import JobSpec

NOTHING: Allocation = ()


class Job:
    """One live job. A record for speed, not a value: only the ledger assigns to it."""

    __slots__ = (
        "allocation",
        "alone",
        "alone_on",
        "arrival_s",
        "best_rate_hz",
        "declared_steps",
        "first_start_s",
        "first_wait_s",
        "gang_size",
        "generation",
        "holds",
        "id",
        "is_reordered",
        "is_running",
        "is_waiting",
        "lane",
        "last_allocation",
        "measured",
        "rate_hz",
        "seating",
        "served_from_s",
        "settled_run_s",
        "settled_startup_s",
        "settled_steps",
        "settled_wait_s",
        "since_s",
        "spec",
        "speed",
        "startup_left_s",
        "state",
        "tenant",
        "tie",
    )

    def __init__(self, spec: JobSpec, serial: int, now: float, best_rate_hz: float) -> None:
        self.spec = spec
        self.id = spec.id
        self.gang_size = spec.gang_size
        self.tenant = spec.tenant
        self.arrival_s = now
        self.tie = (now, serial)  # order of arrival; the jobs of a tenant with priorities exchange theirs
        self.is_reordered = False
        self.state = PENDING
        self.is_running = False
        self.is_waiting = True
        self.declared_steps = math.inf if spec.declared_steps is None else spec.declared_steps
        self.generation = 0
        self.allocation = NOTHING
        self.last_allocation = NOTHING
        self.seating: Seating | None = None
        self.lane = 0  # in which it takes turns on the devices it holds; 0 for none
        self.speed = 0.0  # what part of its devices' time it has: all if it holds them, some as a guest, else none
        self.measured: Measured | None = None
        self.alone: Measured | None = None  # as last measured alone on its devices
        self.alone_on = ("", 0)  # the device type, and over how many nodes it was spread then: elsewhere it is another
        self.holds: tuple[Reason, ...] = ()
        self.since_s = now
        self.served_from_s = now  # while it computes: from when on it is charged; later than now while it starts up
        self.startup_left_s = 0.0  # as of since_s: how much longer its attempt may take to its first step
        self.first_start_s = math.inf
        self.first_wait_s = 0.0  # how long it had waited when it first started
        self.best_rate_hz = best_rate_hz
        self.rate_hz = best_rate_hz
        self.settled_run_s = 0.0
        self.settled_startup_s = 0.0
        self.settled_wait_s = 0.0
        self.settled_steps = 0.0

    def __repr__(self) -> str:
        return (
            f"Job({self.id}: {self.state} since {self.since_s:g} s, lease {self.generation}, gang {self.gang_size}, "
            f"ran {self.settled_run_s:g} s before)"
        )

    def enter(self, state: State) -> None:
        """Enter a state. The two most asked for are kept as plain booleans, which is quicker."""
        self.state = state
        self.is_running = state is RUNNING
        self.is_waiting = state is PENDING

    def after(self, cause: type) -> State:
        """The state after such an event or command; raises if it does not fit the present one."""
        after = TRANSITIONS.get((self.state, cause))
        if after is None:
            raise IllegalEventError(f"{cause.__name__} does not fit {self!r}")
        return after

    @property
    def held_for(self) -> set[Code]:
        """Why it is not to start yet; empty if it is not held."""
        return {hold.code for hold in self.holds}

    @property
    def is_computing(self) -> bool:
        """Whether it holds devices or is a guest on some."""
        return self.is_running or self.seating is not None

    @property
    def seated_nodes(self) -> frozenset[int]:
        """The nodes on which it is a guest."""
        return frozenset(node for node, _ in (self.seating.allocation if self.seating else ()))

    @property
    def memory(self) -> Memory | None:
        """Per device: as measured, or else as declared; None while neither is known.

        What is declared is a bound on everything, and none of it is known to go away between steps.
        """
        seen = self.measured
        if seen is not None and seen.persistent_bytes is not None and seen.ephemeral_bytes is not None:
            return Memory(seen.persistent_bytes, seen.ephemeral_bytes)
        declared_bytes = self.spec.memory_bytes
        return None if declared_bytes is None else Memory(declared_bytes // self.gang_size, 0)

    def is_starting(self, now: float) -> bool:
        """Whether it computes and its attempt has made no step yet, within the time allowed for start-up."""
        return now < self.served_from_s and self.speed > 0.0

    @property
    def startup_kept_until_s(self) -> float:
        """Until when its start-up protects it from being preempted. A start-up is cut short only for a job that has
        computed longer than it has started up, all leases: so each comes to compute, whatever else is launched."""
        return self.served_from_s if self.settled_startup_s >= self.settled_run_s else self.since_s

    def served_elapsed_s(self, now: float) -> float:
        """The time of its present lease that counts as service."""
        return now - self.served_from_s if now > self.served_from_s else 0.0

    def run_s(self, now: float) -> float:
        """How long it has computed on devices, all leases, start-ups left out; time as a guest counts by what part of
        them it had. This is what it is charged."""
        return self.settled_run_s + self.speed * self.served_elapsed_s(now)

    def held_s(self, now: float) -> float:
        """The same with its start-ups: what users see and what a time limit counts."""
        started_s = self.settled_startup_s + self.speed * (min(now, self.served_from_s) - self.since_s)
        return self.run_s(now) + started_s

    def wait_s(self, now: float) -> float:
        """How long it has waited: the one definition, live and simulated. All the time since it was submitted in which
        it had no devices, neither its own nor as a guest, and nothing held it: not its owner, a job it comes after, the
        limit of its array or a back-off. Waits after a preemption count.
        """
        if self.is_waiting and not self.speed:
            return self.settled_wait_s + (now - self.since_s)
        return self.settled_wait_s

    def attained(self, now: float) -> float:
        """Its attained service in device-seconds."""
        if now <= self.served_from_s:
            return self.gang_size * self.settled_run_s
        return self.gang_size * (self.settled_run_s + self.speed * (now - self.served_from_s))

    def charged_from_s(self, now: float) -> float:
        """When charging would begin if it computed from now on, as far as is known."""
        return self.served_from_s if self.served_from_s > now else now

    def steps_done(self, now: float) -> float:
        """Steps done: as measured when last reported, reckoned by its known rate since."""
        return self.settled_steps + self.speed * self.served_elapsed_s(now) * self.rate_hz

    def remaining_s(self, now: float) -> float:
        """Seconds to its declared end where it runs, or on its best type; infinite for a job that declares none."""
        return max(0.0, self.declared_steps - self.steps_done(now)) / self.rate_hz

    def remaining_at_best_s(self, now: float) -> float:
        """Seconds to its declared end on its best type, wherever it runs: starting or stopping does not change it."""
        left = self.declared_steps - self.steps_done(now)
        return left / self.best_rate_hz if left > 0.0 else 0.0
