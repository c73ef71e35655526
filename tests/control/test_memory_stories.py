"""What is measured of a job's device memory: it lasts, is told to people, and says how much room the job needs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from office import Office, Open

from weft.control.api.explain import in_words, preemptions
from weft.control.api.views import Views, memory_json, nodes_json
from weft.control.loop.inputs import AttemptReport, Tick
from weft.control.loop.job_record import NOT_MEASURED, DeviceMemory, memory_of
from weft.control.store.log_store import LogStore, scripts, upgrade
from weft.core.reasons import Code, Reason
from weft.core.serialization import plain_reason
from weft.system.home import Home

SHORT = "tiresias-l:thresholds=10"
MEASURED = {"persistent_bytes": 100, "ephemeral_bytes": 30, "overflow_bytes": 20, "peak_bytes": 110}


def told(control: Office, job_id: str, **progress: Any) -> None:
    """As the node does once a second."""
    control.control.records[job_id].note({"attempt": 1, "step": 5, **MEASURED, **progress})


def shown(control: Office, job_id: str) -> Any:
    views, record = Views(Home(Path("/home"))), control.control.records.get(job_id)
    job = views.live(control.control, record, control.now) if record else views.ended(control.row(job_id))
    return job["memory"]


def test_an_attempt_of_which_nothing_is_measured_changes_nothing_and_the_peak_only_rises() -> None:
    memory = NOT_MEASURED.after(MEASURED)
    assert memory == DeviceMemory(100, 30, 20, 110)
    assert memory.after({"peak_bytes": 0}) is memory
    assert memory.after({}) is memory
    assert memory.after({**MEASURED, "persistent_bytes": 50, "peak_bytes": 60}) == DeviceMemory(50, 30, 20, 110)
    assert (memory.needs_bytes, NOT_MEASURED.needs_bytes) == (130, None)
    assert (memory.on_device_bytes, DeviceMemory(1, 0, 5).on_device_bytes) == (110, 0)


def test_a_page_that_a_job_has_written_over_is_no_reason_to_fail() -> None:
    assert memory_of(dict.fromkeys(MEASURED, 2**64 - 1)).peak_bytes == 2**53


def test_null_is_what_is_not_known() -> None:
    unknown = dict.fromkeys(MEASURED)
    assert memory_json(NOT_MEASURED, {"ntasks": 1}) == {**unknown, "limit_bytes": None}
    assert memory_json(NOT_MEASURED, {"ntasks": 2, "gpu_mem_bytes": 5}) == {**unknown, "limit_bytes": 10}
    assert memory_json(DeviceMemory(**MEASURED), {"ntasks": 1}) == {**MEASURED, "limit_bytes": None}


def test_it_is_known_while_the_job_runs_and_when_it_has_ended(office: Open) -> None:
    control = office(1)
    control.submit(gpu_mem_bytes=1 << 30)
    assert shown(control, "1") == {**dict.fromkeys(MEASURED), "limit_bytes": 1 << 30}
    told(control, "1", overflow_bytes=0)
    assert shown(control, "1") == {**MEASURED, "overflow_bytes": 0, "limit_bytes": 1 << 30}
    (device,) = nodes_json(control.control, is_up=True)[0]["devices"]
    assert (device["used_bytes"], device["jobs"]) == (130, ["1"])
    control.instant(AttemptReport("1", 1, "ended", {"exit_code": 0, "progress": {"step": 9, **MEASURED}}))
    assert shown(control, "1") == {**MEASURED, "limit_bytes": 1 << 30}
    assert shown(control, "1") == memory_json(memory_of(control.row("1")), json.loads(control.row("1")["request"]))


def test_it_outlives_the_daemon_and_the_attempt(office: Open) -> None:
    control = office(1)
    control.submit(retries=1)
    told(control, "1")
    control.end("1", exit_code=1)
    control.check_disk()
    control.restart()
    assert control.control.records["1"].memory == DeviceMemory(**MEASURED)


def test_one_that_leaves_with_a_checkpoint_has_told_what_it_needs(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    control.instant(Tick(), after_s=10.0)
    control.node.reports.clear()
    control.instant(AttemptReport("1", 1, "left", {"step": 4, "waited_s": 0.0, "progress": MEASURED}))
    assert control.control.records["1"].memory == DeviceMemory(**MEASURED)
    control.check_disk()


def pause_order(control: Office) -> dict[str, Any]:
    return next(order for order in control.instant(Tick(), after_s=10.0).orders if order["type"] == "pause")


def test_who_comes_again_needs_what_was_measured_of_it_and_what_it_holds_is_part_of_that(office: Open) -> None:
    control = office(1, SHORT)
    control.submit(), control.submit()
    first = pause_order(control)
    assert (first["job"], first["needs_bytes"], first["incoming"]) == ("1", None, ["2"])
    control.hear()
    told(control, "1")
    pauses = []
    for _ in range(200):
        pauses += [order for order in control.wait(10.0) if order["type"] == "pause" and order["job"] == "2"]
        if pauses:
            break
    assert (pauses[0]["needs_bytes"], pauses[0]["incoming"]) == (130, ["1"])


def test_what_was_declared_goes_before_what_was_measured(office: Open) -> None:
    control = office(2, SHORT)
    control.submit(gpus=2)
    control.submit(gpus=2, ntasks=2, gpu_mem_bytes=1 << 30)
    told(control, "2")
    assert pause_order(control)["needs_bytes"] == 2 << 30, "each of two tasks may use so much"


def test_who_gets_a_part_of_the_devices_needs_a_part_of_its_memory_there(office: Open) -> None:
    control = office(2, SHORT)
    control.submit(), control.submit()
    control.submit(gpus=2, gpu_mem_bytes=1 << 30)
    pauses = [order for order in control.instant(Tick(), after_s=10.0).orders if order["type"] == "pause"]
    assert {order["job"]: order["needs_bytes"] for order in pauses} == {"1": 1 << 29, "2": 1 << 29}


def test_why_tells_what_a_paused_job_still_holds() -> None:
    reason = plain_reason(Reason(Code.PREEMPTED_FOR, ("2",)))
    paused = {
        "what": "paused",
        "depth": "swap-out",
        "step": 4,
        "how": "boundary",
        "waited_s": 0.1,
        "held_bytes": 9 << 20,
    }
    rows = [
        {"at": 1.0, "kind": "Preempt", "body": json.dumps({"reason": reason})},
        {"at": 2.0, "kind": "Reported", "body": json.dumps(paused)},
    ]
    (found,) = preemptions(rows)
    assert (found["depth"], found["held_bytes"]) == ("swap-out", 9 << 20)
    about = {"id": "1", "state": "RUNNING", "reason": "", "ahead_count": 0, "preemptions": [found]}
    assert in_words(about)[-1].endswith("paused at step 4 (depth swap-out) after 100 ms, holding 9 MiB")


def test_jobs_of_before_there_was_a_library_are_kept(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "weft.db", isolation_level=None)
    upgrade(old, scripts()[:1])
    request = json.dumps(
        {"name": "a", "tenant": "default", "class": "auto", "gpus": 1, "ntasks": 1, "gpu_mem_bytes": 7}
    )
    old.execute(
        "INSERT INTO jobs (id, number, name, tenant, class, state, submitted_at, finished_at, exit_code, request)"
        " VALUES ('1', 1, 'a', 'default', 'auto', 'SUCCEEDED', 1.0, 2.0, 0, ?)",
        (request,),
    )
    old.close()
    store = LogStore(tmp_path / "weft.db")
    row = store.one("job", "1")
    assert row is not None
    assert memory_json(memory_of(row), json.loads(row["request"])) == {**dict.fromkeys(MEASURED), "limit_bytes": 7}
    store.close()
