"""A job that is to end while it lives: it keeps what it has until the node says that its processes are gone."""

from __future__ import annotations

import pytest
from office import Office, Open, devices, kinds, request

from weft.control.loop.inputs import AttemptReport, Cancel, StopAll, Tick
from weft.control.loop.requests import ConflictError
from weft.core.reasons import Code

SHORT = "tiresias-l:thresholds=10"


def stopping(office: Open, count: int = 1, policy: str = "fifo", **asked: object) -> Office:
    """Job 1 ran, is cancelled, and takes its time."""
    control = office(count, policy)
    control.submit(**asked)
    control.node.lingers = True
    control.cancel("1")
    return control


def holds(control: Office, job_id: str) -> set[Code]:
    return {hold.code for hold in control.control.scheduler.ledger.jobs[job_id].holds}


def test_its_devices_are_nobody_elses_until_its_processes_are_gone(office: Open) -> None:
    control = stopping(office)
    control.submit()
    control.wait(100.0)
    assert control.states() == {"1": "RUNNING", "2": "PENDING"}
    assert (control.row("1")["state"], control.row("1")["finished_at"]) == ("RUNNING", None)
    control.check_disk()
    assert kinds(control.end("1", exit_code=143)) == [("run", "2", 1)]
    assert control.states() == {"1": "CANCELLED", "2": "RUNNING"}
    row = control.row("1")
    assert row["finished_at"] == control.control.records["2"].granted_at
    assert row["run_s"] > 100.0, "it had its devices all the while"


def test_that_it_is_to_end_is_a_fact_of_its_own(office: Open) -> None:
    control = office(1)
    control.submit()
    outcome = control.instant(Cancel("1"))
    assert [(fact.kind, fact.body) for fact in outcome.facts] == [
        ("Stopping", {"state": "CANCELLED", "reason": "cancelled"})
    ]
    assert kinds(outcome.orders) == [("stop", "1", 1)]


@pytest.mark.parametrize("way", ["end", "fail", "lose", "leave"])
def test_however_its_processes_went_it_ends_as_was_said(office: Open, way: str) -> None:
    control = stopping(office, retries=3)
    if way == "lose":
        control.node.lose("1")
    elif way == "leave":
        control.node.leave("1")
    else:
        control.node.end("1", exit_code=int(way == "fail"))
    assert control.hear() == []
    row = control.row("1")
    assert (row["state"], row["reason"], row["exit_code"], row["attempt"]) == ("CANCELLED", "cancelled", None, 1)
    (attempt,) = control.store.all("attempts_of_job", "1")
    expected = {"end": ("ended", 0), "fail": ("ended", 1), "lose": ("lost", None), "leave": ("left", None)}
    assert (attempt["outcome"], attempt["exit_code"]) == expected[way]


def test_whose_end_is_reported_in_the_instant_of_the_cancel_has_ended_by_itself(office: Open) -> None:
    control = office(1)
    control.submit()
    control.node.end("1")
    answer, _ = control.instant(Cancel("1"), *control.node.reports).answers
    assert isinstance(answer, ConflictError)
    assert control.states() == {"1": "SUCCEEDED"}


def test_cancelling_it_again_changes_nothing_and_orders_nothing(office: Open) -> None:
    control = stopping(office)
    for wish in (Cancel("1"), StopAll()):
        outcome = control.instant(wish)
        assert (outcome.answers, outcome.orders, outcome.facts) == ([{"ids": ["1"]}], [], [])
    control.end("1")
    assert control.row("1")["reason"] == "cancelled", "what was said first"


def test_one_that_ran_past_its_limit_is_told_once_and_stays_a_failure(office: Open) -> None:
    control = office(1)
    control.submit(time_s=60.0)
    control.node.lingers = True
    assert kinds(control.wait(60.0)) == [("stop", "1", 1)]
    assert control.control.next_time(control.now) == float("inf")
    assert kinds(control.wait(60.0)) == []
    control.cancel("1")
    control.restart()
    assert kinds(control.wait(60.0)) == []
    control.end("1", exit_code=0)
    row = control.row("1")
    assert (row["state"], row["reason"], row["exit_code"]) == ("FAILED", "ran past its limit of 60 s", 124)


def test_it_lasts_over_a_restart_and_the_node_is_told_again(office: Open) -> None:
    control = stopping(office, 2)
    control.submit()
    control.restart()
    assert control.control.is_stopping
    for _ in range(2):
        assert kinds(control.hello(devices(2)).orders) == [("stop", "1", 1), ("run", "2", 1)]
    assert control.running() == {"1", "2"}
    control.end("1", 143)
    assert control.states() == {"1": "CANCELLED", "2": "RUNNING"}
    assert not control.control.is_stopping


def test_one_of_which_the_node_never_heard_is_over_when_the_node_says_so(office: Open) -> None:
    control = office(1)
    control.node.take, take = (lambda orders: None), control.node.take  # type: ignore[method-assign, assignment]
    control.ask(request())
    control.cancel("1")
    control.node.take = take  # type: ignore[method-assign]
    assert control.states() == {"1": "RUNNING"}
    control.hello(devices(1))
    control.hear()
    assert control.states() == {"1": "CANCELLED"}


def test_one_whose_machine_was_started_anew_is_over(office: Open) -> None:
    control = stopping(office)
    control.restart()
    assert kinds(control.reboot(devices(1)).orders) == []
    assert (control.row("1")["state"], control.row("1")["reason"]) == ("CANCELLED", "cancelled")


# ---- others


def test_those_that_come_after_it_hear_of_it_in_the_end(office: Open) -> None:
    control = office(4)
    control.submit()
    control.submit(after=["1"])
    control.node.lingers = True
    control.cancel("1")
    control.submit(after=["1"])
    assert control.states() == {"1": "RUNNING", "2": "PENDING", "3": "PENDING"}
    control.restart()
    control.end("1")
    assert control.states() == {"1": "CANCELLED", "2": "CANCELLED", "3": "CANCELLED"}
    assert control.row("3")["reason"] == "job 1, which it comes after, was cancelled"


def test_the_next_of_its_array_is_let_in_in_the_end(office: Open) -> None:
    control = office(4)
    control.submit(array="1-3%1")
    control.node.lingers = True
    control.cancel("1_1")
    assert control.running() == {"1_1"}
    assert control.reason("1_2") == "its array runs at most 1 at once"
    control.end("1_1", 143)
    assert control.running() == {"1_2"}


def test_nobody_of_its_array_is_let_in_while_weft_goes_down(office: Open) -> None:
    control = office(4)
    control.submit(array="1-3%2")
    control.node.lingers = True
    assert kinds(control.instant(StopAll()).orders) == [("stop", "1_1", 1), ("stop", "1_2", 1)]
    control.end("1_1", 143)
    assert control.control.is_stopping
    assert control.states() == {"1_1": "CANCELLED", "1_2": "RUNNING", "1_3": "PENDING"}
    control.restart()
    assert kinds(control.hello(devices(4)).orders) == [("stop", "1_2", 1), ("run", "1_3", 1)]


def test_a_job_cannot_be_held_while_its_processes_are_being_ended(office: Open) -> None:
    control = stopping(office)
    with pytest.raises(ConflictError):
        control.hold("1")


# ---- paused, and preempted


def paused(office: Open) -> Office:
    """Job 1 stands, and job 2 has its device."""
    control = office(1, SHORT)
    control.submit(), control.submit()
    control.wait(10.0)
    assert control.states() == {"1": "PAUSED", "2": "RUNNING"}
    control.node.lingers = True
    return control


def test_a_paused_one_is_not_started_again(office: Open) -> None:
    control = paused(office)
    control.cancel("1")
    assert control.reason("1") == "cancelled; its processes are being stopped"
    assert kinds(control.end("2")) == []
    assert control.states() == {"1": "PAUSED", "2": "SUCCEEDED"}
    assert control.release("1") == []
    control.restart()
    assert kinds(control.hello(devices(1)).orders) == [("stop", "1", 1)]
    assert control.states()["1"] == "PAUSED"
    control.end("1", 143)
    assert control.row("1")["state"] == "CANCELLED"


def test_a_paused_one_that_was_held_is_not_started_by_its_release(office: Open) -> None:
    control = paused(office)
    control.hold("1")
    control.cancel("1")
    control.end("2")
    control.release("1")
    assert control.states()["1"] == "PAUSED"
    assert holds(control, "1") == {Code.ENDING}


def test_one_that_is_preempted_meanwhile_is_neither_paused_nor_started_again(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    control.node.lingers = True
    control.cancel("1")
    outcome = control.instant(Tick(), after_s=10.0)
    assert kinds(outcome.orders) == [("run", "2", 1)], "which the node keeps waiting until the device is free"
    assert control.states() == {"1": "PAUSED", "2": "RUNNING"}
    assert holds(control, "1") == {Code.ENDING}
    assert control.row("1")["preemptions"] == 0, "it would have ended anyway"
    control.check_disk()
    assert kinds(control.end("2")) == []
    control.end("1", 143)
    assert control.states() == {"1": "CANCELLED", "2": "SUCCEEDED"}


def test_one_whose_pause_crosses_its_stop_is_stopped(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    control.node.lingers = True
    control.instant(Tick(), after_s=10.0)  # it says that it stands, and nobody has heard it yet
    control.cancel("1")
    control.hear()
    assert control.states() == {"1": "PAUSED", "2": "RUNNING"}
    control.end("1", 143)
    assert control.states()["1"] == "CANCELLED"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_other_devices_do_not_bring_it_back(office: Open, count: int) -> None:
    control = stopping(office, 2, gpus=2)
    assert kinds(control.hello(devices(3)).orders) == [("stop", "1", 1)]
    assert kinds(control.hello(devices(count)).orders) == [("stop", "1", 1)]
    control.restart()
    control.wait(5.0)
    assert control.states() == {"1": "RUNNING" if count > 1 else "PAUSED"}
    control.end("1", 143)
    assert control.states() == {"1": "CANCELLED"}


def test_a_word_that_it_has_begun_comes_too_late(office: Open) -> None:
    control = office(1)
    control.ask(request())
    control.node.lingers = True
    control.cancel("1")
    assert control.hear() == []
    assert control.states() == {"1": "RUNNING"}
    control.instant(AttemptReport("1", 1, "ended", {"exit_code": 0, "message": ""}))
    assert control.states() == {"1": "CANCELLED"}
    control.node.gone("1")
