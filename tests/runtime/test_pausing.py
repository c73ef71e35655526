"""Pauses of real processes: where no boundary comes, how deep they go, what is refused, what they survive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from underweft import SCRIPTS, Running, bare, under_weft
from waiting import PATIENCE_S, state_of, wait_until
from weft.core.errors import InputError
from weft.node.task.gang_barrier import PauseRefusedError
from weft.runtime.page.layout import Depth

TRAINS = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()
"""
MARKS = """
import time, weft
def step():
    with weft.step(): time.sleep(0.0005)
"""
UNTIL_TOLD = "import os, sys\nwhile not os.path.exists(sys.argv[1]): step()\nprint('done')\n"


def training(*words: str, code: str = UNTIL_TOLD) -> tuple[str, ...]:
    """A script whose steps are PyTorch's."""
    return (sys.executable, "-c", TRAINS + code, *words)


def stepping(*words: str, code: str = UNTIL_TOLD) -> tuple[str, ...]:
    """A script that marks its steps itself: to be paused it is like any other, and it starts without PyTorch."""
    return (sys.executable, "-c", MARKS + code, *words)


def paused(running: Running, depth: str = "gate") -> weft.node.task.gang_barrier.Pause:
    running.wait_for_steps()
    return running.task.pause(depth, grace_s=PATIENCE_S)


def test_a_script_without_boundaries_is_stopped_where_it_is_and_says_so() -> None:
    script = SCRIPTS / "manual.py"
    with under_weft(sys.executable, str(script)) as running:
        pause = running.task.pause(grace_s=0.3)
        assert pause.how == "stopped"
        assert (
            pause.reason == "no step boundary within 0.3 s, and no step seen before: stopped its process where it was"
        )
        status = running.task.status()
        assert (status.state, status.reason) == ("paused", "stopped where it was: no step boundary came")
        assert [state_of(pid) for pid in running.task.roots] == ["T"]
        running.task.resume()
        out, _, code = running.end()
        assert (code, out) == (0, bare(script))


def test_a_script_that_never_imports_torch_is_stopped_with_all_its_children(tmp_path: Path) -> None:
    """Children in sessions of their own as well: that is how torchrun starts its ranks."""
    over, child = tmp_path / "over", tmp_path / "child"
    loop = f"while [ ! -e {over} ]; do sleep 0.01; done"
    with under_weft("sh", "-c", f"setsid sh -c 'echo $$ > {child}; {loop}' & {loop}; wait; exit 7") as running:
        wait_until(lambda: child.exists() and child.read_text().endswith("\n"), "the child runs")
        pause = running.task.pause(grace_s=0.1)
        assert pause.how == "stopped"
        assert running.task.status().state == "paused"
        # D: the shell has called vfork, and what it forked was stopped before its exec
        wait_until(lambda: state_of(int(child.read_text())) in ("T", "D"), "the child is stopped")
        over.touch()
        running.task.resume()
        assert running.end()[2] == 7


def test_a_pause_before_torch_is_even_imported_waits_for_the_first_boundary() -> None:
    with under_weft(*training(code="for _ in range(9): step()\nprint('done')")) as running:
        assert running.task.status().reason == "no step seen yet"
        pause = running.task.pause(grace_s=PATIENCE_S)
        assert (pause.how, pause.step) == ("boundary", 2)
        assert running.task.status().state == "paused"
        running.task.resume()
        assert running.end()[::2] == ("done\n", 0)
        assert running.task.status().state == "ended"
        assert running.task.step == 9


def test_drop_caches_gives_memory_back(tmp_path: Path) -> None:
    hoard = "import os, sys\nheld = [bytes(10000) for _ in range(20000)]\nlast = bytes(10000)\ndel held\n"
    with under_weft(*stepping(str(tmp_path / "over"), code=hoard + UNTIL_TOLD)) as running:
        paused(running)
        before_bytes = running.task.status().ranks[0].host_bytes
        pause = running.task.pause("drop-caches")
        assert pause.depth == running.task.status().depth == "drop-caches"
        assert running.task.status().ranks[0].host_bytes < before_bytes - 100_000_000
        running.task.resume()
        (tmp_path / "over").touch()
        assert running.end()[::2] == ("done\n", 0)


@pytest.mark.parametrize(
    ("depth", "why"), [("swap-out", "needs weft's native library"), ("checkpoint", "has not called weft.init")]
)
def test_a_depth_that_cannot_be_reached_is_refused_and_the_job_runs_on(depth: str, why: str, tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        with pytest.raises(PauseRefusedError, match=why):
            paused(running, depth)
        assert running.task.status().state == "running"
        (tmp_path / "over").touch()
        assert running.end()[::2] == ("done\n", 0)


def test_an_unknown_depth_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        with pytest.raises(InputError, match="gate, drop-caches, swap-out, checkpoint"):
            running.task.pause("deep")
        (tmp_path / "over").touch()


def test_a_gated_script_still_answers_signals(tmp_path: Path) -> None:
    handler = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(3)))\n"
    with under_weft(*stepping(str(tmp_path / "never"), code=handler + UNTIL_TOLD)) as running:
        paused(running)
        running.process.send_signal(signal.SIGTERM)
        assert running.end()[::2] == ("saved\n", 3)


def test_a_pause_outlives_whoever_asked_for_it(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        running.wait_for_steps()
        path = running.task._pages[0].path
        pause = f"weft.attach({path!r}).pause(grace_s={PATIENCE_S})"
        ask = f"import weft, os, signal; {pause}; os.kill(os.getpid(), signal.SIGKILL)"
        assert subprocess.run([sys.executable, "-c", ask], check=False).returncode == -signal.SIGKILL
        with weft.attach(path) as found:
            step = found.step
            assert found.status().state == "paused"
            found.resume()
            wait_until(lambda: found.step > step, "it runs on")
        (tmp_path / "over").touch()
        assert running.end()[::2] == ("done\n", 0)


def test_steps_go_on_when_weft_exec_is_killed(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        running.wait_for_steps()
        running.process.kill()
        running.process.wait()
        step = running.task.step
        wait_until(lambda: running.task.step > step, "it runs on")
        assert running.task.pause(grace_s=PATIENCE_S).how == "boundary"
        running.task.resume()
        (tmp_path / "over").touch()
        wait_until(lambda: running.task.is_over, "it ended")


def test_paused_time_is_in_no_step(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        paused(running)
        wait_until(lambda: running.task.status().ranks[0].state == "gated", "it stands")
        began = os.times().elapsed
        wait_until(lambda: os.times().elapsed - began > 0.5, "half a second has passed")
        step = running.task.step
        running.task.pause(at_step=step + 70, grace_s=PATIENCE_S)  # the ring holds 64: all of them newer than the pause
        rank = running.task.status().ranks[0]
        assert rank.paused_s > 0.5
        assert max(running.task._pages[0].look().durations_ns) < 0.5e9
        running.task.resume()
        (tmp_path / "over").touch()
        running.end()


def test_processes_that_train_on_their_own_pause_together(tmp_path: Path) -> None:
    """Without a process group they are no gang: each stops at its next boundary, at whatever step that is."""
    code = TRAINS + UNTIL_TOLD
    children = """
import subprocess, sys
started = [subprocess.Popen([sys.executable, *sys.argv[1:]]) for _ in range(2)]
for child in started: child.wait()
"""
    with under_weft(sys.executable, "-c", children, "-c", code, str(tmp_path / "over")) as running:
        wait_until(lambda: len(running.task.ranks) == 2, "both have a page")
        assert running.task.pause(grace_s=PATIENCE_S).how == "boundary"
        assert [rank.state for rank in running.task.status().ranks] == ["gated", "gated"]
        running.task.resume()
        (tmp_path / "over").touch()
        printed, _, code = running.end()
        assert (printed.count("done"), code) == (2, 0)  # their words may come before their line ends


def test_one_script_after_the_other_takes_the_page_over() -> None:
    runs = [f"{sys.executable} -c '{TRAINS}\nfor _ in range({count}): step()'" for count in (3, 5)]
    with under_weft("sh", "-c", " && ".join(runs)) as running:
        assert running.end()[2] == 0
        assert running.task.step == 5
        assert len(running.task.status().ranks) == 1


def test_a_refused_depth_leaves_a_paused_job_paused(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        step = paused(running).step
        for _ in range(2):
            with pytest.raises(PauseRefusedError, match="swap-out"):
                running.task.pause("swap-out")
            assert running.task.status().state == "paused"
        assert running.task.step == step
        running.task.resume()
        (tmp_path / "over").touch()
        assert running.end()[::2] == ("done\n", 0)


def test_what_somebody_else_asked_for_meanwhile_stands(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        running.wait_for_steps()
        outcome: list[Exception] = []

        def ask() -> None:
            try:
                running.task.pause(at_step=10**12, grace_s=PATIENCE_S)
            except PauseRefusedError as error:
                outcome.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        with weft.attach(running.task._pages[0].path) as other:
            wait_until(lambda: other.wanted == Depth.GATE, "the first has asked")
            other.resume()
            asking.join()
            assert "another program has asked" in str(outcome[0])
            assert other.wanted == Depth.RUN
            assert other.pause(grace_s=PATIENCE_S).how == "boundary"
            other.resume()
        (tmp_path / "over").touch()
        assert running.end()[::2] == ("done\n", 0)


def test_an_order_left_behind_by_a_dead_controller_is_replaced(tmp_path: Path) -> None:
    with under_weft(*stepping(str(tmp_path / "over"))) as running:
        running.wait_for_steps()
        running.task.ask(Depth.GATE, 10**12)
        with weft.attach(running.task._pages[0].path) as other:
            assert other.pause(grace_s=PATIENCE_S).how == "boundary"
            other.resume()
        (tmp_path / "over").touch()
        running.end()


def test_a_stopped_job_stays_stopped_when_asked_again_and_goes_on_without_its_leader(tmp_path: Path) -> None:
    over, child = tmp_path / "over", tmp_path / "child"
    loop = f"while [ ! -e {over} ]; do sleep 0.01; done"
    with under_weft("sh", "-c", f"setsid sh -c 'echo $$ > {child}; {loop}; rm {child}' & {loop}") as running:
        wait_until(lambda: child.exists() and child.read_text().endswith("\n"), "the child runs")
        assert running.task.pause(grace_s=0.1).how == "stopped"
        assert running.task.pause(grace_s=PATIENCE_S).waited_s == 0
        with pytest.raises(PauseRefusedError, match="stopped where it was, not at a boundary"):
            running.task.pause("drop-caches")
        assert running.task.status().state == "paused"
        for pid in running.task.roots:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not running.task.roots, "the leader has ended")
        over.touch()
        running.task.resume()
        wait_until(lambda: not child.exists(), "the child goes on")


def test_a_job_cannot_attach_to_itself() -> None:
    code = "import os, weft\nwith weft.step(): pass\nweft.attach(os.environ['WEFT_PAGE'])"
    with under_weft(sys.executable, "-c", code) as running:
        assert "a job cannot attach to itself\nhint: " in running.end()[1]


@pytest.mark.parametrize("at_step", [-1, 1.5])
def test_a_step_that_is_none_is_refused(at_step: float, tmp_path: Path) -> None:
    with under_weft("true") as running, pytest.raises(InputError, match="is no step to pause at"):
        running.task.pause(at_step=at_step)  # type: ignore[arg-type]
