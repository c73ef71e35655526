"""Dependencies of every kind, times to begin, CPU cores, named devices and priorities at the desk, on a real log."""

from __future__ import annotations

import math
from typing import Any

import pytest
from office import BEGIN, MACHINE, Office, Open, devices, request
from pydantic import ValidationError

from weft.control.inputs import Hello
from weft.control.models import JobRequest
from weft.control.views import in_words
from weft.core.errors import InputError


def reason(desk: Office, job_id: str) -> str:
    told = desk.desk.scheduler.reason(job_id, desk.now)
    return "" if told is None else in_words(told)


def with_cpus(desk: Office, cpus: int, found: list[dict[str, Any]] | None = None) -> None:
    desk.node.hello()
    desk.instant(Hello(MACHINE, found or devices(4), desk.boot_id, cpus=cpus))
    desk.hear()


# ---- dependencies


@pytest.mark.parametrize("exit_code", [0, 1])
def test_afterany_starts_whatever_became_of_the_other(office: Open, exit_code: int) -> None:
    desk = office()
    desk.submit()
    desk.submit(after=["afterany:1"])
    assert reason(desk, "2") == "starts once 1 is over"
    desk.end("1", exit_code)
    assert desk.states()["2"] == "RUNNING"


def test_afternotok_starts_when_the_other_has_failed_or_was_cancelled(office: Open) -> None:
    desk = office()
    desk.submit()
    desk.submit(hold=True)
    desk.submit(after=["afternotok:1"])
    desk.submit(after=["afternotok:2"])
    assert reason(desk, "3") == "starts once 1 has failed"
    desk.end("1", 1)
    desk.cancel("2")
    desk.hear()
    assert {desk.states()[each] for each in "34"} == {"RUNNING"}


def test_afternotok_is_cancelled_when_the_other_succeeds_and_says_why(office: Open) -> None:
    desk = office()
    desk.submit()
    desk.submit(after=["afternotok:1"])
    desk.submit(after=["afterany:2"])
    desk.end("1")
    assert desk.row("2")["state"] == "CANCELLED"
    assert desk.row("2")["reason"] == "job 1, whose failure it waits for, has succeeded"
    assert desk.states()["3"] == "RUNNING"


@pytest.mark.parametrize(("codes", "state"), [((0, 0), "CANCELLED"), ((0, 1), "RUNNING"), ((1, 0), "RUNNING")])
def test_afternotok_of_an_array_waits_for_all_and_wants_one_failure(
    office: Open, codes: tuple[int, int], state: str
) -> None:
    desk = office()
    desk.submit(array="0-1")
    desk.submit(after=["afternotok:1"])
    desk.end("1_0", codes[0])
    assert desk.states()["2"] == "PENDING"
    desk.restart()
    desk.end("1_1", codes[1])
    assert (desk.states() | {"2": desk.row("2")["state"]})["2"] == state


def test_mixed_dependencies_survive_a_restart(office: Open) -> None:
    desk = office()
    for _ in range(3):
        desk.submit()
    desk.submit(after=["1", "afterany:2", "afternotok:3"])
    assert reason(desk, "4") == "starts once 1 has succeeded and 2 is over and 3 has failed"
    desk.restart()
    desk.end("1")
    desk.end("2", 1)
    assert desk.states()["4"] == "PENDING"
    desk.restart()
    desk.end("3", 1)
    assert desk.states()["4"] == "RUNNING"


def test_what_can_never_be_met_is_refused_at_once(office: Open) -> None:
    desk = office()
    desk.submit()
    desk.end("1")
    with pytest.raises(InputError, match="whose failure it waits for, has succeeded"):
        desk.submit(after=["afternotok:1"])
    desk.submit(after=["afterany:1"])
    with pytest.raises(InputError, match="if 2 succeeds and if it fails"):
        desk.submit(after=["afterok:2", "afternotok:2"])


# ---- when it begins


def test_a_job_begins_when_its_time_has_come_also_after_a_restart(office: Open) -> None:
    desk = office()
    desk.submit(begin_at=BEGIN + 1000)
    assert desk.states() == {"1": "PENDING"}
    assert reason(desk, "1").startswith("begins at 2023-11-1")
    assert desk.desk.next_time(desk.now) == BEGIN + 1000
    desk.restart()
    assert desk.states() == {"1": "PENDING"}
    desk.wait(BEGIN + 999 - desk.now)
    assert desk.states() == {"1": "PENDING"}
    desk.wait(1.0)
    assert desk.states() == {"1": "RUNNING"}
    desk.restart()
    assert desk.states() == {"1": "RUNNING"}
    assert desk.desk.job("1").wait_s(desk.now) == 0.0


def test_a_time_that_has_passed_holds_nothing_up(office: Open) -> None:
    desk = office()
    desk.submit(begin_at=BEGIN - 1000)
    assert desk.states() == {"1": "RUNNING"}


def test_a_job_that_is_cancelled_before_it_begins_never_does(office: Open) -> None:
    desk = office()
    desk.submit(begin_at=BEGIN + 100)
    desk.cancel("1")
    desk.wait(200)
    assert desk.row("1")["state"] == "CANCELLED"
    desk.desk.scheduler.ledger.validate()


# ---- CPU cores


def test_jobs_that_declare_cores_wait_for_them_and_say_so(office: Open) -> None:
    desk = office(4, "backfill")
    with_cpus(desk, 4)
    desk.submit(cpus=3)
    desk.submit(cpus=2)
    desk.submit()
    assert desk.states() == {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}
    assert reason(desk, "2") == "needs 2 CPU cores; free: 1"
    desk.restart()
    desk.end("1")
    assert desk.running() == {"2", "3"}


def test_cores_are_for_each_task(office: Open) -> None:
    desk = office(4, "backfill")
    with_cpus(desk, 4)
    desk.submit(cpus=2, ntasks=2)
    desk.submit(cpus=1)
    assert desk.states() == {"1": "RUNNING", "2": "PENDING"}
    with pytest.raises(InputError, match="asks for 6 CPU cores, 3 for each of 2 tasks, and there are only 4"):
        desk.submit(cpus=3, ntasks=2)


def test_a_log_of_before_cores_were_counted_is_told_of_them_by_the_next_hello(office: Open) -> None:
    desk = office(4, "backfill")
    desk.submit(cpus=3)
    desk.submit(cpus=3)
    assert desk.states() == {"1": "RUNNING", "2": "RUNNING"}
    desk.end("1")
    desk.end("2")
    with_cpus(desk, 4, [*desk.desk.floor.devices])
    desk.restart()
    desk.submit(cpus=3)
    desk.submit(cpus=3)
    assert (desk.states()["3"], desk.states()["4"]) == ("RUNNING", "PENDING")


# ---- named devices


def test_a_job_has_the_devices_that_it_names_or_waits_for_them(office: Open) -> None:
    desk = office(4, "backfill")
    with_cpus(desk, 4)
    desk.submit(gpu_ids=[2])
    desk.submit(gpu_ids=[1, 2])
    desk.submit()
    assert desk.node.attempts["1"].devices == [2]
    assert desk.states() == {"1": "RUNNING", "2": "PENDING", "3": "RUNNING"}
    assert reason(desk, "2") == "needs the devices 1, 2; in use: 2"
    desk.end("1")
    desk.restart()
    assert desk.node.attempts["2"].devices == [1, 2]
    desk.desk.scheduler.ledger.validate()


def test_a_device_that_is_not_there_is_refused(office: Open) -> None:
    desk = office()
    with pytest.raises(InputError, match="there is no device 7 here"):
        desk.submit(gpu_ids=[0, 7])


def test_named_devices_are_of_one_type(office: Open) -> None:
    desk = office(4, "backfill")
    mixed = devices(2, "A100") + [{**device, "index": device["index"] + 2} for device in devices(2, "V100")]
    with_cpus(desk, 8, mixed)
    with pytest.raises(InputError, match="of several types: A100, V100"):
        desk.submit(gpu_ids=[1, 2])
    desk.submit(gpu_ids=[3])
    assert desk.node.attempts["1"].devices == [3]


# ---- priorities


def test_a_tenant_s_own_job_of_a_higher_priority_goes_first_and_nobody_else_s(office: Open) -> None:
    desk = office(1)
    desk.submit()
    desk.submit(tenant="ada")
    desk.submit(tenant="bo", priority=100)
    desk.submit(tenant="ada", priority=5)
    desk.restart()
    line = [job.id for job in desk.desk.scheduler.waiting_line(desk.now)]
    assert line == ["4", "3", "2"]
    desk.end("1")
    assert desk.states()["4"] == "RUNNING"
    desk.take_snapshot()
    desk.restart()
    desk.end("4")
    assert desk.states()["3"] == "RUNNING", "ada has had the turn that was hers before bo came"


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
def test_nonsense_is_refused_before_it_reaches_the_desk(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobRequest(command=["true"], **asked)


def test_the_order_says_where_to_write_and_how_many_cores(office: Open) -> None:
    desk = office()
    (order,) = desk.instant(request(output="out-%j.txt", cpus=2, name="fit")).orders
    launch = order["launch"]
    assert (launch["output"], launch["cpus"], launch["name"]) == ("out-%j.txt", 2, "fit")
