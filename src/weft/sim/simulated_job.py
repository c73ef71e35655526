"""A simulated job that has arrived and is not over: its true state, of which the scheduler knows a part."""

from __future__ import annotations

import math

from weft.core.events import Progressed
from weft.core.sharing import Device
from weft.core.values import JobSpec
from weft.sim.colocation import Occupant, Profile

FIRST_STEPS = 100.0
"""Steps after which a job counts as having shown a first result: the table says how long that took."""


class SimulatedJob:
    """It computes while it has devices, held or as a guest, at a pace that holds until its surroundings change."""

    __slots__ = (
        "allocation",
        "alone_hz",
        "as_occupant",
        "devices",
        "first_start_s",
        "first_steps_s",
        "generation",
        "guest_s",
        "is_as_reckoned",
        "is_guest",
        "last_generation",
        "launches",
        "pace",
        "paces_from_s",
        "position",
        "preemptions",
        "profile",
        "run_s",
        "spec",
        "started_s",
        "startup_left_s",
        "steps",
        "steps_left",
        "turned_s",
        "usual_pace",
        "version",
    )

    def __init__(self, position: int, spec: JobSpec, steps: float, profile: Profile) -> None:
        self.position = position
        self.spec = spec
        self.profile = profile
        self.steps = steps
        self.steps_left = steps
        self.generation = 0  # of the lease it holds; 0 while it holds none
        self.last_generation = 0
        self.launches = 0
        self.startup_left_s = 0.0  # of what it takes to the next step, when it was last paused
        self.version = 0  # rises with every change of its pace: what was to come of it is stale then
        self.preemptions = 0
        self.run_s = 0.0
        self.guest_s = 0.0  # of it, as a guest
        self.is_guest = False
        self.first_start_s = math.nan
        self.first_steps_s = math.nan
        self.started_s = 0.0
        self.paces_from_s = 0.0  # what it made before is settled
        self.pace = 1.0
        self.alone_hz: float | None = None  # as last measured without neighbours
        self.usual_pace = 1.0  # where it is, without neighbours
        self.allocation: object = ()
        self.devices: tuple[Device, ...] = ()
        self.as_occupant = Occupant(profile)
        self.turned_s = 0.0  # how much of its turns it has had since it is in its lane
        self.is_as_reckoned = True
        """Whether the scheduler, which knows only the usual rate, computes its progress correctly."""

    def settle(self, now: float) -> None:
        """Subtract the steps made since its pace last changed from those left."""
        made = (now - self.paces_from_s) * self.pace
        if made <= 0.0:
            return
        done = self.steps - self.steps_left
        if done < FIRST_STEPS <= done + made:
            self.first_steps_s = self.paces_from_s + (FIRST_STEPS - done) / self.pace
        self.steps_left -= made
        self.paces_from_s = now
        self.turned_s += made / self.usual_pace

    def join(self, rule: Occupant, devices: tuple[Device, ...], *, has_computed: bool) -> None:
        """It computes under this rule, on these devices. A guest that is granted those it sits on stays in its lane."""
        if not has_computed or devices != self.devices or rule.lane != self.as_occupant.lane:
            self.turned_s = 0.0
        self.devices, self.as_occupant = devices, rule

    def progress(self, now: float) -> Progressed:
        """Its progress by now."""
        made = max(0.0, now - self.paces_from_s) * self.pace if self.generation else 0.0
        return Progressed(self.spec.id, self.last_generation, self.steps - self.steps_left + made)

    @property
    def ends_s(self) -> float:
        return self.paces_from_s + self.steps_left / self.pace
