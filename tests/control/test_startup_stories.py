"""An attempt starts up until the node tells of its first step: what the desk makes of it, and what a restart knows."""

from __future__ import annotations

from typing import Any

import pytest
from office import Office, Open, kinds

from weft.control.desk import Desk
from weft.control.fold import load_desk
from weft.control.inputs import Tick
from weft.control.measuring import first_step_of
from weft.control.record import State
from weft.control.views import Views
from weft.system.home import Home

SHORT = "tiresias-l:thresholds=10"
STARTUP_S = 60.0


class Patient(Office):
    """One whose attempts may take a minute to their first step."""

    def loaded(self) -> Desk:
        return load_desk(self.store, self.new_policy(), self.quotas, STARTUP_S)

    def steps(self, job_id: str, step: Any = 1) -> bool:
        """The node says how far it has come; whether that was its first step."""
        told = first_step_of(self.desk, job_id, {"attempt": 1, "step": step})
        if told is not None:
            self.instant(told, after_s=0.0)
        return told is not None


@pytest.fixture
def desk(office: Open, tmp_path: Any) -> Patient:
    made = office(1, SHORT)
    made.__class__ = Patient
    made.restart()
    return made


def test_nobody_is_paused_before_its_first_step_and_everybody_is_once_it_has_had_its_time(desk: Patient) -> None:
    desk.submit(), desk.submit()
    assert desk.wait(30.0) == []
    desk.restart()  # what is on disk says so too
    assert desk.wait(5.0) == []
    assert desk.steps("1")
    assert not desk.steps("1")
    assert desk.wait(9.0) == []
    assert kinds(desk.wait(1.0)) == [("pause", "1", 1), ("run", "2", 1)]
    desk.check_disk()


def test_a_job_without_steps_is_paused_when_its_time_to_start_up_and_its_share_are_over(desk: Patient) -> None:
    desk.submit(), desk.submit()
    assert desk.wait(60.0) == []
    assert kinds(desk.wait(10.0)) == [("pause", "1", 1), ("run", "2", 1)]


@pytest.mark.parametrize("step", [0, -1, None, "1", True, 2.0**60])
def test_what_is_no_step_ends_no_start_up(desk: Patient, step: Any) -> None:
    desk.submit()
    assert desk.steps("1", step) == (step is True)


def test_a_time_limit_counts_the_start_up(desk: Patient) -> None:
    desk.submit(time_s=20.0)
    assert desk.desk.next_time(desk.now) <= desk.now + 20.0
    assert kinds(desk.wait(20.0)) == [("stop", "1", 1)]


def test_a_resume_in_memory_is_no_start_up_but_the_next_attempt_is(desk: Patient) -> None:
    desk.submit(), desk.submit()
    desk.steps("1")
    desk.wait(10.0)
    desk.steps("2")
    desk.node.end("2")
    assert kinds(desk.hear()) == [("run", "1", 1)]
    assert not desk.desk.job("1").is_starting(desk.now)
    desk.node.leave("1", step=40)
    desk.hear()
    assert desk.desk.records["1"].attempt == 2
    assert desk.desk.job("1").is_starting(desk.now)


def test_a_listing_says_that_a_job_starts_up(desk: Patient) -> None:
    desk.submit()
    seen = Views(Home.find({"WEFT_HOME": "/nowhere"})).live(desk.desk, desk.desk.records["1"], desk.now)
    assert (seen["state"], seen["reason"][:19]) == (State.RUNNING, "starting up: no ste")
    desk.steps("1")
    desk.instant(Tick())
    assert Views(Home.find({"WEFT_HOME": "/nowhere"})).live(desk.desk, desk.desk.records["1"], desk.now)["reason"] == ""
