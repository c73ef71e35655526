"""A job that is to end while it lives: it keeps what it has until the node says that its processes are gone."""

from __future__ import annotations

import pytest
from office import Office, Open, devices, kinds, request

from weft.control.inputs import Cancel, Report, StopAll, Tick
from weft.control.refusals import ConflictError
from weft.core.reasons import Code

SHORT = "tiresias-l:thresholds=10"


def stopping(office: Open, count: int = 1, policy: str = "fifo", **asked: object) -> Office:
    """Job 1 ran, is cancelled, and takes its time."""
    desk = office(count, policy)
    desk.submit(**asked)
    desk.node.lingers = True
    desk.cancel("1")
    return desk


def holds(desk: Office, job_id: str) -> set[Code]:
    return {hold.code for hold in desk.desk.scheduler.ledger.jobs[job_id].holds}


def test_its_devices_are_nobody_elses_until_its_processes_are_gone(office: Open) -> None:
    desk = stopping(office)
    desk.submit()
    desk.wait(100.0)
    assert desk.states() == {"1": "RUNNING", "2": "PENDING"}
    assert (desk.row("1")["state"], desk.row("1")["finished_at"]) == ("RUNNING", None)
    desk.check_disk()
    assert kinds(desk.end("1", exit_code=143)) == [("run", "2", 1)]
    assert desk.states() == {"1": "CANCELLED", "2": "RUNNING"}
    row = desk.row("1")
    assert row["finished_at"] == desk.desk.records["2"].granted_at
    assert row["run_s"] > 100.0, "it had its devices all the while"


def test_that_it_is_to_end_is_a_fact_of_its_own(office: Open) -> None:
    desk = office(1)
    desk.submit()
    outcome = desk.instant(Cancel("1"))
    assert [(fact.kind, fact.body) for fact in outcome.facts] == [
        ("Stopping", {"state": "CANCELLED", "reason": "cancelled"})
    ]
    assert kinds(outcome.orders) == [("stop", "1", 1)]


@pytest.mark.parametrize("way", ["end", "fail", "lose", "leave"])
def test_however_its_processes_went_it_ends_as_was_said(office: Open, way: str) -> None:
    desk = stopping(office, retries=3)
    if way == "lose":
        desk.node.lose("1")
    elif way == "leave":
        desk.node.leave("1")
    else:
        desk.node.end("1", exit_code=int(way == "fail"))
    assert desk.hear() == []
    row = desk.row("1")
    assert (row["state"], row["reason"], row["exit_code"], row["attempt"]) == ("CANCELLED", "cancelled", None, 1)
    (attempt,) = desk.store.all("attempts_of_job", "1")
    expected = {"end": ("ended", 0), "fail": ("ended", 1), "lose": ("lost", None), "leave": ("left", None)}
    assert (attempt["outcome"], attempt["exit_code"]) == expected[way]


def test_whose_end_is_reported_in_the_instant_of_the_cancel_has_ended_by_itself(office: Open) -> None:
    desk = office(1)
    desk.submit()
    desk.node.end("1")
    answer, _ = desk.instant(Cancel("1"), *desk.node.reports).answers
    assert isinstance(answer, ConflictError)
    assert desk.states() == {"1": "SUCCEEDED"}


def test_cancelling_it_again_changes_nothing_and_orders_nothing(office: Open) -> None:
    desk = stopping(office)
    for wish in (Cancel("1"), StopAll()):
        outcome = desk.instant(wish)
        assert (outcome.answers, outcome.orders, outcome.facts) == ([{"ids": ["1"]}], [], [])
    desk.end("1")
    assert desk.row("1")["reason"] == "cancelled", "what was said first"


def test_one_that_ran_past_its_limit_is_told_once_and_stays_a_failure(office: Open) -> None:
    desk = office(1)
    desk.submit(time_s=60.0)
    desk.node.lingers = True
    assert kinds(desk.wait(60.0)) == [("stop", "1", 1)]
    assert desk.desk.next_time(desk.now) == float("inf")
    assert kinds(desk.wait(60.0)) == []
    desk.cancel("1")
    desk.restart()
    assert kinds(desk.wait(60.0)) == []
    desk.end("1", exit_code=0)
    row = desk.row("1")
    assert (row["state"], row["reason"], row["exit_code"]) == ("FAILED", "ran past its limit of 60 s", 124)


def test_it_lasts_over_a_restart_and_the_node_is_told_again(office: Open) -> None:
    desk = stopping(office, 2)
    desk.submit()
    desk.restart()
    assert desk.desk.is_stopping
    for _ in range(2):
        assert kinds(desk.hello(devices(2)).orders) == [("stop", "1", 1), ("run", "2", 1)]
    assert desk.running() == {"1", "2"}
    desk.end("1", 143)
    assert desk.states() == {"1": "CANCELLED", "2": "RUNNING"}
    assert not desk.desk.is_stopping


def test_one_of_which_the_node_never_heard_is_over_when_the_node_says_so(office: Open) -> None:
    desk = office(1)
    desk.node.take, take = (lambda orders: None), desk.node.take  # type: ignore[method-assign, assignment]
    desk.ask(request())
    desk.cancel("1")
    desk.node.take = take  # type: ignore[method-assign]
    assert desk.states() == {"1": "RUNNING"}
    desk.hello(devices(1))
    desk.hear()
    assert desk.states() == {"1": "CANCELLED"}


def test_one_whose_machine_was_started_anew_is_over(office: Open) -> None:
    desk = stopping(office)
    desk.restart()
    assert kinds(desk.reboot(devices(1)).orders) == []
    assert (desk.row("1")["state"], desk.row("1")["reason"]) == ("CANCELLED", "cancelled")


# ---- others


def test_those_that_come_after_it_hear_of_it_in_the_end(office: Open) -> None:
    desk = office(4)
    desk.submit()
    desk.submit(after=["1"])
    desk.node.lingers = True
    desk.cancel("1")
    desk.submit(after=["1"])
    assert desk.states() == {"1": "RUNNING", "2": "PENDING", "3": "PENDING"}
    desk.restart()
    desk.end("1")
    assert desk.states() == {"1": "CANCELLED", "2": "CANCELLED", "3": "CANCELLED"}
    assert desk.row("3")["reason"] == "job 1, which it comes after, was cancelled"


def test_the_next_of_its_array_is_let_in_in_the_end(office: Open) -> None:
    desk = office(4)
    desk.submit(array="1-3%1")
    desk.node.lingers = True
    desk.cancel("1_1")
    assert desk.running() == {"1_1"}
    assert desk.reason("1_2") == "its array runs at most 1 at once"
    desk.end("1_1", 143)
    assert desk.running() == {"1_2"}


def test_nobody_of_its_array_is_let_in_while_weft_goes_down(office: Open) -> None:
    desk = office(4)
    desk.submit(array="1-3%2")
    desk.node.lingers = True
    assert kinds(desk.instant(StopAll()).orders) == [("stop", "1_1", 1), ("stop", "1_2", 1)]
    desk.end("1_1", 143)
    assert desk.desk.is_stopping
    assert desk.states() == {"1_1": "CANCELLED", "1_2": "RUNNING", "1_3": "PENDING"}
    desk.restart()
    assert kinds(desk.hello(devices(4)).orders) == [("stop", "1_2", 1), ("run", "1_3", 1)]


def test_a_job_cannot_be_held_while_its_processes_are_being_ended(office: Open) -> None:
    desk = stopping(office)
    with pytest.raises(ConflictError):
        desk.hold("1")


# ---- paused, and preempted


def paused(office: Open) -> Office:
    """Job 1 stands, and job 2 has its device."""
    desk = office(1, SHORT)
    desk.submit(), desk.submit()
    desk.wait(10.0)
    assert desk.states() == {"1": "PAUSED", "2": "RUNNING"}
    desk.node.lingers = True
    return desk


def test_a_paused_one_is_not_started_again(office: Open) -> None:
    desk = paused(office)
    desk.cancel("1")
    assert desk.reason("1") == "cancelled; its processes are being stopped"
    assert kinds(desk.end("2")) == []
    assert desk.states() == {"1": "PAUSED", "2": "SUCCEEDED"}
    assert desk.release("1") == []
    desk.restart()
    assert kinds(desk.hello(devices(1)).orders) == [("stop", "1", 1)]
    assert desk.states()["1"] == "PAUSED"
    desk.end("1", 143)
    assert desk.row("1")["state"] == "CANCELLED"


def test_a_paused_one_that_was_held_is_not_started_by_its_release(office: Open) -> None:
    desk = paused(office)
    desk.hold("1")
    desk.cancel("1")
    desk.end("2")
    desk.release("1")
    assert desk.states()["1"] == "PAUSED"
    assert holds(desk, "1") == {Code.ENDING}


def test_one_that_is_preempted_meanwhile_is_neither_paused_nor_started_again(office: Open) -> None:
    desk = office(1, SHORT)
    desk.submit(), desk.submit()
    desk.node.lingers = True
    desk.cancel("1")
    outcome = desk.instant(Tick(), after_s=10.0)
    assert kinds(outcome.orders) == [("run", "2", 1)], "which the node keeps waiting until the device is free"
    assert desk.states() == {"1": "PAUSED", "2": "RUNNING"}
    assert holds(desk, "1") == {Code.ENDING}
    assert desk.row("1")["preemptions"] == 0, "it would have ended anyway"
    desk.check_disk()
    assert kinds(desk.end("2")) == []
    desk.end("1", 143)
    assert desk.states() == {"1": "CANCELLED", "2": "SUCCEEDED"}


def test_one_whose_pause_crosses_its_stop_is_stopped(office: Open) -> None:
    desk = office(1, SHORT)
    desk.submit(), desk.submit()
    desk.node.lingers = True
    desk.instant(Tick(), after_s=10.0)  # it says that it stands, and nobody has heard it yet
    desk.cancel("1")
    desk.hear()
    assert desk.states() == {"1": "PAUSED", "2": "RUNNING"}
    desk.end("1", 143)
    assert desk.states()["1"] == "CANCELLED"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_other_devices_do_not_bring_it_back(office: Open, count: int) -> None:
    desk = stopping(office, 2, gpus=2)
    assert kinds(desk.hello(devices(3)).orders) == [("stop", "1", 1)]
    assert kinds(desk.hello(devices(count)).orders) == [("stop", "1", 1)]
    desk.restart()
    desk.wait(5.0)
    assert desk.states() == {"1": "RUNNING" if count > 1 else "PAUSED"}
    desk.end("1", 143)
    assert desk.states() == {"1": "CANCELLED"}


def test_a_word_that_it_has_begun_comes_too_late(office: Open) -> None:
    desk = office(1)
    desk.ask(request())
    desk.node.lingers = True
    desk.cancel("1")
    assert desk.hear() == []
    assert desk.states() == {"1": "RUNNING"}
    desk.instant(Report("1", 1, "ended", {"exit_code": 0, "message": ""}))
    assert desk.states() == {"1": "CANCELLED"}
    desk.node.gone("1")
