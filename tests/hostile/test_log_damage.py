"""Damage to the log. Each gives a clean refusal or a start with all that was there; `weft repair` then gives a log
that starts, says what is missing, and gives no number twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from box import SETTINGS, Attack, Box

import extent
from waiting import wait_until
from weft.control.store.home_log import folded, open_log
from weft.control.store.log_store import KEYS, LogStore, scripts
from weft.control.store.reconstruction import IdlePolicy, attempts_on_disk
from weft.control.store.repair import Repaired, repair, restore
from weft.control.store.replay import load_control_state
from weft.core.errors import WeftError
from weft.core.snapshot import snapshot
from weft.node.attempt.records import read_record, write_record
from weft.system.home import Home
from weft.system.runtime_dir import SHARED_MEMORY

PAGE_BYTES = 4096
SLEEP = "import time; time.sleep(600)"
ARRAY, ENDED, RUNNING, HELD, WAITING, FAILED = range(1, 7)
"""The numbers of the sample's jobs."""
SAMPLE_SETTINGS = f"{SETTINGS}snapshot_rows = 12\nbackup_every = 'off'\nfence = 'scan'\n"
"""By scans: a record names the cgroups of its own home, and copies of the sample are other homes."""
Content = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Sample:
    """A home whose daemon was killed, with a backup that knows a part of its jobs."""

    folder: Path
    content: Content

    def copy(self, place: Path) -> Home:
        shutil.copytree(self.folder, place)
        return Home(place)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: nothing here depends on a disk, and hundreds of flushes take their time there."""
    with tempfile.TemporaryDirectory(prefix="weft-damage-", dir=SHARED_MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    box = Box(tmp_path_factory.mktemp("sample"), settings=SAMPLE_SETTINGS)
    try:
        box.up()
        box.submit("--array", "1-3", "--", "true")
        ended = box.submit("--", "true")
        running = box.submit("--", sys.executable, "-c", SLEEP)
        box.wait_for(ended)
        box.wait_for(running, "RUNNING")
        box.says("backup")
        box.submit("--hold", "--", "true")
        box.submit("--after", running, "--", "true")
        failed = box.submit("--name", "a name of some length " * 8, "--", "false")
        box.wait_for(failed)
        wait_until(lambda: set(attempts_on_disk(box.home)) == {running}, "the ends of all others are acknowledged")
        for which in ("daemon", "coordinator"):
            box.kill(which)
        folder = box.folder / "sample"
        shutil.copytree(box.home.root, folder)
        yield Sample(folder, content_of(folder / "weft.db", box.folder / "read.db"))
    finally:
        box.close()


def content_of(database: Path, scratch: Path) -> Content:
    """All rows but those that a start writes. Of the log and its snapshots, the ledger that they fold to: a snapshot
    that is missing, or a row that one covers, changes nothing."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{scratch}{suffix}").unlink(missing_ok=True)
        if suffix != "-shm" and Path(f"{database}{suffix}").exists():
            shutil.copyfile(f"{database}{suffix}", f"{scratch}{suffix}")
    with closing(sqlite3.connect(scratch)) as db:
        tables = KEYS.keys() - {"log", "snapshots"}
        found = {table: sorted(db.execute(f"SELECT * FROM {table}"), key=str) for table in tables}  # noqa: S608
    found["settings"] = [row for row in found["settings"] if row[0] == "floor"]
    with closing(LogStore(scratch)) as store:
        found["ledger"] = [
            (json.dumps(snapshot(load_control_state(store, IdlePolicy(), {}).scheduler.ledger), sort_keys=True),)
        ]
    return found


def start(home: Home) -> WeftError | None:
    """As the daemon does, up to where it would serve; any error but one in words is a traceback."""
    try:
        with closing(open_log(home)) as store:
            folded(home, store, IdlePolicy(), {})
    except WeftError as error:
        return error
    return None


def judge(sample: Sample, home: Home, scratch: Path) -> Repaired | None:
    """The log of a home is refused and then repaired, or it has all that was there."""
    before = files_of(home)
    refusal = start(home)
    if refusal is None:
        assert content_of(home.database, scratch) == sample.content
        return None
    assert refusal.hint, refusal
    assert files_of(home).keys() >= before.keys(), "a refusal removes nothing"
    done = repair(home)
    assert done is not None, f"repair sees no damage, but the start does: {refusal}"
    assert done.aside is not None
    assert start(home) is None
    with closing(sqlite3.connect(home.database)) as db:
        there = {row[0] for row in db.execute("SELECT number FROM jobs")}
        live = {row[0] for row in db.execute("SELECT number FROM jobs WHERE finished_at IS NULL")}
    numbers = {row[1] for row in sample.content["jobs"]}
    assert done.last_number >= max(numbers)
    assert there <= numbers
    assert {int(lost) for lost in done.lost} == numbers - there, done.lines()
    assert RUNNING in live, "a job that runs is never lost: the record of its attempt is on disk"
    return done


def files_of(home: Home) -> dict[str, int]:
    """Without what any start leaves."""
    passing = ("weft.db-shm", "weft.db-wal", "weft.mark")
    return {path.name: path.lstat().st_size for path in home.root.iterdir() if path.name not in passing}


@pytest.fixture
def judged(sample: Sample, tmp_path: Path, attack: Attack) -> Callable[[str, Callable[[Home], None]], Repaired | None]:
    """Damage a copy of the sample, and judge what comes of it."""

    def judged(name: str, damage: Callable[[Home], None]) -> Repaired | None:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        with attack(f"log damage: {name}"):
            home = sample.copy(place)
            damage(home)
            return judge(sample, home, tmp_path / "scratch.db")

    return judged


def changed(*statements: str) -> Callable[[Home], None]:
    """SQL on the log, as somebody with the sqlite3 command could."""

    def damage(home: Home) -> None:
        with closing(sqlite3.connect(home.database, isolation_level=None)) as db:
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute("PRAGMA ignore_check_constraints = ON")
            for statement in statements:
                db.execute(statement)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return damage


def whole(home: Home) -> None:
    """Everything in one file, so that it can be damaged anywhere."""
    with closing(sqlite3.connect(home.database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def overwritten(at: int, content: bytes, name: str = "weft.db") -> Callable[[Home], None]:
    def damage(home: Home) -> None:
        whole(home) if name == "weft.db" else None
        with (home.root / name).open("r+b") as file:
            file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            file.write(content)

    return damage


def test_the_sample_itself_starts(judged: Any) -> None:
    assert judged("none at all", lambda home: None) is None


def test_every_page_as_garbage(sample: Sample, tmp_path: Path, judged: Any) -> None:
    probe = sample.copy(tmp_path / "probe")
    whole(probe)
    count = probe.database.stat().st_size // PAGE_BYTES
    garbage = random.Random(1).randbytes(PAGE_BYTES)
    for page in range(count):
        judged(f"page {page + 1} is garbage", overwritten(page * PAGE_BYTES, garbage))
    judged("all pages are garbage", overwritten(0, garbage * count))
    judged("the first half is zeros", overwritten(0, bytes(PAGE_BYTES * (count // 2))))


@pytest.mark.parametrize("seed", extent.sample(range(16), every=4))
def test_flipped_bits(judged: Any, seed: int) -> None:
    chance = random.Random(seed)

    def flip(home: Home) -> None:
        whole(home)
        content = bytearray(home.database.read_bytes())
        for _ in range(chance.randint(1, 12)):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        home.database.write_bytes(content)

    judged(f"flipped bits, seed {seed}", flip)


def test_lengths(sample: Sample, judged: Any) -> None:
    for length in (0, 1, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, 20_000, -1, -4096):

        def cut(home: Home, length: int = length) -> None:
            whole(home)
            size = home.database.stat().st_size
            os.truncate(home.database, length if length >= 0 else size + length)

        judged(f"cut to {length} bytes", cut)
    judged("longer by garbage", lambda home: _append(home, b"\xff" * 10_000))


def _append(home: Home, content: bytes) -> None:
    whole(home)
    with home.database.open("ab") as file:
        file.write(content)


def test_tables_and_columns(judged: Any) -> None:
    for table in KEYS:
        judged(f"the table {table} is dropped", changed(f"DROP TABLE {table}"))
        judged(f"the table {table} has another name", changed(f"ALTER TABLE {table} RENAME TO other"))
    for table, column in (("jobs", "request"), ("attempts", "devices"), ("log", "body"), ("settings", "value")):
        judged(
            f"the column {table}.{column} has another name", changed(f"ALTER TABLE {table} RENAME {column} TO other")
        )
    judged("an index is dropped", changed("DROP INDEX live_jobs"))
    judged("the schema is empty", changed("PRAGMA writable_schema = ON", "DELETE FROM sqlite_schema"))
    judged("a table more", changed("CREATE TABLE more (a)"))


BROKEN = {"no JSON": "'{'", "another type": "'17'", "a list": "'[1, [2]]'", "an empty table": "'{}'", "empty": "''"}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_rows(judged: Any, how: str) -> None:
    for table, column, where in (
        ("log", "body", "seq = (SELECT max(seq) FROM log)"),
        ("log", "kind", "seq = (SELECT max(seq) FROM log)"),
        ("snapshots", "body", "1"),
        ("jobs", "request", "id = '4'"),
        ("jobs", "ending", "id = '4'"),
        ("attempts", "devices", "job = '3'"),
        ("environments", "body", "1"),
        ("settings", "value", "name = 'floor'"),
    ):
        update = f"UPDATE {table} SET {column} = {BROKEN[how]} WHERE {where}"  # noqa: S608
        judged(f"{table}.{column} is {how}", changed(update))


def test_wrong_numbers(judged: Any) -> None:
    for name, update in {
        "a live job has ended": "UPDATE jobs SET finished_at = 5, state = 'FAILED' WHERE id = '4'",
        "an ended job lives": "UPDATE jobs SET finished_at = NULL, state = 'PENDING' WHERE id = '2'",
        "an attempt too many": "UPDATE jobs SET attempt = 7 WHERE id = '3'",
        "another number": "UPDATE jobs SET number = 77 WHERE id = '4'",
        "a time that is no number": "UPDATE jobs SET submitted_at = 9e999 WHERE id = '4'",
        "a job is missing": "DELETE FROM jobs WHERE id = '4'",
        "the last row is missing": "DELETE FROM log WHERE seq = (SELECT max(seq) FROM log)",
        "all rows are missing": "DELETE FROM log",
        "no snapshot and no log": "DELETE FROM snapshots",
        "the clock is missing": "DELETE FROM clock",
        "the settings are missing": "DELETE FROM settings",
        "the environments are missing": "DELETE FROM environments",
    }.items():
        judged(name, changed(update) if "no snapshot" not in name else changed(update, "DELETE FROM log"))


def test_other_files(sample: Sample, tmp_path: Path, judged: Any) -> None:
    wal = "weft.db-wal"
    judged("the write-ahead log is gone", lambda home: (home.root / wal).unlink())
    judged("the write-ahead log is cut", lambda home: os.truncate(home.root / wal, 5_000))
    judged("the write-ahead log is empty", lambda home: os.truncate(home.root / wal, 0))
    judged("the write-ahead log has a garbage header", overwritten(0, b"\xaa" * 32, wal))
    judged("the write-ahead log has a garbage frame", overwritten(32, b"\xaa" * 100, wal))
    judged("the write-ahead log has a garbage end", overwritten(-600, b"\xaa" * 600, wal))
    judged("the shared memory is garbage", lambda home: (home.root / "weft.db-shm").write_bytes(b"\xaa" * 32768))

    def foreign(home: Home) -> None:
        other = tmp_path / "other.db"
        db = sqlite3.connect(other, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        for script in scripts():
            db.executescript(script)
        db.execute("INSERT INTO settings (name, value) VALUES ('policy', 'fifo')")
        shutil.copyfile(f"{other}-wal", home.root / wal)
        db.close()

    judged("the write-ahead log is another database's", foreign)
    judged("the watermark is gone", lambda home: home.watermark.unlink())
    judged("the watermark is garbage", lambda home: home.watermark.write_bytes(b"\xaa" * 512))
    judged("the log is gone", lambda home: _gone(home))
    judged("the log is gone, and the backups", lambda home: (_gone(home), shutil.rmtree(home.backups)))
    judged("the log and the watermark are gone", lambda home: (_gone(home), home.watermark.unlink()))
    judged("the log is an old copy", lambda home: _replaced(home, next(home.backups.glob("weft-*.db"))))

    def another(home: Home) -> None:
        _gone(home)
        with closing(open_log(Home(_made(tmp_path / "another")))):
            pass
        shutil.copyfile(tmp_path / "another" / "weft.db", home.database)

    judged("the log is another home's", another)


def _made(root: Path) -> Path:
    (root / "jobs").mkdir(parents=True)
    return root


def _gone(home: Home) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{home.database}{suffix}").unlink(missing_ok=True)


def _replaced(home: Home, by: Path) -> None:
    _gone(home)
    shutil.copyfile(by, home.database)


def test_other_kinds_of_files(judged: Any) -> None:
    for name, make in {"a folder": Path.mkdir, "a fifo": os.mkfifo, "a dangling link": _dangling}.items():
        judged(f"{name} in the place of the log", lambda home, make=make: (_gone(home), make(home.database)))
        judged(f"{name} in the place of the write-ahead log", lambda home, make=make: _instead(home, "-wal", make))

    def link(home: Home) -> None:
        whole(home)
        home.database.rename(home.root / "elsewhere.db")
        home.database.symlink_to(home.root / "elsewhere.db")

    judged("a link in the place of the log", link)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _instead(home: Home, suffix: str, make: Callable[[Path], object]) -> None:
    path = Path(f"{home.database}{suffix}")
    path.unlink(missing_ok=True)
    make(path)


def test_a_newer_version_is_refused_and_not_repaired(sample: Sample, tmp_path: Path, attack: Attack) -> None:
    with attack("log damage: a version from the future"):
        home = sample.copy(tmp_path / "home")
        changed(f"PRAGMA user_version = {len(scripts()) + 1}")(home)
        refusal = start(home)
        assert refusal is not None
        assert "newer weft" in refusal.hint
        with pytest.raises(WeftError, match="the log is of version"):
            repair(home)


@pytest.mark.parametrize("verb", ["repair", "restore"])
def test_killed_at_every_point_of_a_repair_and_a_restore(
    sample: Sample, tmp_path: Path, attack: Attack, verb: str
) -> None:
    from weft.control.store import repair as repairs
    from weft.control.store import watermark as exchange

    points = [*repairs.FAIL_POINTS, *exchange.FAIL_POINTS]
    for point in points if verb == "repair" else points[1:]:
        with attack(f"log damage: killed at {point} of weft {verb}"):
            home = sample.copy(tmp_path / point)
            if verb == "repair":
                overwritten(8 * PAGE_BYTES, random.Random(3).randbytes(3 * PAGE_BYTES))(home)
            env = {**os.environ, "WEFT_HOME": str(home.root), "WEFT_FAIL_AT": point}
            command = [sys.executable, "-m", "weft.control.store.log_tool", verb]
            killed = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            assert killed.returncode == -9, killed.stderr
            if verb == "repair" and start(home) is not None:
                judge(sample, home, tmp_path / "scratch.db")
            elif verb == "restore":
                assert start(home) is None
                restore(home, next(home.backups.glob("weft-*.db")))
                assert start(home) is None


def test_a_row_whose_checksum_is_wrong_is_named(sample: Sample, tmp_path: Path, attack: Attack) -> None:
    with attack("log damage: one digit of one number"):
        home = sample.copy(tmp_path / "home")
        changed("UPDATE jobs SET run_s = run_s + 1 WHERE id = '2'")(home)
        refusal = start(home)
        assert refusal is not None
        assert "row 2 of jobs: its checksum is wrong" in refusal.message


def test_a_dry_run_changes_nothing(sample: Sample, tmp_path: Path) -> None:
    home = sample.copy(tmp_path / "home")
    changed("DROP TABLE attempts")(home)
    before = {path.name: path.read_bytes() for path in home.root.iterdir() if path.is_file()}
    done = repair(home, is_dry=True)
    assert done is not None
    after = {path.name: path.read_bytes() for path in home.root.iterdir() if path.is_file()}
    assert {name: after[name] for name in before if name != "weft.db-shm"} == {
        name: content for name, content in before.items() if name != "weft.db-shm"
    }


@pytest.mark.parametrize("lost", ["jobs", "attempts"])
def test_a_job_whose_end_was_not_acknowledged_is_recovered(
    sample: Sample, tmp_path: Path, attack: Attack, lost: str
) -> None:
    """The record of its attempt is still on disk, and one of its rows is damaged: the coordinator reports the end
    again, so the repaired log has the attempt as a live one."""
    with attack(f"log damage: the row of {lost} of a job whose end was not acknowledged"):
        home = sample.copy(tmp_path / "home")
        running = read_record(home, str(RUNNING), 1)
        assert running is not None
        (home.root / "jobs" / str(FAILED) / "attempts" / "1").mkdir(parents=True)
        write_record(home, replace(running, job=str(FAILED)))
        key = {"jobs": "id", "attempts": "job"}[lost]
        changed(f"UPDATE {lost} SET exit_code = 77 WHERE {key} = '{FAILED}'")(home)  # noqa: S608
        done = judge(sample, home, tmp_path / "scratch.db")
        assert done is not None
        assert done.settled.recovered == ([str(FAILED)] if lost == "jobs" else [])


def test_what_a_repair_says_is_whole(sample: Sample, tmp_path: Path) -> None:
    home = sample.copy(tmp_path / "home")
    _gone(home)
    done = repair(home)
    assert done is not None
    said = "\n".join(done.lines())
    assert "recovered: 5 jobs, 1 of them live" in said, said
    assert "go on as they run: 3 (1)" in said, said
    assert "not recovered, nothing of them could be read: 4, 5, 6 (3)" in said, said
    assert "the next job is 7" in said, said


# ---- while weft runs


def test_files_that_vanish_while_weft_runs(box: Box, attack: Attack) -> None:
    """Nothing is accepted then, jobs go on, and a restart goes on from what was saved."""
    kept = box.home.root / "kept"
    for name in ("weft.db", "weft.db-wal"):
        with attack(f"log damage: {name} is removed while weft runs"):
            before = box.submit("--hold", "--", "true")
            (box.home.root / name).rename(kept)
            done = box.weft("submit", "--", "true")
            assert done.returncode == 1
            assert f"{name} was removed or replaced while weft runs" in done.stderr, done.stderr
            assert "weft repair" in done.stderr
            assert any("nothing is accepted" in warning for warning in box.health()["warnings"])
            box.says("down")
            kept.unlink()
            if name == "weft.db":
                assert box.weft("up").returncode == 1
                box.says("repair")
            box.up()
            assert box.job(before)["state"] == "PENDING"
            box.says("cancel", before)


def test_a_log_that_is_damaged_while_jobs_run(box: Box, attack: Attack) -> None:
    with attack("log damage: garbage while the daemon is down and jobs run"):
        box.says("backup")
        box.says("down")
        overwritten(4 * PAGE_BYTES, random.Random(5).randbytes(6 * PAGE_BYTES))(box.home)
        up = box.weft("up")
        assert up.returncode == 1
        assert "Traceback" not in up.stderr
        assert "hint: weft repair" in up.stderr, up.stderr
        box.says("repair")
        box.up()
    with attack("log damage: back to a backup while jobs run"):
        box.says("down")
        box.says("restore")
        box.up()


def test_a_backup_that_is_killed_leaves_the_older_ones(box: Box, attack: Attack) -> None:
    from weft.control.store import backup as making

    for point in making.FAIL_POINTS:
        with attack(f"log damage: killed at {point} of a backup"):
            box.says("backup")
            box.run(sys.executable, "-m", "weft.control.store.log_tool", "backup", env={"WEFT_FAIL_AT": point})
            listed = box.says("restore", "--list")
            assert "cannot be used" not in listed
            assert "up to row" in listed
