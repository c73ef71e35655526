"""Checkpointed and resumed, in another process and another folder, a run equals the one that was never interrupted."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from underweft import SCRIPTS, bare, marked_steps, page_folder, under_weft
from waiting import PATIENCE_S
from weft.node.task.gang_barrier import PauseRefusedError
from weft.runtime.checkpoint.rank_store import FAIL_POINTS, RankStore
from weft.runtime.page.layout import LEFT_EXIT_CODE

RESUMABLE = SCRIPTS / "resumable.py"
KILLED = 9


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def run_forked(*runs: dict[str, object]) -> list[Ended]:
    """Each run of a script in its own process, one after the other; see forked_runs.py."""
    with page_folder() as folder:
        asked = folder / "runs.json"
        asked.write_text(json.dumps([{"env": {}, "fail_at": "", **run} for run in runs]))
        with under_weft(sys.executable, str(Path(__file__).parent / "forked_runs.py"), str(asked)) as running:
            out, err, code = running.end()
    assert code == 0, err
    return [Ended(*json.loads(line)) for line in out.splitlines()]


def saving_to(directory: Path, **env: object) -> dict[str, str]:
    return {"WEFT_CHECKPOINTS": str(directory), **{name: str(text) for name, text in env.items()}}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_moved_again_and_again_equals_the_uninterrupted_one(workers: str, tmp_path: Path) -> None:
    chance = random.Random(int(workers))
    printed, step, moves = "", 0, 0
    here = tmp_path / "0"
    while True:
        command = (sys.executable, str(RESUMABLE), workers)
        with under_weft(*command, options=("--checkpoints", str(here))) as running:
            pause = running.task.pause("checkpoint", at_step=step + chance.randint(6, 12), grace_s=PATIENCE_S)
            out, err, code = running.end()
        printed += out
        if pause.how == "ended":
            assert code == 0, err
            break
        assert (pause.how, code) == ("left", LEFT_EXIT_CODE)
        assert f"weft: checkpointed at step {pause.step}; run the same command to continue" in err
        assert pause.step > step
        step, moves = pause.step, moves + 1
        shutil.move(here, here := tmp_path / str(moves))
    assert moves >= 2
    assert printed == bare(RESUMABLE, workers)


def test_killed_at_every_point_of_the_writer_a_run_resumes_from_its_last_good_checkpoint(tmp_path: Path) -> None:
    """Checkpoints at steps 6, 12, 18 and 24. The writer dies in the third, and the next process goes on to the end."""
    runs: list[dict[str, object]] = []
    for point in FAIL_POINTS:
        run = {"words": [str(RESUMABLE), "0", "6"], "env": saving_to(tmp_path / point)}
        runs += {**run, "fail_at": point}, run
    ended = run_forked(*runs)
    resumed = {}
    for point, killed, second in zip(FAIL_POINTS, ended[::2], ended[1::2], strict=True):
        assert (killed.code, second.code) == (-signal.SIGKILL, 0), second.err
        assert second.out.splitlines()[-1] == bare(RESUMABLE).splitlines()[-1]
        resumed[point] = int(second.out.split()[1]) - 1
    committed = FAIL_POINTS.index("committed")
    assert resumed == {point: 12 if i < committed else 18 for i, point in enumerate(FAIL_POINTS)}


def test_a_checkpoint_that_cannot_be_written_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with under_weft(sys.executable, str(RESUMABLE), options=("--checkpoints", str(folder))) as running:
        running.task.pause(at_step=3, grace_s=PATIENCE_S)
        shutil.rmtree(folder)
        folder.write_text("a file where the folder was")
        with pytest.raises(PauseRefusedError, match="no checkpoint: "):
            running.task.pause("checkpoint", grace_s=PATIENCE_S)
        running.task.resume()
        out, _, code = running.end()
    assert (code, out) == (0, bare(RESUMABLE))


def test_without_a_folder_a_checkpoint_is_refused_with_what_to_do() -> None:
    with under_weft(sys.executable, str(RESUMABLE)) as running:
        with pytest.raises(PauseRefusedError, match="weft exec --checkpoints DIR"):
            running.task.pause("checkpoint", grace_s=PATIENCE_S)
        assert running.end()[::2] == (bare(RESUMABLE), 0)
        assert running.task.step == marked_steps(RESUMABLE)


# -- one script, trained in several ways


def test_however_it_trains_a_resumed_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    """Each way is run whole, then until it is killed behind its checkpoint, then from there to the end."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    runs: list[dict[str, object]] = []
    for way in WAYS:
        run = {"words": [str(script), way]}
        saving = {**run, "env": saving_to(tmp_path / way)}
        runs += run, {**run, "env": saving_to(tmp_path / way, IS_KILLED=1)}, saving
    ended = run_forked(*runs)
    for way, whole, killed, resumed in zip(WAYS, ended[::3], ended[1::3], ended[2::3], strict=True):
        assert (whole.code, killed.code, resumed.code) == (0, KILLED, 0), (way, whole, killed, resumed)
        assert killed.out + resumed.out == whole.out, way
        assert resumed.err == f"from step %d of epoch %d, {len(resumed.out.split())}\n" % WAYS[way], way
    # Gradients that an update has used would only make a checkpoint larger.
    stores = {way: RankStore(str(tmp_path / way)) for way in WAYS}
    with_gradients = [way for way, store in stores.items() if store.load(store.good_steps()[-1])["gradients"]]
    assert with_gradients == ["accumulate"]


# Way to train → the step and the epoch that its checkpoint has.
WAYS = {
    "accumulate": (9, 1),
    "generator": (12, 2),
    "generator-inside": (9, 1),
    "tqdm": (12, 2),
    "stateful": (12, 2),
    "stateful-inside": (9, 1),
    "evaluate": (12, 2),
    "nested": (9, 1),
    "break": (6, 2),
    "exit": (9, 1),
}
TRAIN = """
import os, sys, torch, weft
from torch.utils.data import DataLoader, TensorDataset

WAY, IS_KILLED = sys.argv[1], "IS_KILLED" in os.environ
SAVES_INSIDE = WAY in ("accumulate", "generator-inside", "stateful-inside", "nested", "exit")
torch.manual_seed(0)

class Stateful:  # as torchdata's StatefulDataLoader; it never goes back by itself
    def __init__(self): self.next = 0
    def __iter__(self):
        while True:
            self.next += 1
            yield [torch.full((4, 4), self.next / 20)]
            if self.next % 6 == 0: return
    def state_dict(self): return {"next": self.next}
    def load_state_dict(self, state): self.next = state["next"]

class Bar:  # as tqdm
    def __init__(self, iterable): self.iterable = iterable
    def __iter__(self): yield from self.iterable

data = TensorDataset(torch.randn(24, 4))
own = torch.Generator().manual_seed(5) if WAY.startswith(("generator", "tqdm")) else None
loader = Stateful() if WAY.startswith("stateful") else DataLoader(data, batch_size=4, shuffle=True, generator=own)
held_out = DataLoader(data, batch_size=12)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
run = weft.init(model=model, optimizer=optimizer)
torch.rand(7)  # set-up after the checkpoint was loaded
if own: own.manual_seed(6)
step = run.step

def train(inputs):
    if WAY != "accumulate" or step % 4 == 1: optimizer.zero_grad()
    loss = (model(inputs) + torch.rand(1)).square().mean()
    loss.backward()
    if WAY != "accumulate" or step % 4 == 0: optimizer.step()
    print(f"{step}:{loss.item().hex()}", flush=True)

def train_pass(epoch):
    global step
    optimizer.zero_grad()
    for i, (inputs,) in enumerate(weft.steps(Bar(loader) if WAY == "tqdm" else loader)):
        if step == 9 and SAVES_INSIDE and IS_KILLED: os._exit(9)
        step += 1
        train(inputs)
        if WAY == "nested":
            for _ in weft.steps(held_out): pass
        if step == 9 and SAVES_INSIDE:
            weft.checkpoint()
            if WAY == "exit" and IS_KILLED: sys.exit(9)
        if WAY == "break" and i == 2:
            weft.checkpoint()
            break

began_at = run.step, run.epoch
for epoch in range(run.epoch, 4):
    train_pass(epoch)
    if WAY == "evaluate":
        with torch.no_grad():
            for inputs, in weft.steps(held_out): model(inputs)
    if not SAVES_INSIDE and WAY != "break": weft.checkpoint()
    if not SAVES_INSIDE and epoch == 1 and IS_KILLED: os._exit(9)
if run.is_resumed: print("from step %d of epoch %d," % began_at, step - began_at[0], file=sys.stderr)
"""


# -- what it says


def test_what_keeps_a_run_from_going_on_as_it_was_is_said(tmp_path: Path) -> None:
    for name, text in (("told.py", TOLD), ("other.py", TOLD), ("gang.py", GANG), ("damage.py", DAMAGE)):
        (tmp_path / name).write_text(text)

    def run(case: str, script: str = "told.py", **env: object) -> dict[str, object]:
        return {"words": [str(tmp_path / script), case], "env": saving_to(tmp_path / case, **env)}

    moved = run("workers") | {"words": [str(tmp_path / "other.py"), "workers"]}
    tuned = run("workers") | {"words": [str(tmp_path / "told.py"), "workers", "--lr", "0.1"]}
    ended = run_forked(
        run("iterator"),
        run("raising"),
        *(run("shorter", BATCHES=7), run("shorter", BATCHES=4)),
        *(run("parts", PART="model"), run("parts", PART="net")),
        *(run("workers"), moved, tuned),
        *(run("gang"), run("gang", script="gang.py")),
        *(run("damaged"), run("damaged", script="damage.py"), run("damaged")),
    )
    iterator, raising, _, shorter, _, parts, _, moved, tuned, _, gang, _, _, damaged = ended

    assert iterator.code == 0
    assert iterator.err.count("write enumerate(weft.steps(loader))") == 1
    assert raising.code == 0
    refused = (
        "weft: the state of step {} cannot be gathered: RuntimeError: no memory; the earlier checkpoints are untouched"
    )
    assert raising.err.splitlines() == [refused.format(step) for step in (3, 6)]
    assert not list((tmp_path / "raising").rglob("*.json"))
    assert shorter.code == parts.code == moved.code == 1
    assert (
        "CheckpointError: the checkpoint was made after batch 6 of a pass, but the loader now ends after 4"
        in shorter.err
    )
    assert "the checkpoint holds model, but weft.init was given net" in parts.err
    assert f"in {tmp_path / 'workers'} are of the script told.py, but this is other.py" in moved.err
    assert tuned.code == 0
    assert "made with other arguments: workers; it goes on with: workers --lr 0.1" in tuned.err
    assert tuned.err.count("the loader's workers are persistent") == 1
    assert gang.code == 0
    assert gang.err == (
        "weft: this rank has checkpoints of step 3, 6, but the ranks have none in common: starting from the beginning\n"
    )
    assert damaged.out == "from step 3\n"
    assert "000000000006" in damaged.err
    assert "the last good checkpoint, of step 3, is used" in damaged.err


TOLD = """
import os, sys, torch, weft
from torch.utils.data import DataLoader

class Raising(torch.nn.Linear):
    def state_dict(self): raise RuntimeError("no memory")

CASE = sys.argv[1]
part = Raising(1, 1) if CASE == "raising" else torch.nn.Linear(1, 1)
loader = range(int(os.environ.get("BATCHES", "7")))
if CASE == "workers": loader = DataLoader(range(7), num_workers=1, persistent_workers=True)
run = weft.init(**{os.environ.get("PART", "model"): part})
print("from step", run.step, flush=True)
for epoch in range(run.epoch, 2):
    for i, _ in enumerate(weft.steps(enumerate(loader) if CASE == "iterator" else loader)):
        if i in (2, 5): weft.checkpoint()
        if i == 6 and (CASE != "workers" or epoch): os._exit(0)
"""
GANG = """
import os, torch.distributed, weft
rank = 1 if os.fork() else 0
store = torch.distributed.FileStore(os.environ["WEFT_CHECKPOINTS"] + "/meet", 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
run = weft.init(model=torch.nn.Linear(1, 1))
assert not run.is_resumed
torch.distributed.barrier()
if rank == 1: os.wait()
os._exit(0)
"""
DAMAGE = """
import os, pathlib
newest = max(pathlib.Path(os.environ["WEFT_CHECKPOINTS"]).rglob("*.pt"))
content = bytearray(newest.read_bytes())
content[len(content) // 2] ^= 1
newest.write_bytes(content)
"""


def test_a_part_that_cannot_be_saved_is_a_reason_to_refuse_and_not_to_end() -> None:
    with page_folder() as folder, under_weft(sys.executable, "-c", UNSAVABLE, options=saved_in(folder)) as running:
        with pytest.raises(PauseRefusedError, match=r"no checkpoint: .*RuntimeError: no memory"):
            running.task.pause("checkpoint", at_step=2, grace_s=PATIENCE_S)
        assert running.end() == ("done\n", "", 0)


def test_two_processes_do_not_write_to_one_folder() -> None:
    command = (sys.executable, "-c", UNSAVABLE)
    with page_folder() as folder, under_weft(*command, options=saved_in(folder)) as first:
        first.task.pause(at_step=2, grace_s=PATIENCE_S)
        with under_weft(*command, options=saved_in(folder)) as second:
            with pytest.raises(PauseRefusedError, match="in use by another process"):
                second.task.pause("checkpoint", at_step=2, grace_s=PATIENCE_S)
            out, err, code = second.end()
        assert (out, code) == ("done\n", 0)
        assert err.count(f"weft: the checkpoints in {folder}/saved/rank-0000 are in use by another process") == 1
        first.task.resume()
        assert first.end() == ("done\n", "", 0)


def saved_in(folder: Path) -> tuple[str, str]:
    return "--checkpoints", str(folder / "saved")


UNSAVABLE = """
import weft
class Part:
    def state_dict(self): raise RuntimeError("no memory")
    def load_state_dict(self, state): pass
weft.init(model=Part())
for _ in weft.steps(range(8)): pass
print("done")
"""


def test_whoever_comes_next_in_a_command_that_leaves_saves_too_and_leaves(tmp_path: Path) -> None:
    """The order to leave stands. A second script of the same command must not take it for a reason to end unsaved."""
    (tmp_path / "loop.py").write_text(
        "import torch, weft\nweft.init(model=torch.nn.Linear(2, 2))\nwhile True:\n    with weft.step(): pass\n"
    )
    run = f"{sys.executable} {tmp_path / 'loop.py'}"
    saved = tmp_path / "saved"
    with under_weft("sh", "-c", f"{run}; rm -r {saved}; {run}", options=("--checkpoints", str(saved))) as running:
        pause = running.task.pause("checkpoint", at_step=3, grace_s=PATIENCE_S)
        assert (pause.how, pause.step) == ("left", 3)
        assert running.end()[2] == LEFT_EXIT_CODE
    assert [path.name.split("-")[1] for path in saved.rglob("*.pt")] == ["000000000001"]
