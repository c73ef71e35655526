"""Checkpoint folders that another user has made or changed: none runs code, none blocks, and good ones still load."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from box import Attack, Box

from extent import sample

VICTIM = Path(__file__).with_name("victim.py")
STRANGER = 1000


class Ran:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, canary: Path, how: str = "system") -> None:
        self.canary, self.how = canary, how

    def __reduce__(self) -> tuple[Any, ...]:
        touch = f"open({str(self.canary)!r}, 'w').close()"
        ways: dict[str, tuple[Any, ...]] = {
            "system": (os.system, (f"touch {self.canary}",)),
            "eval": (eval, (touch,)),
            "exec": (exec, (touch,)),
            "open": (open, (str(self.canary), "w")),
            "subprocess": (subprocess.call, (["touch", str(self.canary)],)),
            "mkdir": (os.mkdir, (str(self.canary),)),
            "import": (__import__, ("antigravity",)),
            "getattr": (getattr, ("", "format")),
            "torch.load": (torch.load, (str(self.canary),)),
            "numpy.load": (np.load, (str(self.canary), None, True)),
            "class": (type, ("made", (), {})),
        }
        return ways[self.how]


WAYS = (
    "system",
    "eval",
    "exec",
    "open",
    "subprocess",
    "mkdir",
    "import",
    "getattr",
    "torch.load",
    "numpy.load",
    "class",
)


class Folders:
    """A process that resumes from folders, and what it is made to find in them."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.root = box.folder / "checkpoints"
        self.root.mkdir(mode=0o755)
        self.canary = box.folder / "canary"
        self._count = 0
        self._victim = box.start(
            sys.executable, "-W", "ignore", str(VICTIM), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.good = self.root / "good"
        assert self.ask(self.good, save=80) == {"how": "new"}

    def ask(self, folder: Path, **asked: Any) -> dict[str, Any]:
        assert self._victim.stdin
        assert self._victim.stdout
        self._victim.stdin.write(json.dumps({"folder": str(folder), **asked}) + "\n")
        self._victim.stdin.flush()
        return dict(json.loads(self._victim.stdout.readline()))

    def made(self) -> Path:
        """A folder of the victim's with a good checkpoint of step 80."""
        self._count += 1
        return Path(shutil.copytree(self.good, self.root / str(self._count)))

    def held(self, folder: Path, *hows: str) -> dict[str, Any]:
        """What the victim says of the folder: it resumes from step 80, or refuses; and nothing ran."""
        said = self.ask(folder)
        assert said["how"] in (hows or ("refused",)), said
        assert said.get("step") in (None, 80), said
        assert not self.canary.exists(), "the payload ran"
        return said


@pytest.fixture(scope="module")
def folders(box: Box) -> Iterator[Folders]:
    made = Folders(box)
    yield made
    assert made._victim.stdin
    made._victim.stdin.close()
    made._victim.wait(60)
    assert made._victim.stdout
    made._victim.stdout.close()


def rank(folder: Path) -> Path:
    return folder / "rank-0000"


def payload_of(folder: Path, step: int = 80) -> Path:
    (path,) = rank(folder).glob(f"step-{step:012d}-*.pt")
    return path


def manifest_of(folder: Path, step: int = 80) -> Path:
    return rank(folder) / f"step-{step:012d}.json"


def state_of(folder: Path) -> dict[str, Any]:
    return dict(torch.load(payload_of(folder), weights_only=False))


def forge(folder: Path, state: Any, step: int = 120) -> Path:
    """A checkpoint of this state, or of these bytes, with all that makes it good."""
    if isinstance(state, bytes):
        whole = state
    else:
        file = io.BytesIO()
        torch.save(state, file)
        whole = file.getvalue()
    checksum = hashlib.sha256(whole).hexdigest()
    path = rank(folder) / f"step-{step:012d}-{checksum[:12]}.pt"
    path.write_bytes(whole)
    told = {"weft_checkpoint": 1, "step": step, "bytes": len(whole), "sha256": checksum}
    manifest_of(folder, step).write_text(json.dumps(told))
    return path


def test_the_payload_runs_where_all_is_trusted(folders: Folders) -> None:
    """So what the attacks below look for is there to be seen."""
    folder = folders.made()
    forge(folder, Ran(folders.canary, "open"))
    folders.ask(folder, trust=True)
    assert folders.canary.exists()
    folders.canary.unlink()


@pytest.mark.parametrize("way", sample(WAYS, every=2))
def test_a_payload_that_calls_something_is_refused_by_name(folders: Folders, attack: Attack, way: str) -> None:
    with attack(f"checkpoints: a payload that calls {way}"):
        folder = folders.made()
        forge(folder, {**state_of(folder), "step": 120, "parts": Ran(folders.canary, way)})
        assert "--trust-checkpoint" in folders.held(folder)["why"]


def test_whatever_part_of_the_state_it_is_in(folders: Folders, attack: Attack) -> None:
    folder = folders.made()
    good = {**state_of(folder), "step": 120}
    evil = Ran(folders.canary)
    hidden = {
        "the whole state": evil,
        "the place in the loader": {**good, "place": {**good["place"], "loader": evil}},
        "a random state": {**good, "place": {**good["place"], "drawn": {"randomness": {"python": evil}}}},
        "a gradient": {**good, "gradients": {"model": {0: evil}}},
        "an array of objects": {**good, "parts": {"model": np.array([evil], dtype=object)}},
        "a key of a mapping": {**good, "parts": {(1, evil.canary): evil}},
        "an attribute of a tensor": {**good, "parts": {"model": _with_attribute(evil)}},
        "a module": {**good, "parts": {"model": torch.nn.Linear(2, 1)}},
    }
    for name, state in hidden.items():
        with attack(f"checkpoints: code in {name}"):
            shutil.rmtree(rank(folder))
            shutil.copytree(rank(folders.good), rank(folder))
            forge(folder, state)
            folders.held(folder)


def _with_attribute(evil: Any) -> torch.Tensor:
    tensor = torch.ones(1)
    tensor.evil = evil  # type: ignore[attr-defined]
    return tensor


def test_other_forms_of_payload_are_refused(folders: Folders, attack: Attack) -> None:
    evil = Ran(folders.canary)
    good = folders.made()
    legacy, packed = io.BytesIO(), io.BytesIO()
    torch.save(evil, legacy, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("archive/data.pkl", pickle.dumps({}, 2))
        bomb.writestr("archive/version", "3\n")
        bomb.writestr("archive/data/0", bytes(200 << 20))
    whole = payload_of(good).read_bytes()
    forms = {
        "a bare pickle": pickle.dumps(evil),
        "the old form of torch.save": legacy.getvalue(),
        "a packed record of 200 MiB": packed.getvalue(),
        "nothing": b"",
        "a cut file with the right checksum": whole[: len(whole) // 2],
        "a cut directory of records": whole[:-30],
        "records and no pickle": _zip({"archive/data/0": b"0"}),
        "a pickle that ends too soon": _zip({"archive/data.pkl": pickle.dumps({"a": [1] * 99}, 2)[:40]}),
        "a pickle nested 100,000 deep": _zip(
            {"archive/data.pkl": b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."}
        ),
        "a block of 1 TiB": _zip({"archive/data.pkl": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R."}),
    }
    for name, form in forms.items():
        with attack(f"checkpoints: a payload that is {name}"):
            folder = folders.made()
            forge(folder, form)
            folders.held(folder)


def _zip(records: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, record in {**records, "archive/version": b"3\n", "archive/byteorder": b"little"}.items():
            made.writestr(name, record)
    return file.getvalue()


def test_a_state_that_is_none_is_refused(folders: Folders, attack: Attack) -> None:
    good = folders.made()
    state = {**state_of(good), "step": 120}
    states = {
        "a list": [1, 2],
        "of another step": {**state, "step": 7},
        "without a place": {name: value for name, value in state.items() if name != "place"},
        "at a negative batch": {**state, "place": {**state["place"], "position": -1}},
        "of another script": {**state, "script": "other.py"},
        "with arguments that are no words": {**state, "arguments": [[1]]},
        "of other parts": {**state, "parts": {"other": {}}},
    }
    for name, wrong in states.items():
        with attack(f"checkpoints: a state {name}"):
            folder = folders.made()
            forge(folder, wrong)
            folders.held(folder)


def test_a_manifest_is_checked_before_it_is_believed(folders: Folders, attack: Attack) -> None:
    """What is wrong with one checkpoint leaves the one before it."""
    told = {"weft_checkpoint": 1, "step": 120, "bytes": 10, "sha256": "0" * 64}
    texts = {
        "a path out of the folder as its checksum": json.dumps({**told, "sha256": "../../../evil"}),
        "an absolute path as its checksum": json.dumps({**told, "sha256": "/etc/passwd"}),
        "a number of 50,000 digits": '{"weft_checkpoint": 1, "step": 120, "bytes": ' + "9" * 50_000 + "}",
        "an infinite size": '{"weft_checkpoint": 1, "step": 120, "bytes": 1e999, "sha256": "' + "0" * 64 + '"}',
        "a negative size": json.dumps({**told, "bytes": -1}),
        "a truth for its size": json.dumps({**told, "bytes": True}),
        "a list for its step": json.dumps({**told, "step": [120]}),
        "another step": json.dumps({**told, "step": 2**70}),
        "100,000 brackets": "[" * 100_000,
        "32 MiB": " " * (32 << 20) + json.dumps(told),
        "escapes for the terminal as its version": json.dumps({**told, "weft_checkpoint": "\x1b]0;x\x07" * 99}),
        "bytes that are no text": "\udcff\udcfe",
    }
    for name, text in texts.items():
        with attack(f"checkpoints: a manifest with {name}"):
            folder = folders.made()
            manifest_of(folder, 120).write_bytes(text.encode(errors="surrogateescape"))
            assert folders.held(folder, "resumed")["step"] == 80


def test_names_that_are_no_steps_are_left_alone(folders: Folders, attack: Attack) -> None:
    names = ["step-" + "9" * 40 + ".json", "step-000000000٣٣٣.json", "step-0000000000000120.json", "a\x1b[2J\nb", "-rf"]
    folder = folders.made()
    for name in names:
        with attack(f"checkpoints: a file named {name.encode('unicode_escape').decode()}"):
            (rank(folder) / name).write_text("{}")
            folders.held(folder, "resumed")
            assert (rank(folder) / name).exists()


def test_what_is_no_file_is_not_waited_for(folders: Folders, attack: Attack) -> None:
    evil = forge(folders.made(), Ran(folders.canary))

    def fifo(path: Path) -> None:
        os.mkfifo(path)

    def link(path: Path) -> None:
        path.symlink_to(evil)

    def endless(path: Path) -> None:
        path.symlink_to("/dev/zero")

    def itself(path: Path) -> None:
        path.symlink_to(path.name)

    def made_socket(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as bound:
            here = os.open(path.parent, os.O_DIRECTORY)
            bound.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)

    kinds: dict[str, Callable[[Path], None]] = {
        "a fifo": fifo,
        "a link to another file": link,
        "a link to an endless device": endless,
        "a link to itself": itself,
        "a socket": made_socket,
        "a folder": Path.mkdir,
    }
    for kind, make in kinds.items():
        for which in ("manifest", "payload"):
            with attack(f"checkpoints: {kind} for a {which}"):
                folder = folders.made()
                path = forge(folder, {"step": 120})
                path = path if which == "payload" else manifest_of(folder, 120)
                path.unlink()
                make(path)
                assert folders.held(folder, "resumed")["step"] == 80


def test_links_lead_nowhere(folders: Folders, attack: Attack, tmp_path: Path) -> None:
    with attack("checkpoints: a link to another folder for a rank's"):
        evil, folder = folders.made(), folders.made()
        forge(evil, Ran(folders.canary))
        shutil.rmtree(rank(folder))
        rank(folder).symlink_to(rank(evil))
        assert "is a symbolic link" in folders.held(folder)["why"]
    with attack("checkpoints: a link to a file of the user's for the lock"):
        folder = folders.made()
        precious = tmp_path / "precious"
        (rank(folder) / ".lock").unlink(missing_ok=True)
        (rank(folder) / ".lock").symlink_to(precious)
        folders.held(folder, "resumed")
        assert not precious.exists()


def test_what_others_can_write_is_not_loaded(folders: Folders, attack: Attack) -> None:
    with attack("checkpoints: a folder that all may write to"):
        folder = folders.made()
        forge(folder, Ran(folders.canary))
        rank(folder).chmod(0o777)
        assert "can be written by all users" in folders.held(folder)["why"]
    for which in ("manifest", "payload"):
        with attack(f"checkpoints: a {which} that all may write to"):
            folder = folders.made()
            path = forge(folder, Ran(folders.canary))
            (path if which == "payload" else manifest_of(folder, 120)).chmod(0o666)
            folders.held(folder, "resumed")


def test_what_another_user_made_is_not_loaded(folders: Folders, attack: Attack, box: Box) -> None:
    if not box.sandbox.has_other_users:
        pytest.skip("there are no other users")
    with attack("checkpoints: a folder that another user made"):
        evil, folder = folders.made(), folders.root / "of-a-stranger"
        forge(evil, Ran(folders.canary))
        folder.mkdir()
        folder.chmod(0o777)
        for path in (box.folder, box.folder.parent, folders.root):
            path.chmod(0o755)
        copied = folders.box.run("cp", "-r", str(rank(evil)), str(rank(folder)), uid=STRANGER)
        if copied.returncode:  # the folders above are closed to them
            shutil.copytree(rank(evil), rank(folder))
            for path in (rank(folder), *rank(folder).iterdir()):
                os.chown(path, STRANGER, STRANGER)
        assert f"belongs to user {STRANGER}" in folders.held(folder)["why"]
    for which in ("manifest", "payload"):
        with attack(f"checkpoints: a {which} of another user's in the user's folder"):
            folder = folders.made()
            path = forge(folder, Ran(folders.canary))
            os.chown(path if which == "payload" else manifest_of(folder, 120), STRANGER, STRANGER)
            folders.held(folder, "resumed")
    with attack("checkpoints: a folder that another group may write to"):
        folder = folders.made()
        forge(folder, Ran(folders.canary))
        os.chown(rank(folder), -1, STRANGER)
        rank(folder).chmod(0o775)
        assert f"of group {STRANGER}" in folders.held(folder)["why"]


def test_a_payload_changed_while_it_is_loaded_does_not_run(folders: Folders, attack: Attack) -> None:
    """What was checked is what is loaded, whatever takes its name meanwhile."""
    with attack("checkpoints: payloads and folders that change places while they are loaded"):
        folder, evil = folders.made(), folders.made()
        target, other = payload_of(folder), payload_of(folder).with_suffix(".tmp")
        good, bad = target.read_bytes(), forge(evil, Ran(folders.canary), 80).read_bytes()
        is_over = threading.Event()

        def swap() -> None:
            while not is_over.is_set():
                for whole in (bad, good):
                    other.write_bytes(whole)
                    other.replace(target)

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for _ in range(20):
                folders.held(folder, "resumed", "new", "refused")
        finally:
            is_over.set()
            swapping.join()
        target.write_bytes(good)


def test_at_the_end_a_good_one_still_resumes(folders: Folders) -> None:
    assert folders.held(folders.made(), "resumed")["step"] == 80
