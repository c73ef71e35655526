"""An attempt starts up until the node reports its first step: what follows from it, and what a restart knows."""

from __future__ import annotations

from typing import Any

import pytest
from office import Office, Open, kinds

from weft.control.api.views import Views
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import Tick
from weft.control.loop.job_state import JobState
from weft.control.loop.reports import first_step_of
from weft.control.store.replay import load_control_state
from weft.system.home import Home

SHORT = "tiresias-l:thresholds=10"
STARTUP_S = 60.0


class Patient(Office):
    """One whose attempts may take a minute to their first step."""

    def loaded(self) -> ControlState:
        return load_control_state(self.store, self.new_policy(), self.quotas, STARTUP_S)

    def steps(self, job_id: str, step: Any = 1) -> bool:
        """The node says how far it has come; whether that was its first step."""
        told = first_step_of(self.control, job_id, {"attempt": 1, "step": step})
        if told is not None:
            self.instant(told, after_s=0.0)
        return told is not None


@pytest.fixture
def control(office: Open, tmp_path: Any) -> Patient:
    made = office(1, SHORT)
    made.__class__ = Patient
    made.restart()
    return made


def test_nobody_is_paused_before_its_first_step_and_everybody_is_once_it_has_had_its_time(control: Patient) -> None:
    control.submit(), control.submit()
    assert control.wait(30.0) == []
    control.restart()  # what is on disk says so too
    assert control.wait(5.0) == []
    assert control.steps("1")
    assert not control.steps("1")
    assert control.wait(9.0) == []
    assert kinds(control.wait(1.0)) == [("pause", "1", 1), ("run", "2", 1)]
    control.check_disk()


def test_a_job_without_steps_is_paused_when_its_time_to_start_up_and_its_share_are_over(control: Patient) -> None:
    control.submit(), control.submit()
    assert control.wait(60.0) == []
    assert kinds(control.wait(10.0)) == [("pause", "1", 1), ("run", "2", 1)]


@pytest.mark.parametrize("step", [0, -1, None, "1", True, 2.0**60])
def test_what_is_no_step_ends_no_start_up(control: Patient, step: Any) -> None:
    control.submit()
    assert control.steps("1", step) == (step is True)


def test_a_time_limit_counts_the_start_up(control: Patient) -> None:
    control.submit(time_s=20.0)
    assert control.control.next_time(control.now) <= control.now + 20.0
    assert kinds(control.wait(20.0)) == [("stop", "1", 1)]


def test_a_resume_in_memory_is_no_start_up_but_the_next_attempt_is(control: Patient) -> None:
    control.submit(), control.submit()
    control.steps("1")
    control.wait(10.0)
    control.steps("2")
    control.node.end("2")
    assert kinds(control.hear()) == [("run", "1", 1)]
    assert not control.control.job("1").is_starting(control.now)
    control.node.leave("1", step=40)
    control.hear()
    assert control.control.records["1"].attempt == 2
    assert control.control.job("1").is_starting(control.now)


def test_a_listing_says_that_a_job_starts_up(control: Patient) -> None:
    control.submit()
    seen = Views(Home.find({"WEFT_HOME": "/nowhere"})).live(control.control, control.control.records["1"], control.now)
    assert (seen["state"], seen["reason"][:19]) == (JobState.RUNNING, "starting up, no ste")
    control.steps("1")
    control.instant(Tick())
    assert (
        Views(Home.find({"WEFT_HOME": "/nowhere"})).live(control.control, control.control.records["1"], control.now)[
            "reason"
        ]
        == ""
    )
