"""PyTorch jobs that die in a lane, or stand in it: the others go on, and end with what they print alone.

Nobody else is needed for that: those who launched the survivors are dead as well.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from underweft import SCRIPTS, Running, bare, environment, forked_under_weft, page_folder
from waiting import PATIENCE_S, wait_until
from weft.runtime.allocator import library_path
from weft.runtime.page import lane_page

VICTIM = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.randn(256, 512)).pow(2).mean().backward()
    optimizer.step()
"""
SURVIVORS = ("cnn", "ema_replay")
VICTIMS, AT_ONCE = int(os.environ.get("WEFT_TEST_DEATHS", "12")), 4
STOPPED_GRACE_S = 0.3

pytestmark = [pytest.mark.torch, pytest.mark.skipif(library_path() is None, reason="the native library was not built")]


@contextmanager
def in_lane(lane: Path, *command: str) -> Iterator[Running]:
    env = {**environment(), "WEFT_POISON": "1"}
    with forked_under_weft(sys.executable, *command, options=("--lane", str(lane)), env=env) as running:
        yield running


def pid_of(running: Running) -> int:
    return running.task.status().ranks[0].pid


def test_the_others_go_on_when_members_are_killed_or_stopped() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    with ExitStack() as stack:
        lane = stack.enter_context(page_folder()) / "lane"
        survivors = []
        for name in SURVIVORS:
            survivors.append(stack.enter_context(in_lane(lane, str(SCRIPTS / f"{name}.py"))))
            survivors[-1].task.pause(at_step=2, grace_s=PATIENCE_S)  # at once: it may be over before the next one comes
        with lane.open("r+b") as page:
            os.pwrite(page.fileno(), struct.pack("=Q", int(STOPPED_GRACE_S * 1e9)), 8 * lane_page.STOPPED_GRACE)
        for survivor in survivors:
            os.kill(survivor.process.pid, signal.SIGKILL)  # who launched it, not the job
        for first in range(0, VICTIMS, AT_ONCE):
            _bring_down(lane, survivors, chance, min(AT_ONCE, VICTIMS - first))
        for survivor in survivors:
            survivor.task.resume()
            wait_until(lambda survivor=survivor: survivor.task.is_over, "the survivor ends")
        for name, survivor in zip(SURVIVORS, survivors, strict=True):
            assert survivor.end()[0] == bare(SCRIPTS / f"{name}.py")


def _bring_down(lane: Path, survivors: list[Running], chance: random.Random, count: int) -> None:
    """Let so many victims train among the survivors, and end each of them while those take another step."""
    with ExitStack() as stack:
        victims = [stack.enter_context(in_lane(lane, "-c", VICTIM)) for _ in range(count)]
        for victim in victims:
            wait_until(lambda victim=victim: victim.task.step > 3, "the victim trains")
        for victim in victims:
            step = victim.task.step
            number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            wait_until(lambda victim=victim, step=step: victim.task.step > step, "it has turns")
            os.kill(pid_of(victim), number)
            for survivor in survivors:
                reached = survivor.task.step
                pause = survivor.task.pause(at_step=reached + 1, grace_s=PATIENCE_S)
                assert pause.how in ("boundary", "ended"), pause
            with suppress(ProcessLookupError):  # one that was stopped in its turn was killed by those who waited
                os.kill(pid_of(victim), signal.SIGKILL)
