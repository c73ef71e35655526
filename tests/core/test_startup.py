"""From its launch to its first step an attempt starts up: it is not charged, and nobody takes its devices."""

from __future__ import annotations

import json

import pytest
from core_helpers import Make, Script, eviction, grant, preempted, running, submitted

from weft.core.errors import IllegalEventError
from weft.core.events import Finished, Launched, Lost, Measured, Stepped, Woken
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.snapshot import restored, snapshot
from weft.core.values import JobClass
from weft.policies.registry import POLICIES

PREEMPTING = {
    "las": {"quantum_s": 5.0},
    "tiresias-l": {"thresholds": (5.0,)},
    "tiresias-g": {"thresholds": (5.0,)},
    "fair": {"quantum_s": 5.0},
    "gandiva": {"quantum_s": 5.0},
    "weft": {"thresholds": (5.0, 20.0)},
}
"""All that take devices from jobs that have run longer than others."""


def launched(make: Make, startup_s: float = 120.0) -> Scheduler:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2, tenant="x")], 0.0)
    scheduler.handle([Launched("a", 1, startup_s)], 0.0)
    return scheduler


def test_start_up_is_not_charged_to_the_job_nor_to_its_tenant(make: Make) -> None:
    scheduler = launched(make)
    job, tenants = scheduler.ledger.jobs["a"], scheduler.ledger.tenants
    assert job.is_starting(30.0)
    scheduler.handle([Stepped("a", 1)], 30.0)
    assert not job.is_starting(30.0)
    assert (job.attained(40.0), job.run_s(40.0), job.held_s(40.0)) == (20.0, 10.0, 40.0)
    assert tenants.attained("x", 40.0) == 20.0
    assert job.steps_done(40.0) == 10.0


def test_a_job_that_makes_no_step_is_charged_once_the_time_for_that_is_over(make: Make) -> None:
    scheduler = launched(make, startup_s=50.0)
    job = scheduler.ledger.jobs["a"]
    assert (job.attained(50.0), job.attained(60.0)) == (0.0, 20.0)
    assert scheduler.ledger.tenants.attained("x", 60.0) == 20.0
    scheduler.handle([Stepped("a", 1)], 60.0)
    assert job.attained(60.0) == 20.0


def test_whoever_is_measured_has_made_steps(make: Make) -> None:
    scheduler = launched(make)
    scheduler.handle([Measured("a", 1, 2.0, 0.5, None, None)], 30.0)
    assert not scheduler.ledger.jobs["a"].is_starting(30.0)


def test_a_pause_before_the_first_step_leaves_the_rest_of_the_start_up(make: Make) -> None:
    script = Script(Plan([grant("a", (0, 1))]), Plan(), Plan(evictions=[eviction("a")]), Plan([grant("a", (0, 1))]))
    scheduler = make(script, 1)
    for now, events in ((0.0, [submitted("a")]), (0.0, [Launched("a", 1, 100.0)]), (30.0, []), (50.0, [])):
        scheduler.handle(events, now)
    job = scheduler.ledger.jobs["a"]
    assert (job.startup_left_s, job.held_s(50.0), job.wait_s(50.0)) == (70.0, 30.0, 20.0)
    assert job.is_starting(119.0)
    assert job.run_s(125.0) == 5.0


def test_a_step_that_was_made_on_the_way_to_a_pause_ends_the_start_up(make: Make) -> None:
    script = Script(
        Plan([grant("a", (0, 1))]), Plan(), Plan(evictions=[eviction("a")]), Plan(), Plan([grant("a", (0, 1))])
    )
    scheduler = make(script, 1)
    for now, events in (
        (0.0, [submitted("a")]),
        (0.0, [Launched("a", 1, 100.0)]),
        (30.0, []),
        (31.0, [Stepped("a", 1)]),
    ):
        scheduler.handle(events, now)
    scheduler.handle([], 40.0)
    assert running(scheduler) == {"a"}
    assert scheduler.ledger.jobs["a"].run_s(45.0) == 5.0


def test_who_is_launched_over_and_over_is_charged_in_the_end(make: Make) -> None:
    """In all it is excused for so long, and for as much as it has been charged."""
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    for attempt in range(1, 9):
        now = 100.0 * (attempt - 1)
        job = scheduler.ledger.jobs["a"]
        scheduler.handle([Launched("a", job.generation, 120.0)], now)
        scheduler.handle([Lost("a", job.generation)], now + 100.0)
    job = scheduler.ledger.jobs["a"]
    assert job.held_s(800.0) == 800.0
    assert job.run_s(800.0) >= (800.0 - 120.0) / 2
    again = launched(make)
    again.handle([Stepped("a", 1)], 8.0)
    again.handle([Launched("a", 1, 120.0)], 1000.0)  # one that has run gets all of it once more
    assert again.ledger.jobs["a"].is_starting(1119.0)


def test_nothing_is_excused_of_a_start_up_when_little_is_left(make: Make) -> None:
    """Each end of a start-up is a decision: the clock would not advance if they were microseconds long."""
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    now = 0.0
    for _ in range(20):
        job = scheduler.ledger.jobs["a"]
        scheduler.handle([Launched("a", job.generation, 120.0)], now)
        assert job.served_from_s == now or job.served_from_s >= now + 12.0
        now += 90.0
        scheduler.handle([Lost("a", job.generation)], now)


def test_words_of_an_older_lease_are_late_and_nonsense_is_refused(make: Make) -> None:
    scheduler = launched(make)
    scheduler.handle([Stepped("a", 0), Launched("a", 0, 5.0), Stepped("gone", 1)], 10.0)
    assert scheduler.ledger.jobs["a"].is_starting(100.0)
    with pytest.raises(IllegalEventError):
        scheduler.handle([Launched("a", 1, float("inf"))], 11.0)
    assert scheduler.ledger.jobs["a"].is_starting(100.0)


def test_a_snapshot_knows_of_start_ups(make: Make) -> None:
    scheduler = launched(make)
    scheduler.handle([submitted("b")], 3.0)
    for now in (10.0, 130.0):
        again = restored(json.loads(json.dumps(snapshot(scheduler.ledger))))
        job = again.jobs["a"]
        assert (job.is_starting(10.0), job.attained(now)) == (True, scheduler.ledger.jobs["a"].attained(now))
        assert again.tenants.attained("x", now) == scheduler.ledger.tenants.attained("x", now)
    taken = json.loads(json.dumps(snapshot(scheduler.ledger)))
    for fields in taken["jobs"]:  # as it was written before there were start-ups
        for name in ("served_from_s", "startup_left_s", "settled_startup_s"):
            fields.pop(name, None)
    assert restored(taken).jobs["a"].attained(10.0) == 20.0


# ---- policies


def two_want_one_device(make: Make, name: str) -> Scheduler:
    """Job a is launched, and job b has come after it."""
    scheduler = make(name, 1, **PREEMPTING[name])
    scheduler.handle([submitted("a", tenant="x")], 0.0)
    scheduler.handle([Launched("a", 1, 120.0)], 0.0)
    scheduler.handle([submitted("b", tenant="y")], 1.0)
    return scheduler


def pass_time(scheduler: Scheduler, since_s: int, until_s: int) -> list[str]:
    found: list[str] = []
    for now in range(since_s, until_s):
        found += preempted(scheduler.handle([Woken()], float(now)))
    return found


@pytest.mark.parametrize("name", PREEMPTING)
def test_nobody_is_preempted_before_its_first_step(make: Make, name: str) -> None:
    scheduler = two_want_one_device(make, name)
    assert pass_time(scheduler, 2, 100) == []
    assert str(scheduler.reason("b", 99.0))
    scheduler.handle([Stepped("a", 1)], 100.0)
    assert pass_time(scheduler, 100, 120)[:1] == ["a"]


@pytest.mark.parametrize("name", PREEMPTING)
def test_who_never_makes_a_step_is_preempted_when_its_time_for_that_is_over(make: Make, name: str) -> None:
    assert pass_time(two_want_one_device(make, name), 2, 150)[:1] == ["a"]


@pytest.mark.parametrize("name", PREEMPTING)
def test_when_one_that_starts_up_ends_the_next_gets_its_devices(make: Make, name: str) -> None:
    scheduler = two_want_one_device(make, name)
    scheduler.handle([Finished("a", 1)], 2.0)
    assert running(scheduler) == {"b"}


@pytest.mark.parametrize("name", ["weft", "antman"])
@pytest.mark.parametrize("from_scratch", [False, True])
def test_a_guaranteed_job_takes_the_devices_of_one_that_starts_up_if_no_others_do(
    make: Make, name: str, from_scratch: bool
) -> None:
    from plans import from_scratch as plain

    policy = plain(POLICIES[name]()) if from_scratch else POLICIES[name]()
    scheduler = make(policy, 2)
    scheduler.ledger.tenants.quotas = {"x": 2}
    guests = [submitted(job_id, tenant="y", job_class=JobClass.OPPORTUNISTIC) for job_id in ("old", "new")]
    scheduler.handle(guests, 0.0)
    scheduler.handle([Launched("new", 1, 120.0)], 0.0)
    guaranteed = [submitted(job_id, tenant="x", job_class=JobClass.GUARANTEED) for job_id in ("g1", "g2")]
    assert preempted(scheduler.handle(guaranteed[:1], 30.0)) == ["old"]
    assert preempted(scheduler.handle(guaranteed[1:], 31.0)) == ["new"]
    assert running(scheduler) == {"g1", "g2"}


def test_who_waits_is_told_that_a_job_starts_up(make: Make) -> None:
    scheduler = make("las", 1, quantum_s=5.0)
    scheduler.handle([submitted("long")], 0.0)
    scheduler.handle([Launched("long", 1, 120.0)], 0.0)
    scheduler.handle([Stepped("long", 1)], 10.0)
    scheduler.handle([Launched("long", 1, 120.0)], 15.0)  # its attempt was lost, say, and the next one launched
    scheduler.handle([submitted("new")], 30.0)
    assert "long is starting up and keeps its devices" in str(scheduler.reason("new", 30.0))
    assert preempted(scheduler.handle([Stepped("long", 1)], 40.0)) == ["long"]


def test_a_start_up_is_cut_short_only_for_a_job_that_has_computed_longer_than_it_has_started_up(make: Make) -> None:
    scheduler = make("las", 1, quantum_s=5.0)
    scheduler.handle([submitted("long")], 0.0)
    scheduler.handle([Launched("long", 1, 120.0)], 0.0)
    scheduler.handle([Stepped("long", 1)], 10.0)
    scheduler.handle([Launched("long", 1, 120.0)], 21.0)  # 10 s of start-up, 11 of service
    assert preempted(scheduler.handle([submitted("new")], 30.0)) == ["long"]
    scheduler.handle([Finished("new", 1)], 31.0)
    scheduler.handle([Launched("long", 2, 120.0)], 31.0)  # 19 s of start-up by now
    assert preempted(scheduler.handle([submitted("next")], 40.0)) == []
