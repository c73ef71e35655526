"""What really happened on a live machine, in the form that the simulator leaves."""

from __future__ import annotations

from typing import Any

import pytest

from weft.sim.past_jobs import past_run
from weft.sim.results.summary import PolicyRun, queueing_s, summarise

NODES = [{"name": "here", "devices": [{"type": "cpu"}]}]


def at(second: float) -> str:
    return f"2026-01-01T00:00:{second:06.3f}+00:00"


def told(*story: tuple[float, str]) -> list[dict[str, Any]]:
    return [{"at": at(second), "what": what, "text": ""} for second, what in story]


def job(name: str, submitted_s: float, started_s: float, finished_s: float, run_s: float, gpus: int = 1) -> Any:
    times = {"submitted_at": at(submitted_s), "started_at": at(started_s), "finished_at": at(finished_s)}
    return {"id": name, "tenant": "ada", "class": "auto", "gpus": gpus, "run_s": run_s, "preemptions": 0, **times}


def a_guest_beside_a_holder() -> PolicyRun:
    """a holds the device for 20 s; b waits 4 s, sits beside it for 10 s at three tenths, and waits until a ends."""
    jobs = [job("a", 0.0, 0.0, 20.0, 20.0), job("b", 2.0, 6.0, 30.0, 13.0)]
    events = {
        "a": told((0.0, "Submitted"), (0.0, "Start"), (9.0, "Measured"), (20.0, "Ended")),
        "b": told(
            (2.0, "Submitted"), (6.0, "Seat"), (12.0, "Noted"), (16.0, "Unseat"), (20.0, "Start"), (30.0, "Ended")
        ),
    }
    return past_run("weft", jobs, events, NODES)


def test_time_as_a_guest_is_time_on_devices_and_no_waiting() -> None:
    jobs = a_guest_beside_a_holder().jobs
    assert jobs.guest_s is not None
    assert jobs.guest_s.tolist() == pytest.approx([0.0, 10.0])
    assert jobs.run_s.tolist() == pytest.approx([20.0, 20.0])
    assert queueing_s(jobs).tolist() == pytest.approx([0.0, 8.0])


def test_what_a_job_had_of_its_devices_stands_in_for_its_time_alone() -> None:
    assert a_guest_beside_a_holder().jobs.alone_s.tolist() == [20.0, 13.0]


def test_a_guest_holds_nothing() -> None:
    run = a_guest_beside_a_holder()
    seen = zip(run.timeline.time_s, run.timeline.devices_held, run.timeline.jobs_waiting, strict=True)
    assert [(round(float(time_s)), int(held), int(waiting)) for time_s, held, waiting in seen] == [
        (0, 1, 0),
        (2, 1, 1),
        (6, 1, 0),
        (16, 1, 1),
        (20, 1, 0),
        (30, 0, 0),
    ]
    assert summarise(run).utilisation == pytest.approx(1.0)


def test_a_gang_that_was_preempted_waits_and_holds_nothing_meanwhile() -> None:
    events = told((0.0, "Submitted"), (1.0, "Start"), (3.0, "Preempt"), (5.0, "Start"), (8.0, "Ended"))
    run = past_run("weft", [job("a", 0.0, 1.0, 8.0, 5.0, gpus=2)], {"a": events}, NODES)
    assert run.timeline.devices_held.tolist() == [0, 2, 0, 2, 0]
    assert run.timeline.jobs_waiting.tolist() == [1, 0, 1, 0, 0]
    assert run.jobs.run_s.tolist() == pytest.approx([5.0])
