"""A job that writes to its own records on disk. It ends as it really ended, or is lost with a reason."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from arrays import Attackers, crowded_box
from box import Attack, Box
from damage import DAMAGED_RECORDS, DAMAGED_STATUSES, FUZZ, THINGS

FORGER = """
import json, os, signal, time
from pathlib import Path

folder = Path(os.environ["WEFT_HOME"], "jobs", os.environ["WEFT_JOB_ID"], "attempts", os.environ["WEFT_ATTEMPT"], "0")
print("pid", os.getpid(), flush=True)
(folder / "status.json").write_text(json.dumps({status}))
if {kills}:
    os.kill(os.getppid(), signal.SIGKILL)
time.sleep({sleep_s})
os._exit(5)
"""
FORGED = {"exit_code": 0, "at_s": 1.0, "by": "shepherd", "message": "it went well"}
ANOTHERS = """
import json, os, time
from pathlib import Path
from weft.runtime.procfs import PARENT, fields, start_time

folder = Path(os.environ["WEFT_HOME"], "jobs", os.environ["WEFT_JOB_ID"], "attempts", os.environ["WEFT_ATTEMPT"], "0")
boot = json.loads((folder / "shepherd.json").read_text())["boot_id"]
pid = {pid}
(folder / "shepherd.json").unlink()
(folder / "shepherd.json").write_text(json.dumps({"pid": pid, "start": start_time(pid), "boot_id": boot}))
print("forged", flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    yield from crowded_box(tmp_path_factory.mktemp("hostile"))


def test_the_true_status_wins_over_what_stands_in_its_place(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "statuses", len(DAMAGED_STATUSES))
    attackers.go()
    for index, name in enumerate(DAMAGED_STATUSES):
        with attack(f"records: {name}, then an end"):
            job = attackers.end_of(index)
            assert (job["state"], job["exit_code"]) == ("FAILED", 3), job


def test_a_damaged_status_without_a_shepherd_loses_the_attempt(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "orphaned", len(DAMAGED_STATUSES))
    attackers.go(but_not=range(len(DAMAGED_STATUSES)))
    for index, name in enumerate(DAMAGED_STATUSES):
        with attack(f"records: {name}, and the shepherd killed"):
            job = attackers.end_of(index)
            assert job["state"] == "FAILED", job
            assert "its record status.json is damaged" in job["reason"], job


def test_a_damaged_record_found_at_a_restart_loses_the_attempt(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "records", len(DAMAGED_RECORDS))
    box.send(box.pid("coordinator"), signal.SIGSTOP)
    attackers.go()
    box.kill("coordinator")
    for index, name in enumerate(DAMAGED_RECORDS):
        with attack(f"records at a restart: {name}"):
            job = attackers.end_of(index)
            assert job["state"] == "FAILED", job
            assert "is damaged" in job["reason"], job


def test_what_stands_in_the_place_of_a_log_is_not_waited_for(box: Box, attack: Attack) -> None:
    attackers = Attackers(box, "logs", len(THINGS))
    attackers.go()
    for index, name in enumerate(THINGS):
        with attack(f"records: {name} in the place of the log, which is read"):
            job_id = attackers.job_ids[index]
            status, said = box.rest("GET", f"/v1/jobs/{job_id}/logs")
            assert status in (404, 409), said
    done = box.weft("logs", attackers.job_ids[2])
    assert "is not a regular file" in done.stderr
    box.says("cancel", *attackers.job_ids)


def test_a_forged_status_frees_nothing_that_still_runs(box: Box, attack: Attack) -> None:
    forger = FORGER.replace("{status}", repr(FORGED))
    with attack("records: a forged status while the shepherd lives"):
        job_id = box.submit_python(forger.replace("{kills}", "False").replace("{sleep_s}", "0.5"), "--no-requeue")
        job = box.wait_for(job_id)
        assert (job["state"], job["exit_code"]) == ("FAILED", 5), job
    with attack("records: a forged status, and the shepherd killed"):
        job_id = box.submit_python(forger.replace("{kills}", "True").replace("{sleep_s}", "3600"), "--no-requeue")
        box.wait_for(job_id)
        assert not box.is_alive(int(box.log(job_id).split()[1])), "it computes on devices that it has lost"


def test_a_forged_shepherd_has_nobody_signalled(box: Box, attack: Attack) -> None:
    """The coordinator that comes after has nothing but the record to know it by."""
    neighbour = box.bystanders[0]
    page = f"{box.home.run}/{neighbour.job_id}.1.0.page"
    pid = box.python("import struct, sys; print(*struct.unpack_from('=Q', open(sys.argv[1], 'rb').read(), 48))", page)
    leader = pid.stdout.strip()
    whose = {
        "a neighbour": leader,
        "the neighbour's shepherd": f"int(fields({leader})[PARENT])",
        "the coordinator": "int(Path(os.environ['WEFT_HOME'], 'node.lock').read_text())",
        "the daemon": "int(Path(os.environ['WEFT_HOME'], 'daemon.lock').read_text())",
    }
    forgers = {name: box.submit_python(ANOTHERS.replace("{pid}", each), "--no-requeue") for name, each in whose.items()}
    for job_id in forgers.values():
        box.wait_for(job_id, "RUNNING", "FAILED")
    box.kill("coordinator")
    for name, job_id in forgers.items():
        with attack(f"records at a restart: {name} is its shepherd"):
            box.weft("cancel", job_id)
            box.wait_for(job_id)
            assert box.is_alive(int(leader))


def test_jobs_that_write_anything_anywhere_end_themselves_alone(box: Box, attack: Attack) -> None:
    """They may well write what is sane, and end as if nothing had been."""
    attackers = Attackers(box, "fuzz", len(FUZZ))
    attackers.go(but_not=range(len(FUZZ)))
    for index, name in enumerate(FUZZ):
        with attack(f"records: page, records and run folder, {name}"):
            if index == len(FUZZ) // 2:
                box.kill("coordinator")
            box.wait_for(attackers.job_ids[index])
