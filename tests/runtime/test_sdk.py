"""What a script may say about itself, and that all of it is nothing outside weft."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from underweft import environment, under_weft
from waiting import PATIENCE_S


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_outside_weft_everything_does_nothing_and_needs_no_torch() -> None:
    code = """
import sys, weft
run = weft.init()
assert (run.step, run.epoch, run.is_resumed) == (0, 0, False)
assert list(weft.steps(range(3))) == [0, 1, 2] and len(weft.steps([1, 2])) == 2
with weft.step(): weft.report(loss=object())
weft.checkpoint()
print(sorted({"torch", "numpy", "scipy", "plotly", "click"} & sys.modules.keys()))
"""
    assert run(code) == "[]\n"


def test_a_part_without_a_state_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"weft.init\(buffer=…\): a list has no state_dict"):
        weft.init(buffer=[])


def test_an_exception_inside_a_step_is_the_scripts_own() -> None:
    with pytest.raises(ZeroDivisionError), weft.step():
        _ = 1 / 0


def test_a_script_without_torch_can_mark_its_steps_and_be_paused_between_them() -> None:
    code = """
import weft
for i in range(6):
    with weft.step():
        with weft.step(): pass  # inside another: not one more
        weft.report(loss=i / 2, lr=0.1)
print("done")
"""
    with under_weft(sys.executable, "-c", code) as running:
        pause = running.task.pause(at_step=4, grace_s=PATIENCE_S)
        assert (pause.how, pause.step) == ("boundary", 4)
        rank = running.task.status().ranks[0]
        assert (rank.source, rank.metrics, rank.can_checkpoint) == ("script", {"loss": 1.5, "lr": 0.1}, False)
        running.task.resume()
        assert running.end() == ("done\n", "", 0)
        assert running.task.step == 6


def test_a_step_that_raises_is_not_counted_and_the_next_one_is() -> None:
    code = """
import weft
for i in range(6):
    try:
        with weft.step():
            if i == 2: raise ValueError("a bad batch")
    except ValueError: pass
"""
    with under_weft(sys.executable, "-c", code) as running:
        assert running.end() == ("", "", 0)
        assert running.task.step == 5


def test_what_is_no_number_is_left_out_of_the_report_and_said_once(tmp_path: Path) -> None:
    code = """
import os, sys, weft
while not os.path.exists(sys.argv[1]):
    with weft.step(): weft.report(loss=[1, 2], lr=0.1)
"""
    enough = tmp_path / "enough"
    with under_weft(sys.executable, "-c", code, str(enough)) as running:
        running.task.pause(at_step=2, grace_s=PATIENCE_S)
        assert running.task.status().ranks[0].metrics == {"lr": 0.1}
        enough.touch()
        running.task.resume()
        out, err, ended = running.end()
    assert (out, ended) == ("", 0)
    assert err == "weft: weft.report(loss=…) is left out: a list is no number\n"


def test_a_pass_inside_another_or_inside_a_step_is_no_steps() -> None:
    code = """
import weft
for _ in weft.steps(range(3)):
    assert list(weft.steps(range(4))) == [0, 1, 2, 3]
with weft.step():
    assert list(weft.steps(range(4))) == [0, 1, 2, 3]
"""
    with under_weft(sys.executable, "-c", code) as running:
        assert running.end() == ("", "", 0)
        assert running.task.step == 4


def test_what_the_script_marks_outranks_what_is_seen() -> None:
    """Two updates in each marked step, and some before the first: only the marked ones count."""
    code = """
import torch, weft
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def update():
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
for _ in range(5): update()
for epoch in range(2):
    for batch in weft.steps(range(10)):
        update(); update()
        if batch == 3: break
"""
    with under_weft(sys.executable, "-c", code) as running:
        assert running.end() == ("", "", 0)
        assert running.task.step == 8


def test_more_figures_than_there_is_room_for_are_left_out() -> None:
    code = "import weft\nwith weft.step(): weft.report(**{f'metric {i} with a very long name': i for i in range(12)})"
    with under_weft(sys.executable, "-c", f"{code}\nwith weft.step(): pass") as running:
        running.task.pause(at_step=1, grace_s=PATIENCE_S)
        metrics = running.task.status().ranks[0].metrics
        running.task.resume()
        assert running.end()[2] == 0
    assert list(metrics.values()) == [float(i) for i in range(8)]
    assert next(iter(metrics)) == "metric 0 with a very lon"
