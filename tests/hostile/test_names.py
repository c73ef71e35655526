"""Names: other users' folders where ours would be, files of every kind in every place, homes that look like another."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from box import Attack, Box

from waiting import wait_until
from weft.system.home import Home
from weft.system.runtime_dir import forget_run_folder

OTHER = 1000
"""Another user."""
FOLDER = "/dev/shm/weft-0"  # noqa: S108 - of the sandbox
WHERE = "from weft.system.home import Home; home = Home.find(); home.make(); print(home.run)"
MAKING = {
    "a folder": f"import os; os.mkdir({FOLDER!r})",
    "an open folder": f"import os; os.mkdir({FOLDER!r}); os.chmod({FOLDER!r}, 0o777)",
    "a file": f"open({FOLDER!r}, 'w').close()",
    "a fifo": f"import os; os.mkfifo({FOLDER!r})",
    "a link to a folder": f"import os; os.mkdir('/dev/shm/theirs'); os.symlink('/dev/shm/theirs', {FOLDER!r})",
    "a dangling link": f"import os; os.symlink('/dev/shm/nowhere', {FOLDER!r})",
}
KINDS: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a fifo": os.mkfifo,
    "a dangling link": lambda path: path.symlink_to("/nowhere/at/all"),
    "a file": Path.touch,
}


def is_in_words(box: Box, *words: str) -> bool:
    """Whether it works; if it does not, it says why and what to do, and it neither hangs nor shows a traceback."""
    done = box.weft(*words)
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        assert "error: " in done.stderr, done.stderr
        assert "hint: " in done.stderr, done.stderr
    return done.returncode == 0


# ---- before weft starts


@pytest.mark.parametrize("kind", MAKING)
def test_what_another_user_puts_in_the_place_of_our_folder(tmp_path: Path, attack: Attack, kind: str) -> None:
    box = Box(tmp_path)
    try:
        if not (box.sandbox.is_isolated and box.sandbox.has_other_users):
            pytest.skip("needs a sandbox with other users")
        assert box.python(MAKING[kind], uid=OTHER).returncode == 0
        with attack(f"names: {kind} of another user where ours would be"):
            first = box.python(WHERE)
            assert first.returncode == 0, first.stderr
            assert first.stdout.startswith("/dev/shm/weft-0-"), first.stdout  # noqa: S108
            assert box.python(WHERE).stdout == first.stdout, "every process finds the same folder"
            status = box.python(
                "import os, sys; s = os.stat(sys.argv[1]); print(s.st_uid, s.st_mode & 0o777)", first.stdout.strip()
            )
            assert status.stdout.split() == ["0", str(0o700)]
        if kind == "a folder":
            with attack("names: a whole weft beside another user's folder"):
                box.up()
                box.wait_for(box.submit("--", "true"))
                assert box.weft("exec", "--", "true").returncode == 0
                box.says("down")
    finally:
        box.close()


def test_every_kind_of_file_in_every_place_of_a_home(tmp_path: Path, attack: Attack) -> None:
    """Each is refused in words, or does not matter."""
    box = Box(tmp_path)
    try:
        for name in ("jobs", "daemon.log", "daemon.lock", "start.lock", "weft.toml", "home.json", "weft.mark"):
            for kind, make in KINDS.items():
                path = box.home.root / name
                if kind == ("a folder" if name == "jobs" else "a file"):
                    continue  # that is what belongs there
                with attack(f"names: {kind} in the place of {name}"):
                    _remove(path)
                    make(path)
                    if is_in_words(box, "up", "--devices", "cpu=1"):
                        box.says("down")
                    if os.path.lexists(path):
                        _remove(path)
        with attack("names: a home that is a file"):
            (tmp_path / "file").touch()
            done = box.weft("up", env={"WEFT_HOME": str(tmp_path / "file")})
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
        with attack("names: a home that is a loop of links"):
            (tmp_path / "loop").symlink_to(tmp_path / "loop")
            done = box.weft("queue", env={"WEFT_HOME": str(tmp_path / "loop")})
            assert done.returncode
            assert "Traceback" not in done.stderr
    finally:
        box.close()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def test_two_homes_with_the_same_checksum_share_nothing(tmp_path: Path, attack: Attack) -> None:
    seen: dict[int, Path] = {}
    while True:
        path = tmp_path / os.urandom(8).hex()
        same = seen.setdefault(zlib.crc32(os.fsencode(path)), path)
        if same != path:
            break
    with attack("names: two homes with the same CRC-32"):
        homes = [Home(path), Home(same)]
        for home in homes:
            home.make()
        assert homes[0].run != homes[1].run
    for home in homes:
        forget_run_folder(home.run)


# ---- while weft runs


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_in_the_place_of_the_sockets(box: Box, attack: Attack, kind: str) -> None:
    run = box.sandbox.outside(Path(box.says("doctor", "--socket").strip()).parent)
    for name in ("weft.sock", "node.sock"):
        with attack(f"names: {kind} in the place of {name}"):
            (run / name).unlink()
            KINDS[kind](run / name)
            assert is_in_words(box, "queue") in (True, False)
            wait_until((run / name).is_socket, f"{name} is a socket again")
    box.says("queue")


def test_homes_that_are_the_same_under_another_name(box: Box, attack: Attack, tmp_path: Path) -> None:
    pid, root = box.health()["pid"], box.home.root

    def daemon_of(home: Path) -> int:
        source = "from weft.client import Client; print(Client().health()['pid'])"
        return int(box.python(source, env={"WEFT_HOME": str(home)}).stdout or 0)

    with attack("names: a link to the home"):
        (tmp_path / "link").symlink_to(root)
        assert daemon_of(tmp_path / "link") == pid
    with attack("names: the home is moved"):
        root.rename(root.with_name("moved"))
        assert daemon_of(root.with_name("moved")) == pid
        root.with_name("moved").rename(root)
        assert daemon_of(root) == pid
    with attack("names: the home is mounted elsewhere as well"):
        (tmp_path / "bound").mkdir()
        words = f"mount --bind {root} {tmp_path}/bound && exec {sys.executable} -m weft.cli.main doctor --socket"
        done = box.run("unshare", "--mount", "sh", "-c", words, env={"WEFT_HOME": str(tmp_path / "bound")})
        if done.returncode == 0:
            assert done.stdout.strip() == box.says("doctor", "--socket").strip()


def test_a_copied_home_is_another_weft(box: Box, attack: Attack, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with attack("names: a copy of a home that is in use"):
        box.run("cp", "-a", str(box.home.root), str(copy))
        there = {"WEFT_HOME": str(copy)}
        assert "not running" in box.weft("queue", env=there).stderr
        up = box.weft("up", "--devices", "cpu=4", "--policy", "fifo", env=there)
        assert "Traceback" not in up.stderr
        if up.returncode == 0:
            assert box.says("doctor", "--socket", env=there) != box.says("doctor", "--socket")
            box.says("down", "--stop-jobs", env=there)


def test_the_record_of_a_home_that_is_in_use(box: Box, attack: Attack) -> None:
    record = box.home.root / "home.json"
    kept = box.home.root / "home.json.kept"
    record.rename(kept)  # renamed, it is the same file when it comes back
    for name, content in {
        "gone": None,
        "garbage": b"\xff\x00 garbage",
        "empty": b"",
        "of another folder": json.dumps({**json.loads(kept.read_text()), "run": "/tmp"}).encode(),  # noqa: S108
        "of wrong types": json.dumps(dict.fromkeys(json.loads(kept.read_text()), 5)).encode(),
    }.items():
        with attack(f"names: the record of the home is {name}"):
            record.unlink(missing_ok=True)
            if content is not None:
                record.write_bytes(content)
            assert is_in_words(box, "queue"), "the daemon is found by what is in memory"
    record.unlink()
    kept.rename(record)
    with attack("names: another user asks"):
        done = box.weft("queue", uid=OTHER) if box.sandbox.has_other_users else None
        assert done is None or (done.returncode and "Traceback" not in done.stderr), done
