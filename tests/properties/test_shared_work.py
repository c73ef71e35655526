"""Where jobs share devices: at every instant each has the pace that those beside it leave it, and no work is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_helpers import CLUSTERS, POLICIES, SHARED, Variant, build, decisions, label, steady, variants_of

from weft.core.commands import Seat, Unseat
from weft.core.events import Event
from weft.core.sharing import Device, devices_of
from weft.core.values import Cluster, JobSpec, Node
from weft.sim.colocation import rates_on
from weft.sim.engine import Simulation
from weft.sim.simulated_job import SimulatedJob
from weft.sim.trace import Trace, TraceJob

SHARING = [variant for name in POLICIES for variant in variants_of(name) if build(variant).share is not None]

CROWDED = Cluster((Node("n0", 2), Node("n1", 1)))


@st.composite
def crowds(draw: st.DrawFn) -> list[TraceJob]:
    """Many jobs at once on few devices, long enough to be measured, to wait, and to sit beside each other."""
    jobs = []
    for i in range(draw(st.integers(4, 10))):
        duration_s = draw(st.integers(20, 200)) * 1.0
        gang_size = draw(st.sampled_from((1, 1, 1, 2)))
        spec = JobSpec(
            f"j{i}",
            gang_size,
            declared_steps=duration_s,
            memory_bytes=draw(st.sampled_from((None, 10, 30, 45))),
            may_share=draw(st.integers(0, 9)) > 0,
        )
        jobs.append(TraceJob(spec, draw(st.integers(0, 60)) * 1.0 if i else 0.0, duration_s))
    return jobs


class Watched(Simulation):
    """Adds up what each job makes, by who is beside it according to the ledger."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made: dict[str, float] = {}
        self.paces: dict[str, tuple[float, float]] = {}
        self.last_s = 0.0
        self.seats = self.unseats = 0

    def _step(self, events: list[Event], now: float) -> None:
        for job_id, (pace, from_s) in self.paces.items():
            self.made[job_id] = self.made.get(job_id, 0.0) + pace * max(0.0, now - max(self.last_s, from_s))
        super()._step(events, now)
        self.scheduler.ledger.validate()
        self.last_s = now
        self.paces = {job.id: self._expected(self._live_jobs[job.id]) for job in self._computing()}
        assert {each.spec.id for each in self._live_jobs.values() if each.generation} == self.paces.keys()

    def _carry_out(self, commands: Any, now: float) -> None:
        self.seats += sum(isinstance(command, Seat) for command in commands)
        self.unseats += sum(isinstance(command, Unseat) for command in commands)
        super()._carry_out(commands, now)

    def _computing(self) -> list[Any]:
        return [job for job in self.scheduler.ledger.jobs.values() if job.is_computing]

    def _expected(self, living: SimulatedJob) -> tuple[float, float]:
        rate = min(self._rate_there(device, living) for device in living.devices)
        assert living.pace == pytest.approx(rate * living.usual_pace, rel=1e-9)
        return living.pace, living.paces_from_s

    def _rate_there(self, device: Device, living: SimulatedJob) -> float:
        there = [
            self._live_jobs[job.id]
            for job in sorted(self._computing(), key=lambda job: not job.is_running)
            if device in devices_of(job.seating.allocation if job.seating else job.allocation)
        ]
        kind = self.scheduler.ledger.nodes[device[0]].device_type
        occupants = [one.as_occupant.after(one.turned_s) for one in there]
        return rates_on(kind, occupants, SHARED.interference)[there.index(living)]


@pytest.mark.parametrize("variant", SHARING, ids=label)
@given(data=st.data())
@steady(10)
def test_what_a_job_makes_beside_others_adds_up_to_its_work(variant: Variant, data: st.DataObject) -> None:
    jobs = data.draw(crowds())
    simulation = Watched(Trace.of(jobs), CROWDED, build(variant), SHARED)
    simulation.run()
    assert simulation.made == pytest.approx({job.spec.id: job.spec.declared_steps for job in jobs}, rel=1e-6)


@pytest.mark.parametrize("variant", SHARING, ids=label)
def test_seats_are_taken_and_left_in_such_a_crowd(variant: Variant) -> None:
    """Else the test above says nothing."""
    jobs = [
        TraceJob(JobSpec(f"j{i}", declared_steps=100.0 + i, memory_bytes=30), 5.0 * i, 100.0 + i) for i in range(12)
    ]
    simulation = Watched(Trace.of(jobs), CROWDED, build(variant), SHARED)
    simulation.run()
    assert simulation.seats


@pytest.mark.parametrize("variant", SHARING, ids=label)
@given(data=st.data())
@steady(4)
def test_the_same_crowd_is_served_in_the_same_way_again(variant: Variant, data: st.DataObject) -> None:
    cluster = data.draw(CLUSTERS)
    jobs = [job for job in data.draw(crowds()) if job.spec.gang_size <= cluster.largest_gang(job.spec)]
    _, log = decisions(jobs, cluster, build(variant), SHARED)
    _, again = decisions(jobs, cluster, build(variant), SHARED)
    assert again == log
