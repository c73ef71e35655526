"""What owners ask for, at the desk: to pause and to go on, and to run again."""

from __future__ import annotations

import json

import pytest
from office import Open, kinds, request

from weft.control.inputs import Cancel, Pause
from weft.control.refusals import ConflictError, NotFoundError
from weft.control.resubmission import resubmission
from weft.core.reasons import Code

GB = 1 << 30


def test_a_pause_frees_the_device_and_only_its_owner_ends_it(office: Open) -> None:
    desk = office(1)
    desk.submit()
    orders = desk.instant(Pause("1")).orders
    assert kinds(orders) == [("pause", "1", 1)]
    assert orders[0]["needs_bytes"] == 0
    desk.hear()
    desk.submit()
    assert desk.states() == {"1": "PAUSED", "2": "RUNNING"}
    desk.restart()
    desk.end("2")
    assert (desk.states()["1"], desk.reason("1")) == ("PAUSED", "paused by its owner")
    assert desk.release("1") == ["1"]
    assert desk.states()["1"] == "RUNNING"
    assert (desk.row("1")["attempt"], desk.row("1")["preemptions"]) == (1, 0)


def test_a_paused_job_is_told_when_others_come_who_may_need_its_memory(office: Open) -> None:
    desk = office(1)
    desk.submit(gpu_mem_bytes=3 * GB)
    desk.instant(Pause("1"))
    desk.hear()
    orders = desk.instant(request(gpu_mem_bytes=6 * GB)).orders
    assert kinds(orders) == [("pause", "1", 1), ("run", "2", 1)]
    assert (orders[0]["needs_bytes"], orders[0]["comers"]) == (6 * GB, ["2"])
    assert kinds(desk.instant(request()).orders) == []


def test_a_pause_said_again_changes_nothing_and_one_that_ends_is_not_paused(office: Open) -> None:
    desk = office(1)
    desk.submit()
    assert desk.ask(Pause("1")) == {"ids": ["1"]}
    assert desk.ask(Pause("1")) == {"ids": []}
    desk.node.lingers = True
    desk.ask(Cancel("1"))
    with pytest.raises(ConflictError, match="is being ended"):
        desk.ask(Pause("1"))
    desk.node.end("1", 143)
    desk.hear()
    assert desk.states() == {"1": "CANCELLED"}


def test_a_paused_job_that_left_with_a_checkpoint_stays_paused_and_goes_on_from_it(office: Open) -> None:
    desk = office(1)
    desk.submit()
    desk.node.leaves = True
    desk.instant(Pause("1"))
    desk.hear()
    assert (desk.states()["1"], desk.reason("1")) == ("PENDING", "paused by its owner")
    desk.restart()
    desk.release("1")
    assert (desk.states()["1"], desk.row("1")["attempt"]) == ("RUNNING", 2)


def test_a_paused_element_keeps_its_place_within_the_limit_of_its_array(office: Open) -> None:
    desk = office(2)
    desk.submit(array="1-3%1")
    desk.instant(Pause("1_1"))
    desk.hear()
    assert desk.states() == {"1_1": "PAUSED", "1_2": "PENDING", "1_3": "PENDING"}
    assert Code.ARRAY_LIMIT in desk.desk.job("1_2").held_for


# ---- again


def test_a_job_is_resubmitted_with_its_environment_and_without_what_is_past(office: Open) -> None:
    desk = office(2)
    desk.submit()
    desk.submit(
        after=["1"], begin_at=1.0, name="mine", env={"A": "b"}, stdin=True, tty={"rows": 3, "cols": 4}, retries=2
    )
    desk.end("1")
    desk.end("2")
    desk.take_snapshot()
    again = resubmission(desk.store, "2", "r")
    assert again.env == {"A": "b"}
    before = json.loads(desk.row("2")["request"])
    past = ("after", "begin_at", "stdin", "tty", "array_limit")
    kept = {key: value for key, value in again.request.items() if key not in past}
    assert kept == {key: before[key] for key in kept}
    assert [again.request[key] for key in past] == [[], None, False, None, None]
    assert desk.ask(again) == desk.ask(again) == {"id": "3", "ids": ["3"]}


def test_an_environment_that_is_gone_is_said_to_be(office: Open) -> None:
    desk = office(1)
    desk.submit()
    desk.end("1")
    desk.take_snapshot(keep_s=0.0)
    with pytest.raises(ConflictError, match="not kept any more") as caught:
        resubmission(desk.store, "1", None)
    assert "weft submit -- true" in caught.value.hint


def test_what_has_not_ended_or_never_was_is_not_resubmitted(office: Open) -> None:
    desk = office(1)
    desk.submit(array="1-2")
    desk.end("1_1")
    for wanted in ("1", "1_2"):
        with pytest.raises(ConflictError, match="not ended"):
            resubmission(desk.store, wanted, None)
    for wanted in ("7", "1_9", "7_1"):
        with pytest.raises(NotFoundError):
            resubmission(desk.store, wanted, None)
    assert resubmission(desk.store, "1_1", None).request["array_indices"] == [1]
