"""Two ranks over gloo: paused hundreds of times at random moments, they stand at the same step and never deadlock."""

from __future__ import annotations

import random
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from underweft import SCRIPTS, Running, bare, environment, forked_under_weft, marked_steps, under_weft
from waiting import PATIENCE_S, wait_until
from weft.node.sharing.throttle import SeatedGuest, Throttle
from weft.node.task.handle import Task
from weft.runtime.page.layout import LEFT_EXIT_CODE

DDP = SCRIPTS / "ddp.py"
PAUSES = 200
GATED = 40
HOLDER = """
import time, weft
while True:
    with weft.step(): time.sleep(0.002)
"""


@contextmanager
def torchrun(*words: str, script: Path = DDP, options: tuple[str, ...] = ()) -> Iterator[tuple[Task, list[Running]]]:
    """One task, in which torchrun starts both ranks."""
    command = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}")
    with under_weft(*command, str(script), *words, options=options) as running:
        yield running.task, [running]


@contextmanager
def task_per_rank(
    *words: str, script: Path = DDP, options: tuple[str, ...] = ()
) -> Iterator[tuple[Task, list[Running]]]:
    """Two tasks with a rank and a page each, as a coordinator launches them; both are forks."""
    gang = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    with ExitStack() as stack:
        runs = []
        for rank in ("0", "1"):
            env = {**environment(), **gang, "RANK": rank, "LOCAL_RANK": rank}
            start = forked_under_weft(sys.executable, str(script), *words, options=options, env=env)
            runs.append(stack.enter_context(start))
        task = Task([page for running in runs for page in running.task._pages])
        yield task, runs


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def steps_of(task: Task) -> set[int]:
    return {rank.step for rank in task.status().ranks if rank.state != "ended"}


@pytest.mark.parametrize("launch", [torchrun, task_per_rank])
def test_a_gang_paused_at_random_moments_stands_at_one_step_each_time(launch, tmp_path: Path) -> None:
    chance = random.Random(3)
    over = tmp_path / "over"
    with launch(str(over)) as (task, runs):
        wait_until(lambda: len(task.ranks) == 2, "both ranks have a page")
        for _ in range(PAUSES):
            pause = task.pause(grace_s=PATIENCE_S)
            assert pause.how == "boundary", pause
            assert steps_of(task) == {pause.step}
            task.resume()
            time.sleep(chance.random() * 0.005)  # any moment is as good: the next pause must work from it
        over.touch()
        for running in runs:
            _, err, code = running.end()
            assert code == 0, err


def test_a_gang_that_is_held_back_as_a_guest_comes_to_stand_each_time(tmp_path: Path) -> None:
    chance = random.Random(7)
    over = tmp_path / "over"
    with under_weft(sys.executable, "-c", HOLDER) as holder, task_per_rank(str(over)) as (task, runs):
        wait_until(lambda: holder.has_steps and len(task.ranks) == 2, "all have pages")
        for _ in range(GATED):
            with Throttle(holder.task) as throttle:
                throttle.add(SeatedGuest("2", task))
                wait_until(lambda throttle=throttle: is_stood_still(throttle, task), "it stands")
            step = task.step
            time.sleep(chance.random() * 0.005)  # any moment is as good: it must come to stand from it
            wait_until(lambda step=step: task.step > step, "it goes on")
        over.touch()
        for running in runs:
            _, err, code = running.end()
            assert code == 0, err


def is_stood_still(throttle: Throttle, guest: Task) -> bool:
    is_gated = throttle.tick(time.monotonic()).guests["2"].duty == 0
    return is_gated and guest.status().state == "paused" and len(steps_of(guest)) == 1


@pytest.mark.parametrize("launch", [torchrun, task_per_rank])
def test_a_paused_gang_trains_as_if_it_had_not_been_paused(launch) -> None:
    chance = random.Random(5)
    with launch() as (task, runs):
        step = 0
        while (pause := task.pause(at_step=step + chance.randint(1, 5), grace_s=PATIENCE_S)).how == "boundary":
            assert steps_of(task) == {pause.step}
            step = pause.step
        assert pause.how == "ended"
        assert step > marked_steps(DDP) - 6
        assert task.step == marked_steps(DDP)
        printed = "".join(running.end()[0] for running in runs)
    assert printed == bare_gang(DDP)


def bare_gang(script: Path) -> str:
    return bare("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script)


@pytest.mark.parametrize(("launch", "leaves"), [(torchrun, (7, 19)), (task_per_rank, (19,))])
def test_a_gang_that_left_goes_on_from_the_step_all_its_ranks_saved(launch, leaves, tmp_path: Path) -> None:
    """Tasks of a rank each leave a second time below."""
    script = SCRIPTS / "ddp_resumable.py"
    printed = ""
    for at_step in (*leaves, None):
        with launch(script=script, options=("--checkpoints", str(tmp_path))) as (task, runs):
            if at_step:
                pause = task.pause("checkpoint", at_step=at_step, grace_s=PATIENCE_S)
                assert pause.how == "left"
                assert at_step <= pause.step <= at_step + 2  # the meeting step may rise while ranks come to stand
            for running in runs:
                out, err, code = running.end()
                assert code == (LEFT_EXIT_CODE if at_step else 0), err
                printed += out
    assert printed == bare_gang(script)


def test_a_checkpoint_that_one_rank_lacks_is_used_by_none(tmp_path: Path) -> None:
    """As after a kill between the two ranks' commits: they agree on the one before."""
    script = SCRIPTS / "ddp_resumable.py"
    options = ("--checkpoints", str(tmp_path))
    steps = []
    for at_step in (5, 9):
        with task_per_rank(script=script, options=options) as (task, runs):
            steps.append(task.pause("checkpoint", at_step=at_step, grace_s=PATIENCE_S).step)
            for running in runs:
                running.end()
    for lost in (tmp_path / "rank-0001").glob(f"step-{steps[1]:012}*"):
        lost.unlink()
    with task_per_rank(script=script, options=options) as (_, runs):
        (out, err, code), (_, _, other_code) = (running.end() for running in runs)
    assert code == other_code == 0, err
    assert out.startswith(f"step {steps[0] + 1} ")
    assert out.splitlines()[-1] == bare_gang(script).splitlines()[-1]


def test_half_a_gang_is_not_paused_behind_the_others_back(tmp_path: Path) -> None:
    """A rank whose partner was not named is stopped, not gated: nobody can say where the other one stands."""
    over = tmp_path / "over"
    with task_per_rank(str(over)) as (_, runs):
        wait_until(lambda: all(running.has_steps for running in runs), "steps are seen")
        pause = runs[0].task.pause(grace_s=0.3)
        assert pause.how == "stopped"
        assert "1 of 2 ranks" in pause.reason
        runs[0].task.resume()
        over.touch()
        for running in runs:
            assert running.end()[2] == 0
