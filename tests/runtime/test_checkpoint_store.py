"""Checkpoints on a real disk, written by real processes that are really killed."""

from __future__ import annotations

import collections
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft.runtime.checkpoint.folder import sync_folder
from weft.runtime.checkpoint.rank_store import FAIL_POINTS, CheckpointError, RankStore
from weft.runtime.checkpoint.run_checkpoints import FolderLock

# Imports torch once, and forks a process for each line it reads: where to save what, and how to fail.
WRITER = """
import json, os, resource, sys, torch
from weft.runtime.checkpoint.rank_store import CheckpointError, RankStore

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ["WEFT_FAIL_AT"] = asked["fail_at"]
        if asked["most_bytes"]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["most_bytes"], asked["most_bytes"]))
        outcome = "saved"
        try:
            state = {"weights": torch.full((50_000,), asked["value"]), "bias": torch.full((7,), asked["value"])}
            RankStore(asked["directory"], keep=asked["keep"]).save(asked["step"], state)
        except CheckpointError as error:
            outcome = str(error)
        print(json.dumps(outcome), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps("ended with %d" % os.waitstatus_to_exitcode(status)), flush=True)
"""
KILLED = f"ended with {-signal.SIGKILL}"
COMMITTED = FAIL_POINTS[FAIL_POINTS.index("committed") :]

Write = Callable[..., str]


@pytest.fixture(scope="module")
def write_elsewhere() -> Iterator[Write]:
    """Save one checkpoint in a process of its own; how that ended."""
    package_root = Path(weft.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package_root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WRITER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        requests, answers = process.stdin, process.stdout

        def write(
            directory: Path, step: int, value: float, keep: int = 2, fail_at: str = "", most_bytes: int = 0
        ) -> str:
            asked = {"directory": str(directory), "keep": keep, "step": step, "value": value}
            requests.write(json.dumps({**asked, "fail_at": fail_at, "most_bytes": most_bytes}) + "\n")
            requests.flush()
            return str(json.loads(answers.readline()))

        yield write


def state(value: float) -> dict[str, torch.Tensor]:
    return {"weights": torch.full((50_000,), value), "bias": torch.full((7,), value)}


def saved(directory: Path, *steps: int, keep: int = 2) -> RankStore:
    """A store with a checkpoint of each step, whose tensors are full of the step's number."""
    store = RankStore(str(directory), keep=keep)
    for step in steps:
        store.save(step, state(float(step)))
    return store


def value_of(store: RankStore, step: int) -> float:
    """The number that every tensor of a checkpoint is full of."""
    loaded = store.load(step)
    value = float(loaded["bias"][0])
    assert torch.equal(loaded["weights"], torch.full((50_000,), value))
    assert torch.equal(loaded["bias"], torch.full((7,), value))
    return value


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "rank-0000").iterdir())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "rank-0000").iterdir()}


def payload(directory: Path, step: int) -> Path:
    (path,) = (directory / "rank-0000").glob(f"step-{step:012d}-*.pt")
    return path


def manifest(directory: Path, step: int) -> Path:
    return directory / "rank-0000" / f"step-{step:012d}.json"


def assert_only_80_is_used(directory: Path, refused_file: Path, reason: str) -> None:
    store = RankStore(str(directory))
    assert store.good_steps() == [80]
    assert value_of(store, 80) == 80.0
    (line,) = store.refused
    assert line.startswith(str(refused_file))
    assert reason in line
    assert line.endswith("; the last good checkpoint, of step 80, is used")
    with pytest.raises(CheckpointError, match="the checkpoint of step 120 cannot be used"):
        RankStore(str(directory)).load(120)


# -- saved and loaded


def test_what_was_saved_is_loaded_by_another_store(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    told = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": (3, "three", None)}
    RankStore(str(tmp_path)).save(120, told)

    store = RankStore(str(tmp_path))
    assert store.good_steps() == [120]
    assert store.refused == []
    loaded = store.load(120)
    assert loaded["epoch"] == (3, "three", None)
    assert torch.equal(loaded["model"]["weight"], model.weight)
    momentum = loaded["optimizer"]["state"][0]["momentum_buffer"]
    assert torch.equal(momentum, optimizer.state[model.weight]["momentum_buffer"])


def test_a_checkpoint_is_a_plain_torch_file_and_a_manifest_of_it(tmp_path: Path) -> None:
    saved(tmp_path, 120)
    assert torch.equal(torch.load(payload(tmp_path, 120))["bias"], torch.full((7,), 120.0))
    told = json.loads(manifest(tmp_path, 120).read_text())
    assert (told["weft_checkpoint"], told["step"]) == (1, 120)
    assert told["bytes"] == payload(tmp_path, 120).stat().st_size
    assert payload(tmp_path, 120).stem.endswith("-" + told["sha256"][:12])
    assert told["written_at"].endswith("Z")


def test_a_store_makes_no_folder_before_its_first_save(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there"
    store = RankStore(str(directory))
    assert store.good_steps() == []
    assert store.refused == []
    with pytest.raises(CheckpointError, match=r"step 3 cannot be used: there is no .*step-000000000003\.json"):
        store.load(3)
    assert not (tmp_path / "not").exists()
    store.save(3, state(3.0))
    assert store.good_steps() == [3]


def test_a_store_stays_where_it_was_when_the_job_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = RankStore("checkpoints")
    monkeypatch.chdir("/")
    store.save(0, state(0.0))
    assert len(files(tmp_path / "checkpoints")) == 2


def test_the_newest_are_kept(tmp_path: Path) -> None:
    assert saved(tmp_path, 9, 10, 99, 100).good_steps() == [99, 100]
    assert saved(tmp_path, 101, keep=3).good_steps() == [99, 100, 101]
    assert saved(tmp_path, 102, keep=1).good_steps() == [102]
    assert len(files(tmp_path)) == 2


def test_two_ranks_write_into_one_directory(tmp_path: Path) -> None:
    stores = [RankStore(str(tmp_path), rank) for rank in (0, 1)]
    for rank, store in enumerate(stores):
        store.save(120, state(float(rank)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0000", "rank-0001"]
    assert [value_of(store, 120) for store in stores] == [0.0, 1.0]


def test_the_same_state_saved_twice_at_one_step_is_one_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 120, 120)
    assert len(files(tmp_path)) == 2
    assert value_of(RankStore(str(tmp_path)), 120) == 120.0


def test_a_run_resumed_from_80_saves_its_own_100_though_120_is_there(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    saved(tmp_path, 100, keep=1)
    assert RankStore(str(tmp_path)).good_steps() == [100, 120]


def test_a_gang_that_goes_on_from_80_forgets_what_came_after(tmp_path: Path) -> None:
    store = saved(tmp_path, 40, 80, 120, 160, keep=9)
    store.forget_after(80)
    assert store.good_steps() == [40, 80]
    assert len(files(tmp_path)) == 4


@pytest.mark.parametrize("bad", [{"keep": 0}, {"step": -1}])
def test_nonsense_is_not_accepted(tmp_path: Path, bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"is {min(bad.values())}: "):
        RankStore(str(tmp_path), keep=bad.get("keep", 2)).save(bad.get("step", 1), state(1.0))


# -- killed


@pytest.mark.parametrize("fail_at", FAIL_POINTS)
def test_a_writer_killed_at_any_instant_leaves_a_good_checkpoint(
    tmp_path: Path, write_elsewhere: Write, fail_at: str
) -> None:
    saved(tmp_path, 40, 80)
    assert write_elsewhere(tmp_path, 120, 120.0, fail_at=fail_at) == KILLED

    store = RankStore(str(tmp_path))
    good = store.good_steps()
    assert good[-1] == (120 if fail_at in COMMITTED else 80)
    assert 80 in good
    assert [value_of(store, step) for step in good] == [float(step) for step in good]
    assert store.refused == []

    assert write_elsewhere(tmp_path, 160, 160.0) == "saved"
    assert store.good_steps() == [good[-1], 160]
    assert value_of(store, 160) == 160.0
    assert len(files(tmp_path)) == 4


@pytest.mark.parametrize("fail_at", FAIL_POINTS)
def test_saving_a_step_again_leaves_the_old_or_the_new_whole(
    tmp_path: Path, write_elsewhere: Write, fail_at: str
) -> None:
    saved(tmp_path, 40, 80)
    assert write_elsewhere(tmp_path, 80, -80.0, keep=1, fail_at=fail_at) == KILLED

    store = RankStore(str(tmp_path), keep=1)
    assert store.good_steps()[-1] == 80
    assert value_of(store, 80) == (-80.0 if fail_at in COMMITTED else 80.0)
    assert store.refused == []

    assert write_elsewhere(tmp_path, 80, -81.0, keep=1) == "saved"
    assert value_of(RankStore(str(tmp_path)), 80) == -81.0
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("piece", [1, 10, 24, 29, 40])
def test_a_writer_killed_in_the_middle_of_the_payload_leaves_a_good_checkpoint(
    tmp_path: Path, write_elsewhere: Write, piece: int
) -> None:
    saved(tmp_path, 80)
    assert write_elsewhere(tmp_path, 120, 120.0, fail_at=f"payload-partly-written:{piece}") == KILLED
    (half,) = (tmp_path / "rank-0000").glob("*.tmp")
    assert half.stat().st_size < payload(tmp_path, 80).stat().st_size
    assert RankStore(str(tmp_path)).good_steps() == [80]


@pytest.mark.parametrize("fail_at", ["payload-opened", "payload-renamed", "manifest-synced"])
def test_a_first_checkpoint_that_was_never_committed_is_none(
    tmp_path: Path, write_elsewhere: Write, fail_at: str
) -> None:
    assert write_elsewhere(tmp_path, 40, 40.0, fail_at=fail_at) == KILLED
    store = RankStore(str(tmp_path))
    assert store.good_steps() == []
    assert store.refused == []


def test_a_fail_point_with_a_number_lets_earlier_checkpoints_pass(tmp_path: Path, write_elsewhere: Write) -> None:
    saved(tmp_path, 10, 20, 30, keep=3)
    assert write_elsewhere(tmp_path, 40, 40.0, keep=1, fail_at="manifest-removed:2") == KILLED
    assert RankStore(str(tmp_path)).good_steps() == [10, 40]


# -- damaged


def test_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    whole = bytearray(payload(tmp_path, 120).read_bytes())
    whole[len(whole) // 2] ^= 1
    payload(tmp_path, 120).write_bytes(whole)
    assert_only_80_is_used(tmp_path, payload(tmp_path, 120), "is damaged: its checksum is not the one in its manifest")


def test_a_short_payload_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    whole = payload(tmp_path, 120).read_bytes()
    payload(tmp_path, 120).write_bytes(whole[:-1])
    assert_only_80_is_used(tmp_path, payload(tmp_path, 120), f"has {len(whole) - 1} bytes instead of {len(whole)}")


def test_a_missing_payload_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    gone = payload(tmp_path, 120)
    gone.unlink()
    assert_only_80_is_used(tmp_path, gone, "is missing")


def test_a_payload_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    instead = payload(tmp_path, 120)
    instead.unlink()
    instead.mkdir()
    assert_only_80_is_used(tmp_path, instead, "cannot be read: Is a directory")


WHOLE = {"weft_checkpoint": 1, "step": 120, "bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is damaged: it is not JSON"),
        ('{"weft_checkpoint": 1, "st', "is damaged: it is not JSON"),
        ("\udcff\udcfe", "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON"),
        ("[1, 2]", "is no manifest of weft's"),
        ('{"name": "resnet50"}', "is no manifest of weft's"),
        (json.dumps({**WHOLE, "weft_checkpoint": 2}), "is of version 2; this weft knows 1"),
        (json.dumps({**WHOLE, "bytes": None}), "it lacks the size or the checksum"),
        (json.dumps({**WHOLE, "sha256": "../../etc/passwd"}), "it lacks the size or the checksum"),
        (json.dumps({**WHOLE, "step": 80}), "is of step 80, which is not in its name"),
    ],
)
def test_a_manifest_that_is_not_ours_or_not_whole_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    saved(tmp_path, 80, 120)
    manifest(tmp_path, 120).write_bytes(text.encode(errors="surrogateescape"))
    assert_only_80_is_used(tmp_path, manifest(tmp_path, 120), reason)


def test_another_steps_manifest_under_this_name_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 80)
    shutil.copy(manifest(tmp_path, 80), manifest(tmp_path, 120))
    assert_only_80_is_used(tmp_path, manifest(tmp_path, 120), "is of step 80, which is not in its name")


def test_when_all_are_damaged_none_is_good(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    for step in (80, 120):
        payload(tmp_path, step).write_bytes(b"")
    store = RankStore(str(tmp_path))
    assert store.good_steps() == []
    assert len(store.refused) == 2
    assert all(line.endswith("; there is no good checkpoint") for line in store.refused)


def test_damage_after_good_steps_was_asked_is_an_error_that_says_so(tmp_path: Path) -> None:
    store = saved(tmp_path, 120)
    store.good_steps()
    payload(tmp_path, 120).write_bytes(b"")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        store.load(120)


def test_a_damaged_checkpoint_does_not_count_among_those_kept(tmp_path: Path) -> None:
    saved(tmp_path, 80, 120)
    payload(tmp_path, 120).write_bytes(b"")
    assert saved(tmp_path, 160).good_steps() == [80, 160]
    assert len(files(tmp_path)) == 4


def test_what_is_not_ours_is_named_and_left_alone(tmp_path: Path) -> None:
    saved(tmp_path, 80)
    folder = tmp_path / "rank-0000"
    foreign = ["best.pt", "notes.txt", "step-000000000120.pt.tmp", "step-120.json"]
    for name in [*foreign, ".nfs0001"]:
        (folder / name).write_text("mine")
    store = saved(tmp_path, 160, keep=1)
    assert store.good_steps() == [160]
    outcome = "; the last good checkpoint, of step 160, is used"
    assert store.refused == [f"{folder / name} is no file of weft's{outcome}" for name in foreign]
    assert all((folder / name).read_text() == "mine" for name in [*foreign, ".nfs0001"])


def test_a_checkpoint_of_an_unknown_version_is_never_removed(tmp_path: Path) -> None:
    saved(tmp_path, 80)
    manifest(tmp_path, 80).write_text('{"weft_checkpoint": 2}')
    store = saved(tmp_path, 90, 100, 120, keep=1)
    store.forget_after(70)
    assert files(tmp_path) == sorted([manifest(tmp_path, 80).name, payload(tmp_path, 80).name])


# -- refused by the system, or by the state itself


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RankStore(str(tmp_path / "file" / "checkpoints"))
    with pytest.raises(CheckpointError, match=r"step 1 cannot be written to .*/rank-0000: Not a directory"):
        store.save(1, state(1.0))
    with pytest.raises(CheckpointError, match="/rank-0000 cannot be read: Not a directory"):
        store.good_steps()


def test_a_directory_that_takes_no_files_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="step 1 cannot be written to /proc/weft/rank-0000: "):
        RankStore("/proc/weft").save(1, state(1.0))


@pytest.mark.parametrize("most_bytes", [1, 30_000, 200_500])
def test_a_disk_that_is_full_leaves_all_as_it_was(tmp_path: Path, write_elsewhere: Write, most_bytes: int) -> None:
    saved(tmp_path, 40, 80)
    before = contents(tmp_path)
    outcome = write_elsewhere(tmp_path, 120, 120.0, most_bytes=most_bytes)
    assert outcome.startswith("the checkpoint of step 120 cannot be written to ")
    assert outcome.endswith(": File too large; the earlier ones are untouched")
    assert contents(tmp_path) == before


def test_room_that_a_killed_writer_took_is_free_before_the_next_one_writes(
    tmp_path: Path, write_elsewhere: Write
) -> None:
    saved(tmp_path, 80)
    assert write_elsewhere(tmp_path, 120, 120.0, fail_at="payload-renamed") == KILLED
    assert len(files(tmp_path)) == 3
    assert write_elsewhere(tmp_path, 160, 160.0, fail_at="payload-opened") == KILLED
    assert [name for name in files(tmp_path) if "120" in name] == []


@pytest.mark.parametrize("unpicklable", [(number for number in range(3)), lambda: None, sys._getframe()])
def test_a_state_that_cannot_be_pickled_leaves_all_as_it_was(tmp_path: Path, unpicklable: object) -> None:
    store = saved(tmp_path, 80)
    before = contents(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"the state of step 120 cannot be pickled: .*; the earlier checkpoints are"
    ):
        store.save(120, {**state(120.0), "more": unpicklable})
    assert contents(tmp_path) == before


class _Interrupting:
    """A state during whose pickling the user presses Ctrl-C."""

    def __reduce__(self) -> str:
        raise KeyboardInterrupt


def test_an_interrupt_while_pickling_is_passed_on(tmp_path: Path) -> None:
    store = saved(tmp_path, 80)
    before = contents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.save(120, _Interrupting())
    assert contents(tmp_path) == before


def test_an_interrupt_while_torch_writes_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    store = saved(tmp_path, 80)
    before = contents(tmp_path)
    monkeypatch.setattr("weft.runtime.checkpoint.payload.reach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save(120, state(120.0))
    assert contents(tmp_path) == before


class _Renamed:
    """What a script saved, and no longer defines when it loads."""


def test_a_checkpoint_whose_classes_are_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TRUST_CHECKPOINT", "1")
    store = RankStore(str(tmp_path))
    store.save(120, _Renamed())
    monkeypatch.delattr(sys.modules[__name__], "_Renamed")
    assert store.good_steps() == [120]
    with pytest.raises(CheckpointError, match=r"checksum but cannot be loaded: AttributeError: .*_Renamed"):
        store.load(120)


def test_a_folder_on_a_file_system_that_syncs_none_is_accepted() -> None:
    sync_folder("/proc")


# -- used by one process


def test_a_folder_is_for_one_process_and_free_when_it_is_dead_though_a_child_lives_on(tmp_path: Path) -> None:
    """As the workers of a DataLoader do, for a while, when their trainer was killed."""
    code = f"""
import os, sys
from weft.runtime.checkpoint.run_checkpoints import FolderLock
print(FolderLock({str(tmp_path / "rank-0000")!r}).is_held, flush=True)
if os.fork() == 0: sys.stdin.read(); os._exit(0)
os.read(os.open({str(tmp_path / "killed")!r}, os.O_RDONLY), 1)
"""
    os.mkfifo(tmp_path / "killed")
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout
        assert trainer.stdout.readline() == "True\n"
        assert not FolderLock(str(tmp_path / "rank-0000")).is_held
        (tmp_path / "killed").write_text("now")
        trainer.wait()
        assert FolderLock(str(tmp_path / "rank-0000")).is_held
    assert RankStore(str(tmp_path)).good_steps() == []


def test_a_folder_that_cannot_be_locked_is_not_said_to_be_in_use() -> None:
    assert FolderLock("/proc/weft/rank-0000").is_held


# -- trusted, or not


def test_what_states_are_made_of_is_loaded_without_trust(tmp_path: Path) -> None:
    """Plain types, of Python, torch and numpy; and the state of numpy's generator as an earlier weft saved it."""
    generator = np.random.RandomState(3)
    told = {
        "best": np.float64(0.5),
        "losses": np.arange(6, dtype=np.float32).reshape(2, 3),
        "seen": {1, 2},
        "times": collections.Counter("aab"),
        "since": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "where": Path("a/b"),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "python": random.Random(3).getstate(),
        "numpy": generator.get_state(),
        "milestones": torch.optim.lr_scheduler.MultiStepLR(
            torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]), [3, 5]
        ).state_dict(),
    }
    RankStore(str(tmp_path)).save(120, told)
    loaded = RankStore(str(tmp_path)).load(120)
    assert np.array_equal(loaded.pop("losses"), told.pop("losses"))
    restored = np.random.RandomState(4)
    restored.set_state(loaded.pop("numpy"))
    told.pop("numpy")
    assert restored.random_sample() == generator.random_sample()
    assert loaded == told


@pytest.mark.parametrize("unfit", [collections.defaultdict(list, a=[1]), collections.deque([1], maxlen=2)])
def test_what_torch_could_not_load_again_is_refused_by_name_when_it_is_saved(tmp_path: Path, unfit: object) -> None:
    with pytest.raises(CheckpointError, match=f"collections.{type(unfit).__name__}"):
        RankStore(str(tmp_path)).save(120, {"unfit": unfit})


class Own:
    """A type of the script's."""

    def __init__(self) -> None:
        self.value = 5


def test_a_type_of_the_scripts_own_is_refused_by_name_unless_all_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match=r"step 120 holds a test_checkpoint_store.Own, .*--trust-checkpoint"):
        RankStore(str(tmp_path)).save(120, {"own": Own()})
    assert files(tmp_path) == []

    monkeypatch.setenv("WEFT_TRUST_CHECKPOINT", "1")
    RankStore(str(tmp_path)).save(120, {"own": Own()})
    assert RankStore(str(tmp_path)).load(120)["own"].value == 5

    monkeypatch.delenv("WEFT_TRUST_CHECKPOINT")
    with pytest.raises(CheckpointError, match=r"it holds a test_checkpoint_store.Own, .*--trust-checkpoint"):
        RankStore(str(tmp_path)).load(120)
    with torch.serialization.safe_globals([Own]):
        assert RankStore(str(tmp_path)).load(120)["own"].value == 5
    assert Own not in torch.serialization.get_safe_globals()


def test_others_may_not_write_to_what_is_saved_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        saved(tmp_path / "checkpoints", 120)
    finally:
        os.umask(before)
    paths = [tmp_path / "checkpoints" / "rank-0000", payload(tmp_path / "checkpoints", 120)]
    assert [path.stat().st_mode & 0o022 for path in paths] == [0, 0]
    assert RankStore(str(tmp_path / "checkpoints")).good_steps() == [120]


@pytest.mark.parametrize(("mode", "reason"), [(0o777, "can be written by all users"), (0o2775, "of group 12345 ")])
def test_a_folder_to_which_others_may_write_is_refused(
    tmp_path: Path, mode: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, 120)
    folder = tmp_path / "rank-0000"
    if mode & 0o20 and not mode & 0o2 and os.getuid():
        pytest.skip("only root can give a folder to another group")
    if not mode & 0o2:
        os.chown(folder, -1, 12345)
    folder.chmod(mode)
    with pytest.raises(CheckpointError, match=reason):
        RankStore(str(tmp_path)).good_steps()
    with pytest.raises(CheckpointError, match=reason):
        RankStore(str(tmp_path)).save(130, state(1.0))
    monkeypatch.setenv("WEFT_TRUST_CHECKPOINT", "1")
    assert RankStore(str(tmp_path)).good_steps() == [120]
