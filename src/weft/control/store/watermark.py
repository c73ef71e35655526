"""How far the log has come, in a small file beside it (weft.mark), and the exchange of one log for another.

The watermark is written after each commit, in place and without a flush: it survives the end of any process, and it is
never ahead of the log. So a log that is behind it has lost something: it was emptied, rolled back, replaced, or its
write-ahead log is gone.

When another log takes the place of the one in a home, the watermark is the journal: it names the new log before
anything is moved. If that is interrupted, the exchange is finished when the new log is in place, and undone when it is
not. The old log is kept, never deleted.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

from weft.runtime.failpoints import reach
from weft.system.files import WrongKindError, make_folder, open_regular, read_regular, replace_file
from weft.system.home import Home

SIZE_BYTES = 512
ANY = "any"
"""Of a write-ahead log that is about to be made: which one it is is not known yet."""
MOST_RESETS = 16
"""So often SQLite may begin its write-ahead log anew between two marks."""
FAIL_POINTS = ("exchange-announced", "exchange-linked", "exchange-renamed", "exchange-cleared")
BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Watermark:
    log: str = ""
    """The identifier that the log was given."""
    number: int = 0
    """The last that a job was given."""
    seq: int = 0
    """The last row."""
    wal: str = ANY
    """The salts of the write-ahead log, as SQLite chose them."""
    replacing: str = ""
    """While another log is put in place: the identifier of that one, and where the old one is kept."""
    aside: str = ""

    def allows(self, salts: str) -> bool:
        """Whether a write-ahead log with these salts can be the log's own. SQLite counts the first of them up."""
        if self.wal == ANY or salts == self.wal:
            return True
        return (int(salts[:8], 16) - int(self.wal[:8], 16)) % 2**32 <= MOST_RESETS


def read_watermark(path: Path) -> Watermark | None:
    """None if there is none, or none that can be read: it is a guard, and no truth."""
    try:
        text, _, said = read_regular(path, SIZE_BYTES).rstrip().rpartition(b" ")
        if int(said, 16) != crc32(text):
            return None
        found = Watermark(**json.loads(text))
        found.allows("0" * 16)
    except (OSError, WrongKindError, ValueError, TypeError):
        return None
    return found


def write_watermark(path: Path, mark: Watermark) -> None:
    """For good, from one instant to the next."""
    replace_file(path, _written(mark))
    for each in (path, path.parent):
        fd = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class OpenWatermark:
    """The file, held open to be written in place."""

    def __init__(self, path: Path, mark: Watermark) -> None:
        self.mark = mark
        write_watermark(path, mark)
        self._fd = open_regular(path, os.O_WRONLY)

    def move(self, **changed: str | int) -> None:
        self.mark = replace(self.mark, **changed)  # type: ignore[arg-type]
        os.pwrite(self._fd, _written(self.mark), 0)

    def close(self) -> None:
        os.fsync(self._fd)
        os.close(self._fd)


def _written(mark: Watermark) -> bytes:
    text = json.dumps(asdict(mark)).encode()
    return (text + b" %08x" % crc32(text)).ljust(SIZE_BYTES - 1) + b"\n"


def wal_salts(database: Path) -> str | None:
    """Of the write-ahead log beside a database; None if there is none, or nothing is in it."""
    try:
        header = read_regular(database.with_name(f"{database.name}-wal"), 32)
    except (OSError, WrongKindError):
        return None
    return header[16:24].hex() if len(header) == 32 else None


def highest_job_folder(jobs: Path) -> int:
    """The highest number that a job with a folder has; 0 if there is none."""
    highest = 0
    with os.scandir(jobs) as entries:
        for entry in entries:
            number = entry.name.partition("_")[0]
            if number.isascii() and number.isdecimal() and len(number) <= 15:
                highest = max(highest, int(number))
    return highest


def put_in_place(home: Home, draft: Path, reached: Watermark, instance: str) -> Path:
    """Make `draft`, a closed database that has come so far, the log of this home; where the old one is kept."""
    make_folder(home.damaged)
    aside = home.damaged / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-{os.urandom(2).hex()}"
    aside.mkdir(mode=0o700)
    before = read_watermark(home.watermark) or Watermark()
    write_watermark(home.watermark, replace(before, log=reached.log, replacing=instance, aside=aside.name))
    reach("exchange-announced")
    _keep(home, aside)
    reach("exchange-linked")
    draft.replace(home.database)
    reach("exchange-renamed")
    _clear_beside(home, aside)
    reach("exchange-cleared")
    write_watermark(home.watermark, replace(reached, wal=ANY))
    return aside


def finish_exchange(home: Home) -> None:
    """Finish or undo an exchange that was broken off. Call it with the daemon's lock held."""
    mark = read_watermark(home.watermark)
    if mark is None or not mark.replacing:
        return
    aside = home.damaged / Path(mark.aside).name
    if _instance(home.database) == mark.replacing:
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear_beside(home, aside)
        write_watermark(home.watermark, Watermark(mark.log, mark.number, mark.seq))
    else:
        kept = aside / home.database.name
        if os.path.lexists(home.database):
            kept.unlink(missing_ok=True)  # the second name of a file that is in place
        elif os.path.lexists(kept):
            kept.rename(home.database)
        with suppress(OSError):
            aside.rmdir()
        write_watermark(home.watermark, replace(mark, replacing="", aside=""))


def _keep(home: Home, aside: Path) -> None:
    """The old log under another name as well; what is no file (a folder, a fifo) is moved there."""
    if not os.path.lexists(home.database):
        return
    if home.database.is_file() and not home.database.is_symlink():
        os.link(home.database, aside / home.database.name)
    else:
        home.database.rename(aside / home.database.name)


def _clear_beside(home: Home, aside: Path) -> None:
    """The write-ahead log of the old one would be applied to the new one."""
    for suffix in BESIDE:
        path = Path(f"{home.database}{suffix}")
        if os.path.lexists(path):
            path.rename(aside / path.name)


def _instance(database: Path) -> str | None:
    """Of the file alone, without what is in a write-ahead log."""
    if not database.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?immutable=1", uri=True)) as db:
            row = db.execute("SELECT value FROM settings WHERE name = 'instance'").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return str(row[0]) if row else None
