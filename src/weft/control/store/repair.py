"""A log that a daemon can use, from a damaged one or from a backup. The log that was there is kept."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.control.store import watermark as exchange
from weft.control.store.backup import backups, verified
from weft.control.store.home_log import folded, open_log
from weft.control.store.integrity import DamageError, check, problems_of, schema_version
from weft.control.store.log_store import LogStore, scripts
from weft.control.store.reconstruction import (
    IdlePolicy,
    OnDisk,
    Settlement,
    attempts_on_disk,
    listed,
    make_foldable,
    merged,
    settle,
    with_environments,
    write_database,
)
from weft.control.store.salvage import Salvaged, salvaged
from weft.control.store.watermark import Watermark, highest_job_folder, read_watermark, wal_salts
from weft.core.errors import WeftError
from weft.runtime.failpoints import reach
from weft.system.home import Home

FAIL_POINTS = ("repair-read", "repair-written", "repair-settled")

DRAFT = ".weft-repair.db"


@dataclass
class Repaired:
    """What was found, and what became of it."""

    problems: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    jobs: int = 0
    settled: Settlement = field(default_factory=Settlement)
    is_exact: bool = True
    """The state of the queue is what the log's own snapshot and rows give; else it was made from the rows of jobs."""
    lost: list[str] = field(default_factory=list)
    """Numbers that were given to jobs of which nothing could be read."""
    faults: list[str] = field(default_factory=list)
    last_number: int = 0
    aside: Path | None = None

    def lines(self) -> list[str]:
        said = [f"found: {problem}" for problem in self.problems]
        said += [f"read: {source}" for source in self.sources]
        said.append(f"recovered: {self.jobs} jobs, {len(self.settled.live)} of them live")
        if not self.is_exact:
            said.append("the order of the queue and holds were made from the rows of jobs: some may have changed")
        for what, ids in (
            ("go on as they run", self.settled.kept),
            ("recovered from the records of their attempts", self.settled.recovered),
            ("run in an attempt that the log did not know: they are tried again", self.settled.repeated),
            ("run, but their records cannot be read: they are ended", self.settled.unknown),
            ("not recovered, nothing of them could be read", self.lost),
        ):
            said += [f"{what}: {listed(ids)} ({len(ids)})"] if ids else []
        said += [f"not recovered: {fault}" for fault in self.faults[:20]]
        if len(self.faults) > 20:
            said.append(f"not recovered: {len(self.faults) - 20} more rows")
        said.append(f"the next job is {self.last_number + 1}")
        return said + ([f"the log that was here is in {self.aside}"] if self.aside else [])


def repair(home: Home, *, is_dry: bool = False) -> Repaired | None:
    """Recover what can be read into a new log; None if there is nothing to repair."""
    exchange.finish_exchange(home)
    if schema_version(home.database) > len(scripts()):
        check(home)  # says that it is a newer weft's, which is no damage
    problems = problems_of(home) or _start_problems(home)
    if not problems:
        return None
    done = Repaired(problems)
    mark = read_watermark(home.watermark)
    sources, on_disk = _sources(home, mark, done), attempts_on_disk(home)
    reach("repair-read")
    with _draft(home) as draft:
        done.faults += write_database(draft, with_environments(merged(sources), on_disk))
        reach("repair-written")
        reached, instance = _settle(home, draft, done, on_disk)
        _tell_lost(draft, done)
        if not is_dry:
            done.aside = exchange.put_in_place(home, draft, reached, instance)
    return done


def _start_problems(home: Home) -> list[str]:
    """What keeps a daemon from starting though every row is as it was written."""
    try:
        with closing(open_log(home)) as store:
            folded(home, store, IdlePolicy(), {})
    except DamageError as error:
        return list(error.problems)
    return []


def restore(home: Home, file: Path, *, is_dry: bool = False) -> Repaired:
    """Put a backup in the place of the log."""
    exchange.finish_exchange(home)
    reached = verified(file)
    done = Repaired(sources=[f"{file}, up to row {reached.seq} and job {reached.number}"])
    with _draft(home) as draft:
        shutil.copyfile(file, draft)
        draft.chmod(0o600)
        reach("repair-written")
        reached, instance = _settle(home, draft, done, attempts_on_disk(home))
        if not is_dry:
            done.aside = exchange.put_in_place(home, draft, reached, instance)
    return done


def _sources(home: Home, mark: Watermark | None, done: Repaired) -> list[Salvaged]:
    """The damaged log and the newest backup that is whole, the one that has come further first."""
    salts = wal_salts(home.database)
    uses_wal = mark is None or salts is None or mark.allows(salts)
    found = [(_reached(rows), rows, str(home.database)) for rows in [salvaged(home.database, uses_wal=uses_wal)]]
    done.faults += found[0][1].faults
    for path, _ in backups(home):
        with suppress(WeftError, OSError):
            reached = verified(path)
            if mark is None or not mark.log or reached.log == mark.log:
                found.append((reached, salvaged(path, uses_wal=False), str(path)))
                break
    log_id = mark.log if mark else ""
    is_ours = [bool(each[1].rows["jobs"]) and (not log_id or each[0].log in ("", log_id)) for each in found]
    order = sorted(range(len(found)), key=lambda at: (is_ours[at], found[at][0].seq), reverse=True)
    chosen = [found[at] for at in order if is_ours[at]] or [found[order[0]]]
    for reached, rows, name in chosen:
        counts = f"{len(rows.rows['jobs'])} jobs, {len(rows.rows['log'])} rows of the log"
        done.sources.append(f"{name}: {counts}, up to row {reached.seq}")
    return [rows for _, rows, _ in chosen]


def _reached(rows: Salvaged) -> Watermark:
    setting = rows.rows["settings"].get(("log id",))
    seqs = [row["seq"] for table in ("log", "snapshots") for row in rows.rows[table].values()]
    numbers = [row["number"] for row in rows.rows["jobs"].values()]
    return Watermark(setting["value"] if setting else "", max(numbers, default=0), max(seqs, default=0))


def _settle(home: Home, draft: Path, done: Repaired, on_disk: OnDisk) -> tuple[Watermark, str]:
    """How far the new log has come, and what tells it from the one it replaces."""
    mark, instance = read_watermark(home.watermark) or Watermark(), os.urandom(16).hex()
    with closing(LogStore(draft)) as store:
        log_id = mark.log or store.setting("log id") or os.urandom(16).hex()
        before = replace(mark, log=log_id, number=max(mark.number, highest_job_folder(home.root / "jobs")))
        done.is_exact = make_foldable(store)
        done.settled = settle(store, on_disk, before, instance)
        done.jobs = sum(row["jobs"] for row in store.all("counts")) + len(done.settled.live)
    reach("repair-settled")
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")  # a whole file: nothing beside it belongs to it
    fd = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)
    reached = verified(draft)
    done.last_number = reached.number
    return reached, instance


def _tell_lost(draft: Path, done: Repaired) -> None:
    """Numbers are given one after the other, so those that are missing had jobs."""
    with closing(sqlite3.connect(draft)) as db:
        there = {row[0] for row in db.execute("SELECT number FROM jobs")}
    done.lost = [str(number) for number in range(1, done.last_number + 1) if number not in there]


@contextmanager
def _draft(home: Home) -> Iterator[Path]:
    """A file beside the log, with nothing left of an earlier one that was killed over it."""
    draft = home.root / DRAFT
    _remove(draft)
    try:
        yield draft
    except (sqlite3.Error, OSError) as error:
        raise WeftError(
            f"no new log can be made: {error}", "is there room on the disk? the log is as it was"
        ) from error
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)
