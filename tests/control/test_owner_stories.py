"""What owners ask for, in the control state: to pause and to go on, and to run again."""

from __future__ import annotations

import json

import pytest
from office import Open, kinds, request

from weft.control.loop.inputs import Cancel, PauseByOwner
from weft.control.loop.requests import ConflictError, NotFoundError
from weft.control.service import resubmission
from weft.core.reasons import Code

GB = 1 << 30


def test_a_pause_frees_the_device_and_only_its_owner_ends_it(office: Open) -> None:
    control = office(1)
    control.submit()
    orders = control.instant(PauseByOwner("1")).orders
    assert kinds(orders) == [("pause", "1", 1)]
    assert orders[0]["needs_bytes"] == 0
    control.hear()
    control.submit()
    assert control.states() == {"1": "PAUSED", "2": "RUNNING"}
    control.restart()
    control.end("2")
    assert (control.states()["1"], control.reason("1")) == ("PAUSED", "paused by its owner")
    assert control.release("1") == ["1"]
    assert control.states()["1"] == "RUNNING"
    assert (control.row("1")["attempt"], control.row("1")["preemptions"]) == (1, 0)


def test_a_paused_job_is_told_when_others_come_who_may_need_its_memory(office: Open) -> None:
    control = office(1)
    control.submit(gpu_mem_bytes=3 * GB)
    control.instant(PauseByOwner("1"))
    control.hear()
    orders = control.instant(request(gpu_mem_bytes=6 * GB)).orders
    assert kinds(orders) == [("pause", "1", 1), ("run", "2", 1)]
    assert (orders[0]["needs_bytes"], orders[0]["incoming"]) == (6 * GB, ["2"])
    assert kinds(control.instant(request()).orders) == []


def test_a_pause_said_again_changes_nothing_and_one_that_ends_is_not_paused(office: Open) -> None:
    control = office(1)
    control.submit()
    assert control.ask(PauseByOwner("1")) == {"ids": ["1"]}
    assert control.ask(PauseByOwner("1")) == {"ids": []}
    control.node.lingers = True
    control.ask(Cancel("1"))
    with pytest.raises(ConflictError, match="is being ended"):
        control.ask(PauseByOwner("1"))
    control.node.end("1", 143)
    control.hear()
    assert control.states() == {"1": "CANCELLED"}


def test_a_paused_job_that_left_with_a_checkpoint_stays_paused_and_goes_on_from_it(office: Open) -> None:
    control = office(1)
    control.submit()
    control.node.leaves = True
    control.instant(PauseByOwner("1"))
    control.hear()
    assert (control.states()["1"], control.reason("1")) == ("PENDING", "paused by its owner")
    control.restart()
    control.release("1")
    assert (control.states()["1"], control.row("1")["attempt"]) == ("RUNNING", 2)


def test_a_paused_element_keeps_its_place_within_the_limit_of_its_array(office: Open) -> None:
    control = office(2)
    control.submit(array="1-3%1")
    control.instant(PauseByOwner("1_1"))
    control.hear()
    assert control.states() == {"1_1": "PAUSED", "1_2": "PENDING", "1_3": "PENDING"}
    assert Code.ARRAY_LIMIT in control.control.job("1_2").held_for


# ---- again


def test_a_job_is_resubmitted_with_its_environment_and_without_what_is_past(office: Open) -> None:
    control = office(2)
    control.submit()
    control.submit(
        after=["1"], begin_at=1.0, name="mine", env={"A": "b"}, stdin=True, tty={"rows": 3, "cols": 4}, retries=2
    )
    control.end("1")
    control.end("2")
    control.take_snapshot()
    again = resubmission(control.store, "2", "r")
    assert again.env == {"A": "b"}
    before = json.loads(control.row("2")["request"])
    past = ("after", "begin_at", "stdin", "tty", "array_limit")
    kept = {key: value for key, value in again.request.items() if key not in past}
    assert kept == {key: before[key] for key in kept}
    assert [again.request[key] for key in past] == [[], None, False, None, None]
    assert control.ask(again) == control.ask(again) == {"id": "3", "ids": ["3"]}


def test_an_environment_that_is_gone_is_said_to_be(office: Open) -> None:
    control = office(1)
    control.submit()
    control.end("1")
    control.take_snapshot(keep_s=0.0)
    with pytest.raises(ConflictError, match="not kept any more") as caught:
        resubmission(control.store, "1", None)
    assert "weft submit -- true" in caught.value.hint


def test_what_has_not_ended_or_never_was_is_not_resubmitted(office: Open) -> None:
    control = office(1)
    control.submit(array="1-2")
    control.end("1_1")
    for wanted in ("1", "1_2"):
        with pytest.raises(ConflictError, match="not ended"):
            resubmission(control.store, wanted, None)
    for wanted in ("7", "1_9", "7_1"):
        with pytest.raises(NotFoundError):
            resubmission(control.store, wanted, None)
    assert resubmission(control.store, "1_1", None).request["array_indices"] == [1]
