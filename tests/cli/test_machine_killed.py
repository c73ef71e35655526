"""Everything of weft is killed at once, as when the power fails: what was lost is said, and what was not is not."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from livehome import Live

from waiting import wait_until

pytestmark = pytest.mark.torch

STEPS = """
import os, sys, time, weft
class Part:
    def state_dict(self):
        return {}
    def load_state_dict(self, state):
        pass
run = weft.init(part=Part()) if "save" in sys.argv else weft.init()
print("attempt", os.environ["WEFT_ATTEMPT"], "begins at", run.step, flush=True)
for number in range(run.step, run.step + (40 if os.environ["WEFT_ATTEMPT"] == "1" else 5)):
    with weft.step():
        time.sleep(0.01)
        if number == 20 and "save" in sys.argv:
            weft.checkpoint()
print("done", flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
FIRST_STEPS, LATER_STEPS = 40, 5
ALIVE = ("RUNNING", "PAUSED")


def kill_everything(live: Live) -> None:
    """Daemon, coordinator, shepherds and jobs: none of them sees another one die."""
    killed: set[int] = set()
    for number in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):  # twice: one may have been about to fork
        killed |= of_home(live)
        for pid in killed:
            os.kill(pid, number)
    wait_until(lambda: not of_home(live), "all are dead")


def of_home(live: Live) -> set[int]:
    return {int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal() and is_of(each, live)}


def is_of(process: Path, live: Live) -> bool:
    try:
        return str(live.home.root).encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def steps_command(*words: str) -> list[str]:
    Path("steps.py").write_text(STEPS)
    return ["--", sys.executable, "steps.py", *words]


def has_printed(live: Live, job_id: str, text: str) -> bool:
    log = live.home.log(job_id, 0)
    return log.exists() and text in log.read_text()


def begun(own: Live) -> dict[str, str]:
    """Jobs with and without a checkpoint, of an array, running, paused, waiting and held; by what they are."""
    own.home.make()
    own.home.settings.write_text("pause_grace_s = 0.2\n")
    own.says("up", "--devices", "cpu=2", "--policy", "gandiva:quantum_s=1")
    jobs = {"saved": own.submit(*steps_command("save"))}
    wait_until(lambda: has_printed(own, jobs["saved"], "done"), "it has made its steps")  # it loads torch, alone
    jobs["plain"] = own.submit(*steps_command())
    array = own.submit("--array", "1-2", *steps_command())
    jobs |= {"first": f"{array}_1", "second": f"{array}_2", "held": own.submit("--hold", *steps_command())}
    jobs["unwanted"] = own.submit("--no-requeue", *steps_command())
    started = [jobs[each] for each in ("plain", "saved", "first", "second", "unwanted")]
    wait_until(lambda: all(own.job(each)["steps"] == FIRST_STEPS for each in started), "all have made their steps")
    wait_until(lambda: {"RUNNING", "PAUSED"} <= {job["state"] for job in own.json("queue")}, "some pause")
    return jobs


def test_after_everything_was_killed_weft_says_what_was_lost_and_where_it_begins_again(own: Live) -> None:
    jobs = begun(own)
    kill_everything(own)

    said = own.weft("up", "--devices", "cpu=2").stderr
    anew = ", ".join([jobs["plain"], jobs["first"], jobs["second"]])
    assert f"warning: 3 jobs were lost and restarted from the beginning: {anew}\n" in said
    found = re.search(rf"warning: 1 job was lost and restarted from step (\d+): {jobs['saved']}\n", said)
    assert found, said
    assert f"warning: 1 job was lost and not restarted: {jobs['unwanted']}" in said
    named = [line.partition(": ")[2] for line in said.splitlines() if "lost" in line]
    assert not any(re.search(rf"\b{jobs['held']}\b", line.rpartition(": ")[2]) for line in named)

    for each in ("plain", "saved", "first", "second"):
        job_id, begins = jobs[each], int(found[1]) if each == "saved" else 0
        wait_until(lambda job_id=job_id: has_printed(own, job_id, "attempt 2"), "it has begun again")  # type: ignore[misc]
        job = own.job(job_id)
        assert begins <= job["steps"] <= begins + LATER_STEPS, "steps are of the attempt that runs"
        assert job["loss"]["attempt"] == 1
        assert has_printed(own, job_id, f"attempt 2 begins at {begins}\n")
        where = f"from step {begins}" if begins else "from the beginning"
        status = own.says("status", job_id).replace("restarts", "restarted")
        assert re.search(rf"(?m)^lost: +attempt 1, .*; restarted {where}$", status), status
        shown = f"at step {begins}" if begins else "from the beginning"
        assert re.search(rf"attempt 1 was lost: .*; the next one begins {shown}", own.says("why", job_id))
    listed = own.says("queue").replace("restarts", "restarted")
    assert len(re.findall("was lost, restarted from the beginning", listed)) == 3
    assert len(re.findall(rf"was lost, restarted from step {found[1]}", listed)) == 1
    assert "lost" not in own.says("status", jobs["held"]) + own.says("why", jobs["held"])
    assert own.job(jobs["unwanted"])["reason"].startswith("was lost")
    Path("end").touch()
    for each in ("plain", "saved", "first", "second"):
        own.is_("SUCCEEDED", jobs[each])
        wanted = int(found[1]) + LATER_STEPS if each == "saved" else LATER_STEPS
        assert own.job(jobs[each])["steps"] == wanted
        assert own.job(jobs[each])["losses"] == 1


def test_when_the_daemon_alone_is_killed_nothing_is_lost_and_nothing_is_said(own: Live) -> None:
    jobs = begun(own)
    own.kill_daemon()
    assert "lost" not in own.weft("up", "--devices", "cpu=2").stderr
    assert "lost" not in own.says("queue")
    for job_id in jobs.values():
        assert "lost" not in own.says("status", job_id) + own.says("why", job_id)
        assert own.job(job_id)["attempt"] == (job_id != jobs["held"])
    assert own.job(jobs["plain"])["steps"] == FIRST_STEPS


def test_a_job_that_was_lost_keeps_its_place_before_those_that_waited(own: Live) -> None:
    own.env |= {"WEFT_DEVICES": "cpu=1", "WEFT_POLICY": "fifo"}
    own.says("up")
    first, second = own.submit(*steps_command()), own.submit(*steps_command())
    wait_until(lambda: has_printed(own, first, "done"), "it has made its steps")
    kill_everything(own)
    done = own.weft("submit", "--hold", "--", "true")
    assert f"1 job was lost and restarted from the beginning: {first}\n" in done.stderr
    wait_until(lambda: has_printed(own, first, "attempt 2"), "it has begun again")
    assert own.job(second)["state"] == "PENDING"
