"""What the ledger reckons of a job: progress, service, waiting."""

from __future__ import annotations

import math

import pytest
from core_helpers import Make, Script, eviction, grant, submitted

from weft.core.events import Finished, Progressed
from weft.core.plan import Plan
from weft.core.values import Node


def test_progress_is_reckoned_by_the_known_rate_of_the_type(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (1, 1))])), Node("n0", 1, "fast"), Node("n1", 1, "slow"))
    job_on = {"declared_steps": 100.0, "step_rate_hz": {"fast": 4.0, "slow": 0.5}}
    scheduler.handle([submitted("a", **job_on), submitted("b", **job_on)], 0.0)
    jobs = scheduler.ledger.jobs
    assert jobs["a"].steps_done(20.0) == 10.0
    assert jobs["a"].remaining_s(20.0) == 180.0
    assert jobs["b"].remaining_s(20.0) == 25.0  # of its best type, while it waits


def test_measured_progress_replaces_what_was_reckoned(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a", declared_steps=100.0)], 0.0)
    scheduler.handle([Progressed("a", 1, 4.0)], 10.0)
    job = scheduler.ledger.jobs["a"]
    assert job.steps_done(10.0) == 4.0
    assert job.steps_done(16.0) == 10.0
    assert job.remaining_s(16.0) == 90.0


def test_progress_of_a_waiting_job_stays_as_measured(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")])), 1)
    scheduler.handle([submitted("a", declared_steps=100.0)], 0.0)
    scheduler.handle([], 10.0)
    scheduler.handle([Progressed("a", 1, 7.0)], 11.0)
    assert scheduler.ledger.jobs["a"].steps_done(50.0) == 7.0


def test_progress_of_a_job_that_is_over_is_dropped(make: Make) -> None:
    scheduler = make("fifo", 1)
    assert scheduler.handle([Progressed("nobody", 1, 4.0)], 10.0) == []


def test_a_job_that_declares_nothing_has_no_end_in_sight(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    assert scheduler.ledger.jobs["a"].remaining_s(1.0) == math.inf


def test_service_is_device_seconds_over_all_attempts(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 2))]), Plan([], [eviction("a")]), Plan([grant("a", (0, 2))])), 2)
    scheduler.handle([submitted("a", 2)], 0.0)
    scheduler.handle([], 10.0)
    scheduler.handle([], 14.0)
    job = scheduler.ledger.jobs["a"]
    assert (job.run_s(20.0), job.wait_s(20.0), job.attained(20.0)) == (16.0, 4.0, 32.0)
    assert job.first_start_s == 0.0


def test_a_tenant_has_what_all_its_jobs_had_and_keeps_it(make: Make) -> None:
    scheduler = make("fifo", 4)
    scheduler.handle([submitted("a", 2, tenant="ada"), submitted("b", 1, tenant="bo")], 0.0)
    scheduler.handle([submitted("c", 1, tenant="ada")], 5.0)
    scheduler.handle([Finished("a", 1)], 10.0)
    tenants = scheduler.ledger.tenants
    assert tenants.attained("ada", 12.0) == pytest.approx(27.0)
    assert tenants.attained("bo", 12.0) == pytest.approx(12.0)
    assert tenants.devices_held("ada") == 1
