"""Checkpointed and resumed, in another process and another folder, a run equals the one that was never interrupted."""

from __future__ import annotations

import random
import shutil
import signal
import sys
from pathlib import Path

import pytest
from underweft import DEADLINE_S, SCRIPTS, bare, environment, marked_steps, under_weft

from weft.node.pausing import PauseRefusedError
from weft.runtime.durable import FAIL_POINTS
from weft.runtime.layout import LEFT_EXIT_CODE

RESUMABLE = SCRIPTS / "resumable.py"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_moved_again_and_again_equals_the_uninterrupted_one(workers: str, tmp_path: Path) -> None:
    chance = random.Random(int(workers))
    printed, step, moves = "", 0, 0
    here = tmp_path / "0"
    while True:
        command = (sys.executable, str(RESUMABLE), workers)
        with under_weft(*command, options=("--checkpoints", str(here))) as running:
            pause = running.task.pause("checkpoint", at_step=step + chance.randint(4, 9), grace_s=DEADLINE_S)
            out, err, code = running.end()
        printed += out
        if pause.how == "ended":
            assert code == 0, err
            break
        assert (pause.how, code) == ("left", LEFT_EXIT_CODE)
        assert f"weft: checkpointed at step {pause.step}; the same command goes on from there" in err
        assert pause.step > step
        step, moves = pause.step, moves + 1
        shutil.move(here, here := tmp_path / str(moves))
    assert moves >= 2
    assert printed == bare(RESUMABLE, workers)


def test_killed_at_every_point_of_the_writer_a_run_resumes_from_its_last_good_checkpoint(tmp_path: Path) -> None:
    """Checkpoints at steps 6, 12, 18 and 24. The writer dies in the third, and the next process goes on to the end."""
    whole = bare(RESUMABLE).splitlines()[-1].split()[1]
    script = Path(__file__).parent / "forked_runs.py"
    with under_weft(sys.executable, str(script), options=("--checkpoints", str(tmp_path / "saved"))) as running:
        out, err, code = running.end()
    assert code == 0, err
    resumed = {}
    for line in out.splitlines():
        point, ended, status, began, fingerprint = line.split()
        assert (int(ended), int(status)) == (signal.SIGKILL, 0), line
        assert fingerprint == whole, line
        resumed[point] = int(began) - 1
    committed = FAIL_POINTS.index("committed")
    assert resumed == {point: 12 if i < committed else 18 for i, point in enumerate(FAIL_POINTS)}


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(tmp_path: Path) -> None:
    with under_weft(sys.executable, str(RESUMABLE), "0", "8", options=("--checkpoints", str(tmp_path))) as running:
        assert running.end()[2] == 0
    newest = max(tmp_path.rglob("*.pt"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    with under_weft(sys.executable, str(RESUMABLE), options=("--checkpoints", str(tmp_path))) as running:
        out, err, code = running.end()
    assert code == 0
    assert out.startswith("step 17 ")
    assert newest.name in err
    assert "is used" in err
    assert out.splitlines()[-1] == bare(RESUMABLE).splitlines()[-1]


def test_a_checkpoint_that_cannot_be_written_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with under_weft(sys.executable, str(RESUMABLE), options=("--checkpoints", str(folder))) as running:
        running.task.pause(at_step=3, grace_s=DEADLINE_S)
        shutil.rmtree(folder)
        folder.write_text("a file where the folder was")
        with pytest.raises(PauseRefusedError, match="no checkpoint: "):
            running.task.pause("checkpoint", grace_s=DEADLINE_S)
        out, _, code = running.end()
    assert (code, out) == (0, bare(RESUMABLE))


def test_without_a_folder_a_checkpoint_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with under_weft(sys.executable, str(RESUMABLE)) as running:
        with pytest.raises(PauseRefusedError, match="weft exec --checkpoints DIR"):
            running.task.pause("checkpoint", grace_s=DEADLINE_S)
        assert running.end()[::2] == (bare(RESUMABLE), 0)


def test_parts_that_do_not_match_the_checkpoint_end_the_script_with_both_named(tmp_path: Path) -> None:
    code = "import torch, weft\nrun = weft.init(%s=torch.nn.Linear(2, 2))\nweft.checkpoint()"
    for name, status in (("model", 0), ("net", 1)):
        with under_weft(sys.executable, "-c", code % name, options=("--checkpoints", str(tmp_path))) as running:
            _, err, ended = running.end()
            assert ended == status
    assert "the checkpoint holds model, but weft.init was given net" in err


def test_a_loader_that_keeps_its_own_place_is_asked_for_it(tmp_path: Path) -> None:
    """As torchdata's StatefulDataLoader does. Nothing is fetched only to be dropped."""
    script = tmp_path / "stateful.py"
    script.write_text(STATEFUL)
    options = ("--checkpoints", str(tmp_path / "saved"))
    with under_weft(sys.executable, str(script), options=options, env=environment()) as running:
        assert running.task.pause("checkpoint", at_step=4, grace_s=DEADLINE_S).step == 4
        first = running.end()[0]
    with under_weft(sys.executable, str(script), options=options, env=environment()) as running:
        second = running.end()[0]
    assert (first + second).split() == [str(number) for number in range(10)]


STATEFUL = """
import torch, weft

class Stateful:
    def __init__(self): self.next = 0
    def __iter__(self):
        while self.next < 10:
            self.next += 1
            yield self.next - 1
        self.next = 0
    def state_dict(self): return {"next": self.next}
    def load_state_dict(self, state): self.next = state["next"]

run = weft.init(model=torch.nn.Linear(2, 2))
for epoch in range(run.epoch, 1):
    for number in weft.steps(Stateful()):
        print(number, flush=True)
"""


def test_the_whole_run_takes_the_steps_it_says() -> None:
    with under_weft(sys.executable, str(RESUMABLE)) as running:
        assert running.end()[2] == 0
        assert running.task.step == marked_steps(RESUMABLE)
