"""Dependencies of every kind, times to begin, CPU cores, named devices and priorities, on a real log."""

from __future__ import annotations

import math
from typing import Any

import pytest
from office import BEGIN, MACHINE, Office, Open, devices, request
from pydantic import ValidationError

from weft.control.api.request_schemas import JobRequest
from weft.control.api.views import in_words
from weft.control.loop.inputs import NodeConnected
from weft.core.errors import InputError


def reason(control: Office, job_id: str) -> str:
    told = control.control.scheduler.reason(job_id, control.now)
    return "" if told is None else in_words(told)


def with_cpus(control: Office, cpus: int, found: list[dict[str, Any]] | None = None) -> None:
    control.node.hello()
    control.instant(NodeConnected(MACHINE, found or devices(4), control.boot_id, cpus=cpus))
    control.hear()


# ---- dependencies


@pytest.mark.parametrize("exit_code", [0, 1])
def test_afterany_starts_whatever_became_of_the_other(office: Open, exit_code: int) -> None:
    control = office()
    control.submit()
    control.submit(after=["afterany:1"])
    assert reason(control, "2") == "starts once 1 is over"
    control.end("1", exit_code)
    assert control.states()["2"] == "RUNNING"


def test_afternotok_starts_when_the_other_has_failed_or_was_cancelled(office: Open) -> None:
    control = office()
    control.submit()
    control.submit(hold=True)
    control.submit(after=["afternotok:1"])
    control.submit(after=["afternotok:2"])
    assert reason(control, "3") == "starts once 1 has failed"
    control.end("1", 1)
    control.cancel("2")
    control.hear()
    assert {control.states()[each] for each in "34"} == {"RUNNING"}


def test_afternotok_is_cancelled_when_the_other_succeeds_and_says_why(office: Open) -> None:
    control = office()
    control.submit()
    control.submit(after=["afternotok:1"])
    control.submit(after=["afterany:2"])
    control.end("1")
    assert control.row("2")["state"] == "CANCELLED"
    assert control.row("2")["reason"] == "job 1, whose failure it waits for, has succeeded"
    assert control.states()["3"] == "RUNNING"


@pytest.mark.parametrize(("codes", "state"), [((0, 0), "CANCELLED"), ((0, 1), "RUNNING"), ((1, 0), "RUNNING")])
def test_afternotok_of_an_array_waits_for_all_and_wants_one_failure(
    office: Open, codes: tuple[int, int], state: str
) -> None:
    control = office()
    control.submit(array="0-1")
    control.submit(after=["afternotok:1"])
    control.end("1_0", codes[0])
    assert control.states()["2"] == "PENDING"
    control.restart()
    control.end("1_1", codes[1])
    assert (control.states() | {"2": control.row("2")["state"]})["2"] == state


def test_mixed_dependencies_survive_a_restart(office: Open) -> None:
    control = office()
    for _ in range(3):
        control.submit()
    control.submit(after=["1", "afterany:2", "afternotok:3"])
    assert reason(control, "4") == "starts once 1 has succeeded and 2 is over and 3 has failed"
    control.restart()
    control.end("1")
    control.end("2", 1)
    assert control.states()["4"] == "PENDING"
    control.restart()
    control.end("3", 1)
    assert control.states()["4"] == "RUNNING"


def test_what_can_never_be_met_is_refused_at_once(office: Open) -> None:
    control = office()
    control.submit()
    control.end("1")
    with pytest.raises(InputError, match="whose failure it waits for, has succeeded"):
        control.submit(after=["afternotok:1"])
    control.submit(after=["afterany:1"])
    with pytest.raises(InputError, match="if 2 succeeds and if it fails"):
        control.submit(after=["afterok:2", "afternotok:2"])


# ---- when it begins


def test_a_job_begins_when_its_time_has_come_also_after_a_restart(office: Open) -> None:
    control = office()
    control.submit(begin_at=BEGIN + 1000)
    assert control.states() == {"1": "PENDING"}
    assert reason(control, "1").startswith("begins at 2023-11-1")
    assert control.control.next_time(control.now) == BEGIN + 1000
    control.restart()
    assert control.states() == {"1": "PENDING"}
    control.wait(BEGIN + 999 - control.now)
    assert control.states() == {"1": "PENDING"}
    control.wait(1.0)
    assert control.states() == {"1": "RUNNING"}
    control.restart()
    assert control.states() == {"1": "RUNNING"}
    assert control.control.job("1").wait_s(control.now) == 0.0


def test_a_time_that_has_passed_holds_nothing_up(office: Open) -> None:
    control = office()
    control.submit(begin_at=BEGIN - 1000)
    assert control.states() == {"1": "RUNNING"}


def test_a_job_that_is_cancelled_before_it_begins_never_does(office: Open) -> None:
    control = office()
    control.submit(begin_at=BEGIN + 100)
    control.cancel("1")
    control.wait(200)
    assert control.row("1")["state"] == "CANCELLED"
    control.control.scheduler.ledger.validate()


# ---- CPU cores


def test_jobs_that_declare_cores_wait_for_them_and_say_so(office: Open) -> None:
    control = office(4, "backfill")
    with_cpus(control, 4)
    control.submit(cpus=3)
    control.submit(cpus=2)
    control.submit()
    assert control.states() == {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}
    assert reason(control, "2") == "needs 2 CPU cores; free: 1"
    control.restart()
    control.end("1")
    assert control.running() == {"2", "3"}


def test_cores_are_for_each_task(office: Open) -> None:
    control = office(4, "backfill")
    with_cpus(control, 4)
    control.submit(cpus=2, ntasks=2)
    control.submit(cpus=1)
    assert control.states() == {"1": "RUNNING", "2": "PENDING"}
    with pytest.raises(InputError, match="asks for 6 CPU cores, 3 for each of 2 tasks, and there are only 4"):
        control.submit(cpus=3, ntasks=2)


def test_a_log_of_before_cores_were_counted_is_told_of_them_by_the_next_hello(office: Open) -> None:
    control = office(4, "backfill")
    control.submit(cpus=3)
    control.submit(cpus=3)
    assert control.states() == {"1": "RUNNING", "2": "RUNNING"}
    control.end("1")
    control.end("2")
    with_cpus(control, 4, [*control.control.inventory.devices])
    control.restart()
    control.submit(cpus=3)
    control.submit(cpus=3)
    assert (control.states()["3"], control.states()["4"]) == ("RUNNING", "PENDING")


# ---- named devices


def test_a_job_has_the_devices_that_it_names_or_waits_for_them(office: Open) -> None:
    control = office(4, "backfill")
    with_cpus(control, 4)
    control.submit(gpu_ids=[2])
    control.submit(gpu_ids=[1, 2])
    control.submit()
    assert control.node.attempts["1"].devices == [2]
    assert control.states() == {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}
    assert reason(control, "2") == "needs the devices 1, 2; in use: 2"
    control.end("1")
    control.restart()
    assert control.node.attempts["2"].devices == [1, 2]
    control.control.scheduler.ledger.validate()


def test_a_device_that_is_not_there_is_refused(office: Open) -> None:
    control = office()
    with pytest.raises(InputError, match="there is no device 7 here"):
        control.submit(gpu_ids=[0, 7])


def test_named_devices_are_of_one_type(office: Open) -> None:
    control = office(4, "backfill")
    mixed = devices(2, "A100") + [{**device, "index": device["index"] + 2} for device in devices(2, "V100")]
    with_cpus(control, 8, mixed)
    with pytest.raises(InputError, match="of several types: A100, V100"):
        control.submit(gpu_ids=[1, 2])
    control.submit(gpu_ids=[3])
    assert control.node.attempts["1"].devices == [3]


# ---- priorities


def test_a_tenant_s_own_job_of_a_higher_priority_goes_first_and_nobody_else_s(office: Open) -> None:
    control = office(1)
    control.submit()
    control.submit(tenant="ada")
    control.submit(tenant="bo", priority=100)
    control.submit(tenant="ada", priority=5)
    control.restart()
    line = [job.id for job in control.control.scheduler.waiting_line(control.now)]
    assert line == ["4", "3", "2"]
    control.end("1")
    assert control.states()["4"] == "RUNNING"
    control.take_snapshot()
    control.restart()
    control.end("4")
    assert control.states()["3"] == "RUNNING", "ada has had the turn that was hers before bo came"


# ---- what is refused

BAD: list[dict[str, Any]] = [
    {"priority": 101},
    {"priority": -101},
    {"priority": 0.5},
    {"cpus": 0},
    {"cpus": -1},
    {"cpus": 10**9},
    {"gpu_ids": []},
    {"gpu_ids": [0, 0]},
    {"gpu_ids": [-1]},
    {"gpu_ids": [10**12]},
    {"gpu_ids": [0, 1], "gpus": 1},
    {"gpu_ids": [0], "ntasks": 2},
    {"begin_at": math.nan},
    {"begin_at": math.inf},
    {"begin_at": -1.0},
    {"begin_at": 1e300},
    {"output": ""},
    {"output": "a\0b"},
    {"output": "x" * (1 << 20)},
    {"output": "folder/"},
    {"cwd": "/" + "x" * (1 << 20)},
    {"env": {f"V{i}": "" for i in range(20_001)}},
    {"after": ["afterwards:1"]},
    {"after": ["afterok:"]},
    {"after": ["afterok:1:2"]},
]


@pytest.mark.parametrize("asked", BAD, ids=lambda asked: str(asked)[:40])
def test_nonsense_is_refused_before_it_reaches_the_control_state(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobRequest(command=["true"], **asked)


def test_the_order_says_where_to_write_and_how_many_cores(office: Open) -> None:
    control = office()
    (order,) = control.instant(request(output="out-%j.txt", cpus=2, name="fit")).orders
    launch = order["launch"]
    assert (launch["output"], launch["cpus"], launch["name"]) == ("out-%j.txt", 2, "fit")
