"""Device memory under a real daemon: what a job may use, what happens to the rest, and making room by swapping out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from livehome import Live

from waiting import PATIENCE_S, wait_until
from weft.client import Client
from weft.runtime.allocator import library_path

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library"),
]

MB = 1 << 20
# P is three times the weights: they, their gradients, their momentum. It takes its time until it is told to hurry.
TRAIN = """
import hashlib, os, sys, time, torch
width, steps, hurry = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
model = torch.nn.Linear(width, width)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(steps):
    loss = model(torch.randn(8, width)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
    time.sleep(0 if os.path.exists(hurry) else 0.3)
print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest(), flush=True)
"""
HURRIED = "/"
LATEST_FIRST = """
from weft import KeyedOrder
class Latest(KeyedOrder):
    preempts = True
    def key(self, job, now):
        return (-int(job.id), job.tie)
"""


def train(width: int, steps: int, hurry: Path | str = HURRIED) -> list[str]:
    return [sys.executable, "-c", TRAIN, str(width), str(steps), str(hurry)]


def alone(live: Live, command: list[str]) -> subprocess.Popen[str]:
    """Without weft, and on one thread as all jobs here."""
    env = {**live.env, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def own(own: Live) -> Live:
    own.env["OMP_NUM_THREADS"] = "1"
    own.home.make()
    return own


def ended(live: Live, job_id: str) -> dict[str, Any]:
    with Client(live.home) as client:
        return client.wait(job_id, PATIENCE_S)


def test_what_is_over_gpu_mem_goes_to_disk_and_the_job_computes_the_same(own: Live) -> None:
    reference = alone(own, train(2800, 4))
    own.up()
    job_id = own.submit("--gpu-mem", "64M", "--", *train(2800, 4))
    job = ended(own, job_id)
    assert job["state"] == "SUCCEEDED", own.says("logs", job_id)
    assert own.says("logs", job_id) == reference.communicate()[0]
    memory = job["memory"]
    assert memory["persistent_bytes"] > 85 * MB
    assert memory["overflow_bytes"] > 20 * MB
    assert 30 * MB < memory["peak_bytes"] <= memory["limit_bytes"] == 64 * MB
    listed = next(each for each in own.json("history") if each["id"] == job_id)
    assert listed["memory"] == memory
    said = own.says("status", job_id)
    assert re.search(r"^memory: +P 8.\.?.?M, T .+, peak .+ of 64M allowed, overflow .+M$", said, re.MULTILINE), said
    assert own.home.tier.stat().st_mode & 0o777 == 0o700
    assert list(own.home.tier.iterdir()) == []


def test_with_strict_memory_the_job_fails_and_says_why(own: Live) -> None:
    own.home.settings.write_text("strict_memory = true\n")
    own.up()
    job_id = own.submit("--gpu-mem", "64M", "--", *train(2800, 4))
    assert ended(own, job_id)["state"] == "FAILED"
    log = own.says("logs", job_id)
    assert re.search(r"^weft: .*limit 64\.0 MiB.*peak \d", log, re.MULTILINE), log
    assert "RuntimeError" in log


def test_a_job_is_swapped_out_where_memory_is_short_and_goes_on_to_the_same_result(own: Live, tmp_path: Path) -> None:
    hurry = tmp_path / "hurry"
    reference = alone(own, train(5000, 20))
    Path("latest.py").write_text(LATEST_FIRST)
    own.says("up", "--devices", "cpu=1", "--policy", "latest.py:Latest")
    (device,) = own.json("nodes")[0]["devices"]
    first = own.submit("--", *train(5000, 20, hurry))
    with Client(own.home) as client:
        wait_until(lambda: (client.status(first)["memory"]["persistent_bytes"] or 0) > 280 * MB, "it is measured")
    assert own.json("nodes")[0]["devices"][0]["used_bytes"] > 280 * MB
    # With its tensors it holds some 620 MB, without them some 320.
    room_bytes = 470 * MB
    second = own.submit("--gpu-mem", str(device["memory_bytes"] - room_bytes), "--", "true")
    assert ended(own, second)["state"] == "SUCCEEDED"
    hurry.touch()
    job = ended(own, first)
    assert (job["state"], job["attempt"], job["preemptions"]) == ("SUCCEEDED", 1, 1), own.says("logs", first)
    (preemption,) = own.json("why", first)["preemptions"]
    assert (preemption["how"], preemption["depth"]) == ("boundary", "swap-out")
    assert 0 < preemption["held_bytes"] < room_bytes
    assert own.says("logs", first) == reference.communicate()[0]
