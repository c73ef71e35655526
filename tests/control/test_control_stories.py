"""Jobs come, run and end in the control state, one instant after the other."""

from __future__ import annotations

import pytest
from office import Open, devices, kinds, request

from weft.control.loop.inputs import AttemptReport, Cancel, Release, StopAll
from weft.control.loop.job_state import MOST_LOSSES
from weft.control.loop.requests import ConflictError, NotFoundError
from weft.core.errors import InputError


def test_a_job_is_submitted_started_and_ends(office: Open) -> None:
    control = office()
    answer = control.instant(request(command=["python", "train.py"], gpus=2))
    assert answer.answers == [{"id": "1", "ids": ["1"]}]
    (order,) = answer.orders
    assert (order["type"], order["job"], order["attempt"], order["devices"]) == ("run", "1", 1, [0, 1])
    assert (order["launch"]["tasks"], order["launch"]["devices_per_task"]) == (1, 2)
    control.hear()
    control.end("1")
    row = control.row("1")
    assert (row["state"], row["exit_code"], row["attempt"], row["is_alive"]) == ("SUCCEEDED", 0, 1, 0)
    assert row["submitted_at"] < row["started_at"] < row["finished_at"]


@pytest.mark.parametrize(
    ("exit_code", "message", "reason"),
    [
        (1, "", "ended with exit code 1"),
        (137, "", "was ended by signal 9 (SIGKILL)"),
        (127, "there is no program tarin", "there is no program tarin"),
        (128, "", "ended with exit code 128"),
    ],
)
def test_a_bad_end_says_why(office: Open, exit_code: int, message: str, reason: str) -> None:
    control = office()
    control.submit()
    control.end("1", exit_code, message=message)
    row = control.row("1")
    assert (row["state"], row["exit_code"], row["reason"]) == ("FAILED", exit_code, reason)


def test_a_message_with_bytes_that_are_no_text_is_kept_readable(office: Open) -> None:
    control = office()
    control.submit()
    control.end("1", 127, message="there is no program caf\udce9")
    assert control.row("1")["reason"] == "there is no program caf\\udce9"


def test_jobs_wait_until_a_node_is_there(empty: Open) -> None:
    control = empty()
    control.submit()
    assert control.states() == {"1": "PENDING"}
    assert kinds(control.hello(devices(1)).orders) == [("run", "1", 1)]


# ---- what could never start


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpus": 3}, "it asks for 3 devices, and there are only 2"),
        ({"types": ["A100"]}, "there are no devices of type A100 here"),
        ({"gpu_mem_bytes": 9 << 30}, "9.0 GiB of device memory, and the largest device has 8.0 GiB"),
        ({"after": ["9"]}, "there is no job 9"),
    ],
)
def test_what_could_never_start_is_refused_with_a_hint(office: Open, asked: dict[str, object], message: str) -> None:
    control = office()
    with pytest.raises(InputError) as refused:
        control.submit(**asked)
    assert refused.value.message == message
    assert refused.value.hint
    assert control.states() == {}
    assert control.submit() == ["1"], "a refused job has no number"


def test_a_guaranteed_job_beyond_its_quota_is_refused(office: Open) -> None:
    control = office(2, "fifo", vision=1)
    with pytest.raises(InputError, match="tenant vision has a quota of 1"):
        control.submit(**{"class": "guaranteed", "tenant": "vision", "gpus": 2})
    assert control.submit(**{"class": "guaranteed", "tenant": "vision"}) == ["1"]


# ---- arrays


def test_of_an_array_with_a_limit_only_so_many_run_at_once(office: Open) -> None:
    control = office(4)
    assert control.submit(array="1-5%2") == ["1_1", "1_2", "1_3", "1_4", "1_5"]
    assert control.running() == {"1_1", "1_2"}
    assert control.reason("1_3") == "its array runs at most 2 at once"
    control.end("1_2")
    assert control.running() == {"1_1", "1_3"}
    control.end("1_1", exit_code=1)
    assert control.running() == {"1_3", "1_4"}
    control.end("1_3"), control.end("1_4")
    assert control.running() == {"1_5"}


def test_cancelling_an_element_that_waits_for_the_limit_lets_no_other_in(office: Open) -> None:
    control = office(4)
    control.submit(array="1-4%1")
    control.cancel("1_3")
    control.hear()
    assert control.running() == {"1_1"}
    control.end("1_1")
    assert control.running() == {"1_2"}
    control.end("1_2")
    assert control.running() == {"1_4"}


def test_cancelling_an_element_that_runs_lets_the_next_in(office: Open) -> None:
    control = office(4)
    control.submit(array="1-3%1")
    control.cancel("1_1")
    control.hear()
    assert control.running() == {"1_2"}


def test_a_whole_array_is_cancelled_by_its_number(office: Open) -> None:
    control = office(2)
    control.submit(array="1-6%2")
    assert control.cancel("1") == [f"1_{index}" for index in range(1, 7)]
    assert list(control.states().values()) == ["RUNNING"] * 2 + ["CANCELLED"] * 4
    control.hear()
    assert set(control.states().values()) == {"CANCELLED"}
    assert not control.node.attempts
    with pytest.raises(ConflictError, match="all of array 1 is over already"):
        control.cancel("1")


def test_the_limit_of_an_array_lasts_over_a_restart(office: Open) -> None:
    control = office(4)
    control.submit(array="1-4%2")
    control.restart()
    control.end("1_1")
    assert control.running() == {"1_2", "1_3"}


def test_elements_carry_their_index(office: Open) -> None:
    control = office(3)
    orders = control.instant(request(array="0-8:4")).orders
    assert [(order["job"], order["launch"]["array_index"]) for order in orders] == [("1_0", 0), ("1_4", 4), ("1_8", 8)]


# ---- one after the other


def test_a_job_that_comes_after_another_starts_when_that_has_succeeded(office: Open) -> None:
    control = office(4)
    control.submit()
    control.submit(after=["1"])
    assert control.reason("2") == "starts once 1 has succeeded"
    assert control.running() == {"1"}
    control.end("1")
    assert control.running() == {"2"}


def test_a_failure_cancels_the_whole_chain_behind_it_with_a_reason(office: Open) -> None:
    control = office(4)
    control.submit()
    control.submit(after=["1"])
    control.submit(after=["2"])
    control.end("1", exit_code=1)
    assert control.states() == {"1": "FAILED", "2": "CANCELLED", "3": "CANCELLED"}
    assert control.row("2")["reason"] == "job 1, which it comes after, has failed"
    assert control.row("3")["reason"] == "job 2, which it comes after, was cancelled"


def test_a_job_may_come_after_a_whole_array(office: Open) -> None:
    control = office(4)
    control.submit(array="1-3")
    control.submit(after=["1"])
    control.end("1_1"), control.end("1_3")
    assert control.states()["2"] == "PENDING"
    control.restart()
    control.end("1_2")
    assert control.running() == {"2"}


def test_an_array_may_come_after_a_job(office: Open) -> None:
    control = office(4)
    control.submit()
    control.submit(array="1-3%2", after=["1"])
    assert control.running() == {"1"}
    control.end("1")
    assert control.running() == {"2_1", "2_2"}


def test_cancelling_a_job_cancels_those_that_come_after_it(office: Open) -> None:
    control = office(1)
    control.submit(array="1-2")
    control.submit(after=["1_2"])
    control.cancel("1_2")
    assert control.states() == {"1_1": "RUNNING", "1_2": "CANCELLED", "2": "CANCELLED"}


def test_who_comes_after_one_that_has_succeeded_starts_at_once(office: Open) -> None:
    control = office(1)
    control.submit()
    control.end("1")
    control.submit(after=["1"])
    assert control.running() == {"2"}


def test_who_would_come_after_one_that_has_failed_is_refused(office: Open) -> None:
    control = office(1)
    control.submit()
    control.end("1", exit_code=1)
    with pytest.raises(InputError, match="job 1, which it comes after, has failed"):
        control.submit(after=["1"])


def test_one_that_ends_in_the_very_instant_in_which_another_is_to_come_after_it(office: Open) -> None:
    control = office(1)
    control.submit()
    control.node.end("1")
    outcome = control.instant(request(after=["1"]), *control.node.reports)
    assert outcome.answers[0] == {"id": "2", "ids": ["2"]}
    assert [order["job"] for order in outcome.orders] == ["2"]


def test_after_and_before_in_one_instant(office: Open) -> None:
    control = office(2)
    control.instant(request(), request(after=["1"]), request(array="1-2", after=["2", "1"]))
    control.hear()
    assert control.states() == {"1": "RUNNING", "2": "PENDING", "3_1": "PENDING", "3_2": "PENDING"}
    control.end("1"), control.end("2")
    assert control.running() == {"3_1", "3_2"}


# ---- again and again


def test_a_failed_job_is_tried_again_after_a_while_that_doubles(office: Open) -> None:
    control = office(1)
    control.submit(retries=2)
    control.end("1", exit_code=3)
    assert control.states() == {"1": "PENDING"}
    assert control.reason("1") == "attempt 1 ended with exit code 3; the next begins 1 s after it"
    assert control.control.next_time(control.now) == control.now + 1.0
    assert kinds(control.wait(0.5)) == []
    assert kinds(control.wait(0.5)) == [("run", "1", 2)]
    control.end("1", exit_code=3)
    assert control.control.next_time(control.now) == control.now + 2.0
    assert kinds(control.wait(2.0)) == [("run", "1", 3)]
    control.end("1", exit_code=3)
    assert (control.row("1")["state"], control.row("1")["attempt"], control.row("1")["exit_code"]) == ("FAILED", 3, 3)


def test_others_run_while_one_backs_off(office: Open) -> None:
    control = office(1)
    control.submit(retries=1)
    control.submit()
    control.end("1", exit_code=1)
    assert control.running() == {"2"}


def test_a_back_off_lasts_over_a_restart(office: Open) -> None:
    control = office(1)
    control.submit(retries=1)
    control.end("1", exit_code=1)
    control.restart()
    assert control.control.next_time(control.now) == control.now + 1.0
    assert kinds(control.wait(1.0)) == [("run", "1", 2)]


def test_a_job_that_backs_off_can_be_cancelled_and_held(office: Open) -> None:
    control = office(1)
    control.submit(retries=1)
    control.end("1", exit_code=1)
    control.hold("1")
    assert kinds(control.wait(5.0)) == []
    control.release("1")
    assert control.running() == {"1"}
    control.end("1", exit_code=1)
    control.submit(retries=1)
    control.end("2", exit_code=1)
    control.cancel("2")
    assert kinds(control.wait(5.0)) == []
    assert control.states() == {"1": "FAILED", "2": "CANCELLED"}


def test_a_lost_attempt_is_followed_by_another(office: Open) -> None:
    control = office(1)
    control.submit()
    control.lose("1")
    assert control.states() == {"1": "PENDING"}
    assert control.reason("1").startswith("attempt 1 was lost: its shepherd was killed")
    assert kinds(control.wait(1.0)) == [("run", "1", 2)]
    attempts = control.store.all("attempts_of_job", "1")
    assert [(row["attempt"], row["outcome"]) for row in attempts] == [(1, "lost"), (2, None)]


def test_a_job_that_is_lost_again_and_again_ends(office: Open) -> None:
    control = office(1)
    control.submit()
    for _ in range(MOST_LOSSES):
        control.lose("1")
        control.wait(300.0)
    assert control.running() == {"1"}
    control.lose("1")
    row = control.row("1")
    assert (row["state"], row["exit_code"], row["attempt"]) == ("FAILED", None, MOST_LOSSES + 1)
    assert row["reason"] == "was lost: its shepherd was killed"


def test_a_job_that_must_not_be_queued_again_ends_when_it_is_lost(office: Open) -> None:
    control = office(1)
    control.submit(requeue=False, retries=5)
    control.lose("1")
    assert (control.row("1")["state"], control.row("1")["attempt"]) == ("FAILED", 1)


def test_a_loss_is_no_failure_and_costs_no_retry(office: Open) -> None:
    control = office(1)
    control.submit(retries=1)
    control.lose("1")
    control.wait(1.0)
    control.end("1", exit_code=1)
    control.wait(1.0)
    assert control.running() == {"1"}


# ---- limits


def test_a_job_that_runs_past_its_limit_is_stopped_and_has_failed(office: Open) -> None:
    control = office(1)
    control.submit(time_s=60.0)
    assert control.control.next_time(control.now) == control.row("1")["started_at"] - 1.0 + 60.0
    assert kinds(control.wait(50.0)) == []
    assert kinds(control.wait(10.0)) == [("stop", "1", 1)]
    row = control.row("1")
    assert (row["state"], row["reason"], row["exit_code"]) == ("FAILED", "ran past its limit of 60 s", 124)
    assert control.node.attempts == {}


def test_time_without_devices_does_not_count_towards_the_limit(office: Open) -> None:
    control = office(1)
    control.submit()
    control.submit(time_s=60.0)
    assert kinds(control.wait(1_000.0)) == []
    control.end("1")
    assert kinds(control.wait(50.0)) == []
    assert kinds(control.wait(20.0)) == [("stop", "2", 1)]


def test_the_limit_counts_all_attempts(office: Open) -> None:
    control = office(1)
    control.submit(time_s=60.0)
    control.wait(40.0)
    control.lose("1")
    control.wait(100.0)
    assert control.running() == {"1"}
    assert kinds(control.wait(20.0)) == [("stop", "1", 2)]


# ---- holding


def test_a_job_submitted_on_hold_waits_for_its_release(office: Open) -> None:
    control = office(1)
    control.submit(hold=True)
    assert control.reason("1") == "held by its owner"
    assert control.release("1") == ["1"]
    assert control.running() == {"1"}
    assert control.ask(Release("1")) == {"ids": []}, "it is not held"


def test_a_running_job_cannot_be_held(office: Open) -> None:
    control = office(1)
    control.submit()
    with pytest.raises(ConflictError, match="job 1 runs, and only a waiting job can be held"):
        control.hold("1")


def test_a_hold_does_not_lift_what_else_holds_the_job(office: Open) -> None:
    control = office(4)
    control.submit()
    control.submit(after=["1"], hold=True)
    control.release("2")
    assert control.reason("2") == "starts once 1 has succeeded"
    control.hold("2")
    control.end("1")
    assert control.reason("2") == "held by its owner"
    control.release("2")
    assert control.running() == {"2"}


@pytest.mark.parametrize("wish", [Cancel("7"), Release("7"), Cancel("7_1"), Cancel("99999999999999999999")])
def test_nobody_can_do_anything_to_a_job_that_there_is_not(office: Open, wish: Cancel | Release) -> None:
    with pytest.raises(NotFoundError, match="there is no job"):
        office().ask(wish)


def test_a_waiting_job_cancelled_twice_in_one_instant_has_been_cancelled(office: Open) -> None:
    control = office()
    control.submit(hold=True)
    first, second = control.instant(Cancel("1"), Cancel("1")).answers
    assert first == {"ids": ["1"]}
    assert str(second) == "job 1 was cancelled already\nhint: weft status 1"


def test_stopping_everything_ends_what_runs_and_starts_nobody(office: Open) -> None:
    control = office(1)
    control.submit()
    control.submit()
    outcome = control.instant(StopAll())
    assert outcome.answers == [{"ids": ["1"]}]
    assert kinds(outcome.orders) == [("stop", "1", 1)]
    assert control.control.is_stopping
    control.hear()
    assert not control.control.is_stopping
    assert control.row("1")["reason"] == "ended by weft down --stop-jobs"
    assert control.states() == {"1": "CANCELLED", "2": "PENDING"}, "nobody starts while weft goes down"
    control.restart()
    assert kinds(control.hello(devices(1)).orders) == [("run", "2", 1)]


# ---- the same twice


def test_a_submission_sent_again_is_the_same_submission(office: Open) -> None:
    control = office(1)
    first = control.ask(request(array="1-3", request_id="abc"))
    assert control.ask(request(array="1-3", request_id="abc")) == first
    control.cancel("1_2")
    control.restart()
    assert control.ask(request(array="1-3", request_id="abc")) == first
    assert control.ask(request(request_id="abd"))["id"] == "2"


def test_a_submission_sent_twice_in_one_instant_is_one(office: Open) -> None:
    control = office(1)
    first, second = control.instant(
        request(request_id="abc", array="1-2"), request(request_id="abc", array="1-2")
    ).answers
    assert first == second == {"id": "1", "ids": ["1_1", "1_2"]}
    assert len(control.states()) == 2


def test_a_late_word_about_a_job_that_is_over_changes_nothing(office: Open) -> None:
    control = office(1)
    control.submit()
    control.end("1")
    before = control.row("1")
    outcome = control.instant(
        AttemptReport("1", 1, "ended", {"exit_code": 1}), AttemptReport("99", 1, "started", {"pids": []})
    )
    assert (outcome.facts, outcome.orders) == ([], [])
    assert control.row("1") == before


def test_a_long_chain_behind_a_failure_is_cancelled_whole(office: Open) -> None:
    control = office(1)
    control.instant(request(), *(request(after=[str(number)]) for number in range(1, 1_500)))
    control.hear()
    control.end("1", exit_code=1)
    assert set(control.states().values()) == {"FAILED", "CANCELLED"}


def test_a_job_is_not_found_under_a_number_with_zeros_before_it(office: Open) -> None:
    control = office()
    control.submit()
    with pytest.raises(NotFoundError, match="there is no job 01"):
        control.cancel("01")
