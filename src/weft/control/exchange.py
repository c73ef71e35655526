"""Another log takes the place of the one in a home, whatever kills us meanwhile. The old one is kept, never deleted.

The watermark is the journal: it names the new log before anything is moved. Found there later, the exchange is
finished if the new log is in place, and undone if it is not.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from weft.control.watermark import ANY, Watermark, read_watermark, write_watermark
from weft.runtime.failpoints import reach
from weft.system.files import make_folder
from weft.system.home import Home

FAIL_POINTS = ("exchange-announced", "exchange-linked", "exchange-renamed", "exchange-cleared")

BESIDE = ("-wal", "-shm", "-journal")


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


def finish(home: Home) -> None:
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
