"""Lanes under a real daemon: a job that trains and one that only infers share a device, step by step in turns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from livehome import Live

from underweft import environment
from waiting import PATIENCE_S, wait_until
from weft.client import Client
from weft.node.task.handle import attach
from weft.node.task.rank import RankStatus
from weft.runtime.allocator import library_path

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library"),
]

# So many steps as the last word says, or, if that is 0, until there is such a file.
COMMON = """
import os, sys, torch
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
over, last = sys.argv[1], int(sys.argv[2])
made = 0
def goes_on():
    return made < last if last else not os.path.exists(over)
"""
TRAINING = f"""{COMMON}
optimizer = torch.optim.Adam(model.parameters())
while goes_on():
    loss = model(torch.randn(512, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    made += 1
    print(loss.item().hex(), flush=True)
"""
INFERENCE = f"""{COMMON}
model.eval()
with torch.no_grad():
    while goes_on():
        logits = model(torch.randn(512, 64))
        made += 1
        print(logits.sum().item().hex(), logits.max().item().hex(), flush=True)
"""
# A step sleeps in its turn, so that two in a lane make half of what each makes alone on any machine.
SLOW_STEPS = """
import os, sys, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not os.path.exists(sys.argv[1]):
    loss = model(torch.randn(512, 64)).pow(2).mean()
    time.sleep(0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCRIPTS = {"training": TRAINING, "inference": INFERENCE}


def rank(live: Live, job_id: str) -> RankStatus | None:
    page = live.home.page(job_id, 1, 0)
    if not page.exists():
        return None
    with attach(page) as task:
        return next(iter(task.status().ranks), None)


def takes_turns(live: Live, job_id: str, more: int = 20) -> RankStatus:
    """Wait until it has taken so many more of them, in its lane."""
    before = rank(live, job_id)
    least = before.turns + more if before else more

    def has_taken() -> bool:
        found = rank(live, job_id)
        return found is not None and found.is_in_lane and found.turns >= least

    wait_until(has_taken, f"{job_id} takes turns in its lane: {rank(live, job_id)}")
    found = rank(live, job_id)
    assert found is not None
    return found


def alone(kind: str, over: Path, steps: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPTS[kind], str(over), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def test_inference_beside_training_in_one_lane_takes_turns_and_both_print_what_they_print_alone(
    own: Live, tmp_path: Path
) -> None:
    own.env |= {"OMP_NUM_THREADS": "1", "WEFT_POISON": "1"}  # who reads what is not its own any more reads NaN
    over = tmp_path / "over"
    own.says("up", "--devices", "cpu=1:512M", "--policy", "salus:lanes=1")
    jobs = {
        kind: own.submit("--gpu-mem", "128M", "--", sys.executable, "-c", script, str(over), "0")
        for kind, script in SCRIPTS.items()
    }
    for job_id in jobs.values():
        takes_turns(own, job_id)
    seen = {kind: takes_turns(own, job_id) for kind, job_id in jobs.items()}  # both were there before
    with Client(own.home) as client:
        listed = {kind: client.status(job_id) for kind, job_id in jobs.items()}
        over.touch()
        states = [client.wait(job_id, PATIENCE_S)["state"] for job_id in jobs.values()]

    assert states == ["SUCCEEDED", "SUCCEEDED"], [own.says("logs", job_id) for job_id in jobs.values()]
    assert [(listed[kind]["lane"], listed[kind]["guest"]) for kind in jobs] == [(1, False), (1, True)]
    assert listed["training"]["devices"] == listed["inference"]["devices"]
    assert {kind: each.source for kind, each in seen.items()} == {"training": "optimizer", "inference": "forward"}
    assert all(each.turn_waited_s > 0 and each.ephemeral_bytes > 0 for each in seen.values()), seen
    printed = {kind: own.home.log(job_id, 0).read_text() for kind, job_id in jobs.items()}
    references = {kind: alone(kind, over, text.count("\n")) for kind, text in printed.items()}
    assert printed == {kind: each.communicate(timeout=PATIENCE_S)[0] for kind, each in references.items()}


def test_a_listing_tells_what_two_in_a_lane_make_of_their_time_not_how_long_their_steps_take(
    own: Live, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    own.says("up", "--devices", "cpu=1:512M", "--policy", "salus:lanes=1")
    command = ("--gpu-mem", "128M", "--", sys.executable, "-c", SLOW_STEPS, str(over))
    jobs = [own.submit(*command), own.submit(*command)]
    for job_id in jobs:
        takes_turns(own, job_id)

    def tells_half(job_id: str) -> bool:
        seen, listed_hz = rank(own, job_id), client.status(job_id)["step_rate_hz"]
        return bool(seen and seen.step_s and listed_hz) and 0.3 < listed_hz * seen.step_s < 0.75

    with Client(own.home) as client:
        for job_id in jobs:
            wait_until(lambda: tells_half(job_id), f"{job_id} is told to make half of its steps")  # noqa: B023
        over.touch()
        assert [client.wait(job_id, PATIENCE_S)["state"] for job_id in jobs] == ["SUCCEEDED", "SUCCEEDED"]
