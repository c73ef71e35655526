"""What the node says and what the control state wants may cross on their way: pauses, ends, losses, restarts."""

from __future__ import annotations

import pytest
from office import Office, Open, devices, kinds, request

from weft.control.loop.inputs import AttemptReport, ChangePolicy, NodeConnected, Tick
from weft.core.plan import Plan
from weft.core.view import View
from weft.policies.registry import POLICIES

SHORT = "tiresias-l:thresholds=10"


def two_take_turns(office: Open, **asked: object) -> Office:
    """Job 1 has had its ten seconds and gives way to job 2, and the node has not yet said a word about it."""
    control = office(1, SHORT)
    control.submit(**asked)
    control.submit(gpu_mem_bytes=3 << 30)
    control.node.reports.clear()
    orders = control.instant(Tick(), after_s=10.0).orders
    assert kinds(orders) == [("pause", "1", 1), ("run", "2", 1)]
    assert orders[0]["needs_bytes"] == 3 << 30
    assert orders[0]["generation"] < 2 <= control.control.scheduler.ledger.jobs["1"].generation + 1
    return control


def test_a_preempted_job_is_paused_and_goes_on_as_the_same_attempt(office: Open) -> None:
    control = two_take_turns(office)
    assert control.states() == {"1": "PAUSED", "2": "RUNNING"}
    control.hear()
    assert control.row("1")["preemptions"] == 1
    assert control.row("1")["steps"] == 7
    control.restart()
    orders = control.end("2")
    assert kinds(orders) == [("run", "1", 1)]
    assert orders[0]["generation"] == 2
    control.hear()
    control.end("1")
    assert control.states() == {"1": "SUCCEEDED", "2": "SUCCEEDED"}
    assert [row["outcome"] for row in control.store.all("attempts_of_job", "1")] == ["ended"]


def test_what_the_next_one_needs_is_unknown_if_it_did_not_say(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    (pause, _) = control.instant(Tick(), after_s=10.0).orders
    assert (pause["type"], pause["needs_bytes"]) == ("pause", None)


def test_one_that_left_with_a_checkpoint_goes_on_as_the_next_attempt(office: Open) -> None:
    control = two_take_turns(office)
    control.node.reports.clear()
    control.node.leave("1", step=40)
    control.hear()
    assert control.states() == {"1": "PENDING", "2": "RUNNING"}
    assert kinds(control.end("2")) == [("run", "1", 2)]
    attempts = control.store.all("attempts_of_job", "1")
    assert [(row["attempt"], row["outcome"]) for row in attempts] == [(1, "left"), (2, None)]
    assert control.row("1")["steps"] == 40


def test_one_that_left_when_it_had_its_devices_again_goes_on_at_once(office: Open) -> None:
    """The order to go on crossed the word that it is gone."""
    control = two_take_turns(office)
    control.node.reports.clear()
    control.node.leave("1")
    reports, control.node.reports = control.node.reports, []
    assert kinds(control.end("2")) == [("run", "1", 1)]
    outcome = control.instant(*reports)
    assert kinds(outcome.orders) == [("run", "1", 2)]
    assert outcome.orders[0]["devices"] == [0]
    control.hear()
    assert control.running() == {"1"}


@pytest.mark.parametrize("exit_code", [0, 3])
def test_one_that_ended_while_it_was_to_pause_is_over(office: Open, exit_code: int) -> None:
    control = two_take_turns(office)
    control.node.reports.clear()
    control.end("1", exit_code)
    assert control.states() == {"1": "FAILED" if exit_code else "SUCCEEDED", "2": "RUNNING"}
    assert control.row("1")["exit_code"] == exit_code


def test_one_that_ended_badly_while_it_was_to_pause_is_tried_again(office: Open) -> None:
    control = two_take_turns(office, retries=1)
    control.node.reports.clear()
    control.end("1", 1)
    assert kinds(control.end("2")) == [("run", "1", 2)]


def test_one_that_was_lost_while_it_was_paused_is_tried_again(office: Open) -> None:
    control = two_take_turns(office)
    control.hear()
    control.lose("1")
    assert control.states() == {"1": "PENDING", "2": "RUNNING"}
    assert kinds(control.end("2")) == [("run", "1", 2)]


def test_a_paused_job_can_be_held_and_waits_in_memory(office: Open) -> None:
    control = two_take_turns(office)
    control.hear()
    control.hold("1")
    control.end("2")
    assert control.states() == {"1": "PAUSED", "2": "SUCCEEDED"}
    control.release("1")
    assert control.running() == {"1"}


# ---- cancelled in every phase


def pending(office: Open) -> Office:
    control = office(1)
    control.submit(hold=True)
    return control


def starting(office: Open) -> Office:
    control = office(1)
    control.ask(request())
    return control


def running(office: Open) -> Office:
    control = office(1)
    control.submit()
    return control


def paused(office: Open) -> Office:
    control = two_take_turns(office)
    control.hear()
    return control


@pytest.mark.parametrize(
    ("phase", "is_there"),
    [(pending, False), (starting, True), (running, True), (two_take_turns, True), (paused, True)],
)
def test_a_job_can_be_cancelled_in_every_phase(office: Open, phase: object, is_there: bool) -> None:
    control: Office = phase(office)  # type: ignore[operator]
    before = control.states()["1"]
    control.cancel("1")
    assert ("1" in control.node.last_attempt) == is_there
    assert "1" not in control.node.attempts
    assert control.states()["1"] == (before if is_there else "CANCELLED")
    control.hear()
    row = control.row("1")
    assert (row["state"], row["reason"], row["exit_code"], row["is_alive"]) == ("CANCELLED", "cancelled", None, 0)
    attempts = [(one["outcome"], one["exit_code"]) for one in control.store.all("attempts_of_job", "1")]
    assert attempts == [("ended", 143)] * is_there


def test_the_devices_of_a_cancelled_job_go_to_the_next_one(office: Open) -> None:
    control = office(1)
    control.submit(), control.submit()
    control.cancel("1")
    control.hear()
    assert control.running() == {"2"}


# ---- said twice, and late


def test_a_word_that_comes_twice_does_what_it_did_once(office: Open) -> None:
    control = office(1)
    control.ask(request())
    (started,) = control.node.reports
    control.hear()
    before = control.row("1"), control.store.all("attempts_of_job", "1")
    control.instant(started, started)
    of_time = {"run_s": 0, "checksum": 0}  # the checksum covers the time it has run
    assert (control.row("1") | of_time, control.store.all("attempts_of_job", "1")) == (before[0] | of_time, before[1])


def test_words_of_an_older_attempt_are_dropped(office: Open) -> None:
    control = office(1)
    control.submit()
    control.lose("1")
    control.wait(1.0)
    for what in ("started", "paused", "left", "ended", "lost"):
        outcome = control.instant(AttemptReport("1", 1, what, {"exit_code": 0, "step": 1, "pids": []}))
        assert (outcome.facts, outcome.orders) == ([], [])
    assert control.running() == {"1"}


def test_all_of_one_life_in_one_instant(office: Open) -> None:
    control = office(1)
    control.ask(request())
    control.node.end("1")
    control.instant(*control.node.reports)
    row = control.row("1")
    assert (row["state"], row["started_at"]) == ("SUCCEEDED", row["finished_at"])


# ---- after a restart


def test_a_node_that_says_hello_hears_of_everything_it_should_have(office: Open) -> None:
    control = two_take_turns(office)
    control.submit(hold=True)
    control.restart()
    orders = control.hello(devices(1)).orders
    assert [(order["type"], order.get("job")) for order in orders] == [("pause", "1"), ("run", "2"), ("synced", None)]
    assert orders[1]["environment"] == control.control.records["2"].environment


def test_a_node_that_says_hello_is_told_at_once_what_the_hello_brings(office: Open) -> None:
    control = office(1)
    control.submit()
    control.node.end("1")
    control.node.hello()
    outcome = control.instant(NodeConnected("here", devices(1)), request(), *control.node.reports)
    assert kinds(outcome.orders) == [("run", "2", 1)]
    assert outcome.orders[-1] == {"type": "synced"}


def test_an_attempt_that_was_cancelled_while_the_node_was_away_is_stopped_when_it_comes_back(office: Open) -> None:
    control = office(1)
    control.submit()
    control.node.take, take = (lambda orders: None), control.node.take  # type: ignore[method-assign, assignment]
    control.cancel("1")
    control.node.take = take  # type: ignore[method-assign]
    assert "1" in control.node.attempts
    control.restart()
    assert kinds(control.hello(devices(1)).orders) == [("stop", "1", 1)]
    assert control.node.attempts == {}
    control.hear()
    assert control.states() == {"1": "CANCELLED"}


def test_an_attempt_of_a_job_that_is_over_is_fenced(office: Open) -> None:
    """The node lost it and said so, and has found it again since."""
    control = office(1)
    control.submit(requeue=False)
    found = control.node.attempts["1"]
    control.lose("1")
    control.node.attempts["1"] = found
    assert kinds(control.hello(devices(1)).orders) == []
    assert control.node.attempts == {}


def test_a_restart_restarts_nobody(office: Open) -> None:
    control = office(4)
    control.submit(gpus=3), control.submit(), control.submit(gpus=2)
    before = {job.id: job.allocation for job in control.control.scheduler.ledger.running.values()}
    for _ in range(3):
        control.restart()
        assert kinds(control.hello(devices(4)).orders) == [("run", "1", 1), ("run", "2", 1)]
        control.hear()
    assert {job.id: job.allocation for job in control.control.scheduler.ledger.running.values()} == before
    assert [row["attempt"] for row in control.store.all("live_attempts")] == [1, 1]


def test_what_ran_before_the_machine_was_restarted_is_lost_and_tried_again_at_once(office: Open) -> None:
    control = paused(office)
    control.submit(hold=True)
    control.restart()
    assert kinds(control.reboot(devices(1)).orders) == [("run", "2", 2)], "1 has had its ten seconds"
    assert control.states() == {"1": "PENDING", "2": "RUNNING", "3": "PENDING"}
    losses = {job_id: record.present_loss for job_id, record in control.control.records.items()}
    assert {job_id for job_id, loss in losses.items() if loss} == {"1", "2"}
    assert losses["1"]
    assert (
        losses["1"].in_words()
        == "attempt 1 was lost: the machine was restarted; the next one begins from the beginning"
    )
    control.restart()
    assert {job_id: record.present_loss for job_id, record in control.control.records.items()} == losses


# ---- devices


def test_a_device_that_somebody_else_uses_is_avoided(office: Open) -> None:
    control = office(2)
    found = devices(2)
    found[0]["blocked_by"] = "process 4711 (python) of another user"
    control.tell_devices(found)
    (order,) = control.instant(request()).orders
    assert order["devices"] == [1]
    control.restart()
    control.submit()
    assert control.states()["2"] == "PENDING"
    control.tell_devices(devices(2))
    control.hear()
    assert control.running() == {"1", "2"}


@pytest.mark.parametrize("way", ["end", "cancel", "lose"])
def test_a_device_that_was_blocked_while_a_job_had_it_is_avoided_once_that_is_gone(office: Open, way: str) -> None:
    control = office(1)
    control.submit()
    control.tell_devices(devices(1, blocked_by="process 4711 (python)"))
    assert control.running() == {"1"}
    control.ask(request())
    getattr(control, way)("1")
    control.hear()
    control.wait(5.0)
    assert control.running() == set()
    control.tell_devices(devices(1))
    assert len(control.running()) == 1


def test_jobs_of_a_machine_that_comes_back_with_other_devices_go_on_there(office: Open) -> None:
    control = office(2)
    control.submit(gpus=2), control.submit()
    orders = control.hello(devices(3)).orders
    assert [(order["type"], order.get("job"), order.get("attempt")) for order in orders[:-1]] == [
        ("run", "1", 1),
        ("run", "2", 1),
    ]
    control.hear()
    assert control.running() == {"1", "2"}


def test_a_gang_too_large_for_what_is_left_waits(office: Open) -> None:
    control = office(2)
    control.submit(gpus=2)
    assert kinds(control.hello(devices(1)).orders) == [("pause", "1", 1)]
    assert control.states() == {"1": "PAUSED"}
    assert kinds(control.hello(devices(2)).orders) == [("run", "1", 1)]


def test_a_machine_with_two_types_of_devices_keeps_them_apart(empty: Open) -> None:
    control = empty()
    mixed = [*devices(2, "A100"), *({**device, "index": device["index"] + 2} for device in devices(2, "T4"))]
    control.hello(mixed)
    first, second = control.instant(request(gpus=2, types=["T4"]), request(gpus=2)).orders
    assert (first["devices"], second["devices"]) == ([2, 3], [0, 1])
    mixed[0]["blocked_by"] = "process 1"
    control.tell_devices(mixed)
    control.hear()
    control.restart()


def test_devices_that_fell_away_without_a_hello_are_as_if_they_had_not_come_back(office: Open) -> None:
    control = office(2)
    control.submit(), control.submit()
    control.tell_devices(devices(1))
    control.hear()
    assert control.running() == {"1"}
    assert control.states()["2"] == "PAUSED"


# ---- policies


class Broken:
    """Decides well twice, then never again."""

    def __init__(self) -> None:
        self.fifo = POLICIES["fifo"]()
        self.asked = 0
        self.explain = self.fifo.explain

    def decide(self, view: View) -> Plan:
        self.asked += 1
        if self.asked > 2:
            raise ZeroDivisionError("division by zero")
        return self.fifo.decide(view)


def test_a_policy_that_fails_stops_nobody_and_what_happens_is_written(
    office: Open, caplog: pytest.LogCaptureFixture
) -> None:
    control = office(2, Broken)
    control.submit()
    assert control.ask(request())["ids"] == ["2"]
    assert control.control.policy_error == "ZeroDivisionError: division by zero"
    control.end("1")
    assert control.states() == {"1": "SUCCEEDED", "2": "PENDING"}
    control.check_disk()
    assert [record.message for record in caplog.records] == ["the policy fails; no job is started"]  # once, not again


def test_a_policy_can_be_changed_for_one_that_works(office: Open) -> None:
    control = office(2, Broken)
    control.submit(), control.submit(), control.submit()
    generations = {job.id: job.generation for job in control.control.scheduler.ledger.running.values()}
    outcome = control.instant(ChangePolicy("fifo", POLICIES["fifo"]()))
    assert outcome.answers == [{"policy": "fifo"}]
    assert control.control.policy_error == ""
    assert control.store.setting("policy") == "fifo"
    running = control.control.scheduler.ledger.running
    assert {job_id: running[job_id].generation for job_id in generations} == generations
    assert kinds(outcome.orders) == [("run", "2", 1)]


def test_time_slices_go_on_after_a_restart(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    control.restart()
    control.hello(devices(1))
    assert control.control.next_time(control.now) < control.now + 10.0
    assert kinds(control.wait(10.0)) == [("pause", "1", 1), ("run", "2", 1)]


def test_one_that_had_to_pause_before_it_began_has_not_lost_its_steps(office: Open) -> None:
    control = two_take_turns(office)
    control.hear()
    control.instant(AttemptReport("1", 1, "paused", {"how": "boundary", "depth": "gate", "step": 0, "waited_s": 0.0}))
    assert control.row("1")["steps"] == 7
