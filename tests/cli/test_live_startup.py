"""Real jobs, more than there are devices, each of which takes long to its first step: nobody is paused before it."""

from __future__ import annotations

import sys
from pathlib import Path

from livehome import Live

from waiting import wait_until

COUNT = 8
# It "imports" until there is such a file, makes steps until there is another, and says what it is about to do.
SLOW_TO_START = """
import os, pathlib, sys, time
import weft
gate, over, told = map(pathlib.Path, sys.argv[1:])
told.write_text("imports")
while not gate.exists():
    time.sleep(0.01)
told.write_text("steps")
while not over.exists():
    with weft.step():
        time.sleep(0.01)
"""


def test_nobody_is_paused_before_its_first_step(own: Live, tmp_path: Path) -> None:
    """Each that starts is let past its imports only when it has stood in them for longer than any quantum."""
    script, over = tmp_path / "slow.py", tmp_path / "over"
    script.write_text(SLOW_TO_START)
    own.home.make()
    own.home.settings.write_text("startup_s = 250\n")
    own.says("up", "--devices", "cpu=2", "--policy", "weft:thresholds=0.5/1/2/4")
    gates, told = ([tmp_path / f"{what}{at}" for at in range(COUNT)] for what in ("gate", "told"))
    ids = [
        own.submit("--", sys.executable, str(script), str(gates[at]), str(over), str(told[at])) for at in range(COUNT)
    ]

    def steps(at: int) -> int:
        return int(own.job(ids[at])["steps"] or 0)

    for first in range(0, COUNT, 2):
        pair = (first, first + 1)
        wait_until(lambda pair=pair: all(told[at].exists() for at in pair), f"jobs {pair} import")
        assert [own.job(ids[at])["state"] for at in pair] == ["RUNNING"] * 2
        assert all("starting up" in own.job(ids[at])["reason"] for at in pair)
        held_s = own.job(ids[first])["run_s"] + 3.0  # longer than all thresholds but the last
        wait_until(lambda held_s=held_s, first=first: own.job(ids[first])["run_s"] > held_s, "time goes by")
        assert not any(told[at].exists() for at in range(first + 2, COUNT)), "nobody else has started meanwhile"
        for at in pair:
            gates[at].touch()
        wait_until(lambda pair=pair: all(steps(at) for at in pair), f"jobs {pair} make steps")
    over.touch()
    for job_id in ids:
        wait_until(lambda job_id=job_id: own.job(job_id)["state"] == "SUCCEEDED", f"{job_id} has ended")
        for one in own.json("why", job_id)["preemptions"]:
            assert one.get("step") != 0, f"{job_id} was paused before its first step: {one}"


def test_a_job_without_steps_gives_way_when_its_time_to_start_up_is_over(own: Live, tmp_path: Path) -> None:
    own.home.make()
    own.home.settings.write_text("startup_s = 2\npause_grace_s = 0.2\n")
    own.says("up", "--devices", "cpu=1", "--policy", "tiresias-l:thresholds=1")
    hanging, other = own.submit("--", "sleep", "600"), own.submit("--", "true")
    assert "starting up" in own.says("queue") or own.job(hanging)["state"] != "RUNNING"
    own.is_("SUCCEEDED", other)
    assert own.job(hanging)["preemptions"] == 1
