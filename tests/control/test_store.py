"""One SQLite file: for its owner alone, of a known version, and with a schema that lets nothing absurd in."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from office import BEGIN, batch_of, request

from weft.control.clock import Mark
from weft.control.loop.inputs import InstantOutcome
from weft.control.loop.job_record import JobRecord
from weft.control.loop.job_state import JobState
from weft.control.store import log_store as stores
from weft.control.store.home_log import open_log, read_problems
from weft.control.store.log_store import COVERED, Batch, Fact, LogStore, StoreError, is_intact, scripts, upgrade
from weft.control.store.reconstruction import IdlePolicy
from weft.control.store.replay import load_control_state
from weft.core.errors import WeftError
from weft.core.serialization import KINDS
from weft.core.snapshot import snapshot
from weft.system.home import Home

FIXTURES = Path(__file__).parents[1] / "fixtures"
MARK = Mark(BEGIN, "this boot", 5.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore(tmp_path / "weft.db")
    yield made
    made.close()


def job(**changed: Any) -> dict[str, Any]:
    record = JobRecord("1", 1, None, request().request, 1, BEGIN)
    return {**record.row(JobState.PENDING), **changed}


def attempt(number: int, **changed: Any) -> dict[str, Any]:
    return {**JobRecord("1", 1, None, request().request, 1, BEGIN, attempt=number).attempt_row(), **changed}


def written(store: LogStore, *jobs: dict[str, Any], attempts: tuple[dict[str, Any], ...] = ()) -> None:
    store.commit(Batch(MARK, [Fact("Woken", None, {})], jobs=jobs, attempts=attempts))


@pytest.fixture
def with_environment(store: LogStore) -> LogStore:
    store.commit(Batch(MARK, [], environments=[(1, "digest", "{}")]))
    return store


# ---- the file


def test_its_files_are_their_owners_alone(store: LogStore) -> None:
    written(store)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    assert files.keys() >= {"weft.db", "weft.db-wal"}
    assert set(files.values()) == {0o600}


def test_it_is_flushed_with_every_commit(store: LogStore) -> None:
    assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_what_is_written_is_there_for_the_next_one(store: LogStore) -> None:
    written(store)
    again = LogStore(store.path)
    assert [kind for _, kind, _ in again.log_after(0)] == ["Woken"]
    assert again.last_mark() == MARK
    again.close()


def test_an_older_log_is_brought_up_to_date_step_by_step(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "weft.db", isolation_level=None)
    upgrade(old, scripts())
    old.execute("INSERT INTO settings (name, value) VALUES ('policy', 'fifo')")
    newer = [*scripts(), "ALTER TABLE settings ADD COLUMN note TEXT;", "UPDATE settings SET note = 'by a later step';"]
    upgrade(old, newer)
    assert old.execute("SELECT name, value, note FROM settings").fetchone() == ("policy", "fifo", "by a later step")
    assert old.execute("PRAGMA user_version").fetchone() == (len(newer),)
    upgrade(old, newer)  # nothing is left to be done
    old.close()


def test_a_step_that_fails_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "weft.db", isolation_level=None)
    upgrade(db, scripts())
    with pytest.raises(WeftError, match="the log cannot be brought to version"):
        upgrade(db, [*scripts(), "CREATE TABLE half (a) STRICT; CREATE TABLE done (a TEXT) STRICT;"])
    db.close()
    again = sqlite3.connect(tmp_path / "weft.db")
    assert again.execute("PRAGMA user_version").fetchone() == (len(scripts()),)
    assert again.execute("SELECT count(*) FROM sqlite_schema WHERE name IN ('half', 'done')").fetchone() == (0,)
    again.close()
    LogStore(tmp_path / "weft.db").close()


def test_a_log_of_a_newer_weft_is_refused(store: LogStore) -> None:
    store._db.execute(f"PRAGMA user_version = {len(scripts()) + 1}")
    with pytest.raises(WeftError, match="the log is of version") as refused:
        LogStore(store.path)
    assert refused.value.hint == "use the newer weft that wrote it"


@pytest.mark.parametrize("content", [b"this is no database, and long enough to be sure of it" * 20, b"\0" * 4096])
def test_a_file_that_is_no_log_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "weft.db").write_bytes(content)
    with pytest.raises(WeftError, match="the log cannot be read") as refused:
        LogStore(tmp_path / "weft.db")
    assert "move it away" in refused.value.hint
    assert (tmp_path / "weft.db").read_bytes() == content


# ---- the schema


ABSURD = {
    "a success that failed": job(state="SUCCEEDED", exit_code=1, finished_at=BEGIN),
    "a success without an exit code": job(state="SUCCEEDED", finished_at=BEGIN),
    "an end without a time": job(state="FAILED", exit_code=1),
    "a live job that is over": job(state="RUNNING", finished_at=BEGIN),
    "a state nobody knows": job(state="TIRED"),
    "a class nobody knows": job(**{"class": "first"}),
    "half alive": job(is_alive=2),
    "an environment that is not there": job(environment=7),
    "a number that is a text": job(attempt="one"),
}


@pytest.mark.parametrize("case", ABSURD)
def test_what_is_absurd_is_not_let_in(with_environment: LogStore, case: str) -> None:
    with pytest.raises(StoreError) as refused:
        written(with_environment, ABSURD[case])
    assert isinstance(refused.value.__cause__, sqlite3.IntegrityError)
    assert with_environment.all("live_jobs") == []
    assert list(with_environment.log_after(0)) == [], "nothing of the instant is there"


def test_a_job_has_one_live_attempt_at_most(with_environment: LogStore) -> None:
    written(with_environment, job(), attempts=(attempt(1),))
    with pytest.raises(StoreError) as refused:
        written(with_environment, attempts=(attempt(2),))
    assert isinstance(refused.value.__cause__, sqlite3.IntegrityError)
    written(with_environment, attempts=(attempt(1, ended_at=BEGIN, outcome="lost"), attempt(2)))
    assert [row["attempt"] for row in with_environment.all("live_attempts")] == [2]


@pytest.mark.parametrize("changed", [{"ended_at": BEGIN}, {"outcome": "lost"}, {"outcome": "tired", "ended_at": BEGIN}])
def test_an_attempt_that_is_over_has_a_time_and_a_known_outcome(store: LogStore, changed: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        written(store, attempts=(attempt(1, **changed),))


AS_SUBMITTED = ("id", "number", "array_index", "name", "tenant", "class", "submitted_at", "request")
"""Columns of a job that no later write changes."""
LATER: dict[str, dict[str, Any]] = {
    "attempts": {
        "devices": '["cpu:1"]', "lane_base": 7, "lane_weight": 9, "granted_at": BEGIN + 1, "started_at": BEGIN + 2,
        "ended_at": BEGIN + 3, "outcome": "lost", "exit_code": 3,
    },
    "jobs": {
        "state": "FAILED", "reason": "it failed", "exit_code": 3, "attempt": 4, "is_alive": 1, "failures": 5,
        "losses": 6, "preemptions": 7, "unseats": 8, "started_at": BEGIN + 1, "finished_at": BEGIN + 2,
        "not_before": BEGIN + 3, "ending": '["a", "b"]', "run_s": 9.0, "wait_s": 10.0, "steps": 11,
        "step_rate_hz": 12.0, "persistent_bytes": 13, "ephemeral_bytes": 14, "overflow_bytes": 15, "peak_bytes": 16,
    },
}  # fmt: skip
"""Another value for every other column that a checksum covers."""


@pytest.mark.parametrize("table", LATER)
def test_a_row_that_is_written_again_has_all_that_its_checksum_covers(with_environment: LogStore, table: str) -> None:
    first = {"jobs": job(), "attempts": attempt(1)}[table]
    again = {**first, **LATER[table]}
    fixed = {"jobs": AS_SUBMITTED, "attempts": ("job", "attempt")}[table]
    assert {*fixed, *LATER[table]} == {*COVERED[table]}
    assert all(first[column] != again[column] for column in LATER[table])
    for row in (first, again):
        with_environment.commit(Batch(MARK, [], **{table: [row]}))
    (found,) = rows_of(with_environment, table)
    assert {column: found[column] for column in LATER[table]} == LATER[table]
    assert is_intact(table, found)


def rows_of(store: LogStore, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(store.path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608


def test_no_two_elements_of_an_array_have_one_index(with_environment: LogStore) -> None:
    with pytest.raises(StoreError):
        written(with_environment, job(id="1_3", array_index=3), job(id="1_03", array_index=3))


def test_a_request_is_answered_with_one_number_for_ever(store: LogStore) -> None:
    store.commit(Batch(MARK, [], requests=[("abc", 1)]))
    with pytest.raises(StoreError):
        store.commit(Batch(MARK, [], requests=[("abc", 2)]))


# ---- no room


def test_on_a_full_disk_nothing_of_the_instant_is_there(store: LogStore) -> None:
    written(store)
    store._db.execute("PRAGMA max_page_count = 1")  # it is set to what there is
    outcome = InstantOutcome(facts=[Fact("Woken", None, {"filler": "x" * 4000}) for _ in range(1_000)])
    with pytest.raises(StoreError, match="database or disk is full") as refused:
        store.commit(batch_of(outcome, BEGIN + 1))
    assert refused.value.hint.startswith("free some space")
    assert len(list(store.log_after(0))) == 1
    assert store.last_mark() == MARK
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.commit(batch_of(outcome, BEGIN + 1))
    assert len(list(store.log_after(0))) == 1_001


# ---- compaction


def test_compaction_keeps_what_is_young_or_lives(with_environment: LogStore) -> None:
    store = with_environment

    def wrote(at: float, job_id: str | None) -> None:
        store.commit(Batch(Mark(at, "this boot", at), [Fact("Reported", job_id, {"what": "x"})]))

    for number, finished_at in ((1, None), (2, BEGIN + 20.0), (3, BEGIN + 99.0)):
        state = {} if finished_at is None else {"state": "FAILED", "finished_at": finished_at}
        written(store, job(id=str(number), number=number, **state))
    store._db.execute("DELETE FROM log")
    for at in (10.0, 60.0):
        for about in (None, "1", "2", "3"):
            wrote(BEGIN + at, about)
    last = store.one("last_seq")
    assert last is not None
    store.put_snapshot(last["seq"], BEGIN + 100.0, '{"nodes": []}', keep_from=BEGIN + 50.0)
    kept = [(row["at"] - BEGIN, about) for about in ("1", "2", "3") for row in store.all("log_of_job", about)]
    assert kept == [(10.0, "1"), (60.0, "1"), (60.0, "2"), (10.0, "3"), (60.0, "3")]


def test_a_number_of_a_row_is_never_given_again(with_environment: LogStore) -> None:
    store = with_environment
    written(store, job(state="FAILED", finished_at=BEGIN))
    seq = store.commit(Batch(MARK, [Fact("Reported", "1", {})]))
    store.put_snapshot(seq, BEGIN, '{"nodes": []}', keep_from=BEGIN + 1e9)
    after = store.commit(Batch(MARK, [Fact("Woken", None, {})]))
    assert after > seq
    assert [kind for _, kind, _ in store.log_after(seq)] == ["Woken"]


def test_environments_are_kept_of_so_many_jobs_that_ended_last(
    with_environment: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.control.store.log_store.ENVIRONMENTS_KEPT", 1)
    store = with_environment
    store.commit(Batch(MARK, [], environments=[(2, "other", "{}")]))
    written(store, job(state="FAILED", finished_at=BEGIN + 1.0))
    written(store, job(id="2", number=2, environment=2, state="FAILED", finished_at=BEGIN + 2.0))
    seq = store.commit(Batch(MARK, [Fact("Woken", None, {})]))
    store.put_snapshot(seq, BEGIN, '{"nodes": []}', keep_from=0.0)
    assert [row["id"] for row in store.all("environments")] == [2]


def test_environments_go_with_the_last_job_that_lives_or_ended_lately(with_environment: LogStore) -> None:
    store = with_environment
    store.commit(Batch(MARK, [], environments=[(2, "other", '{"SECRET": "x"}')]))
    written(store, job(), job(id="2", number=2, environment=2, state="FAILED", finished_at=BEGIN))
    seq = store.commit(Batch(MARK, [Fact("Woken", None, {})]))
    store.put_snapshot(seq, BEGIN, '{"nodes": []}', keep_from=BEGIN - 1.0)
    assert [row["id"] for row in store.all("environments")] == [1, 2]
    store.put_snapshot(seq, BEGIN, '{"nodes": []}', keep_from=BEGIN)
    assert [row["id"] for row in store.all("environments")] == [1]
    assert b"SECRET" not in b"".join(
        bytes(row[0], "utf-8") for row in store._db.execute("SELECT body FROM environments")
    )


# ---- what is on disk


def test_a_log_of_version_0_1_0_folds_to_the_same_state(tmp_path: Path) -> None:
    """It was written before classes got other names. The policy decides nothing here, so what is folded is the log."""
    with closing(sqlite3.connect(tmp_path / "weft.db")) as db:
        db.executescript((FIXTURES / "log-of-0.1.0.sql").read_text())
    with closing(LogStore(tmp_path / "weft.db")) as store:
        control = load_control_state(store, IdlePolicy(), {})
        jobs = {job_id: control.job_state(job_id) for job_id in control.records}
        folded = {"ledger": snapshot(control.scheduler.ledger), "jobs": jobs}
    assert json.loads(json.dumps(folded)) == json.loads((FIXTURES / "log-of-0.1.0.folded.json").read_text())


def test_the_kinds_of_rows_are_those_of_version_0_1_0() -> None:
    """Kinds may be added, never changed or taken away."""
    folded = (
        "Submitted Finished Failed Lost Launched Stepped Progressed Measured Grown Cancelled Held Released NodeJoined "
        "NodeLost DevicesBlocked Woken Start Preempt Seat Unseat"
    )
    assert KINDS.keys() >= set(folded.split())
    noted = (stores.NOTED, stores.REPORTED, stores.STOPPING, stores.ENDED, stores.POLICY_CHANGED, stores.SETTLED)
    assert noted == ("Noted", "Reported", "Stopping", "Ended", "PolicyChanged", "Settled")


def test_another_program_may_read_the_log_while_it_is_open(tmp_path: Path) -> None:
    """The last program to close a database removes its write-ahead log. SQLite's lock says that we are still there,
    unless a descriptor of the file is closed somewhere in this process: that drops the lock."""
    home = Home(tmp_path)
    (tmp_path / "jobs").mkdir()
    read = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM log').fetchall()"
    with closing(open_log(home)) as store:
        for look in (lambda: None, lambda: read_problems(home), lambda: LogStore(home.database).close()):
            look()
            subprocess.run([sys.executable, "-c", read, home.database], check=True)
            assert store.watch is not None
            assert store.watch.trouble == ""
            written(store)


def test_every_query_that_is_asked_for_is_there() -> None:
    source = "".join(path.read_text() for path in Path(stores.__file__).parent.glob("*.py"))
    asked = set(re.findall(r'\.(?:one|all|rows|_one|count)\(\s*"(\w+)"', source)) | set(
        re.findall(r'QUERIES\["(\w+)"\]', source)
    )
    assert asked - {"query"} <= stores.QUERIES.keys()
