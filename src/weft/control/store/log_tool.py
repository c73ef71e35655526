"""`python -m weft.control.store.log_tool`: runs `weft backup`, `restore`, `repair` and `doctor`.

They work on the files, most of them without a daemon, so they are no part of the REST API; and the CLI does not load
the control plane.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from weft.control.store import integrity
from weft.control.store.backup import back_up, backups, verified
from weft.control.store.repair import Repaired, repair, restore
from weft.core.errors import WeftError
from weft.system.home import Home
from weft.system.lockfile import LockedError, taken_lock


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="weft.control.store.log_tool")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check")
    verbs.add_parser("repair").add_argument("--dry-run", action="store_true")
    verbs.add_parser("backup").add_argument("file", nargs="?", type=Path)
    restoring = verbs.add_parser("restore")
    restoring.add_argument("file", nargs="?", type=Path)
    restoring.add_argument("--list", action="store_true")
    restoring.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        return _do(Home.find(), options)
    except WeftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _do(home: Home, options: argparse.Namespace) -> int:
    if not home.root.is_dir():
        raise WeftError(f"there is no weft in {home.root}", "weft up")
    match options.verb:
        case "check":
            print(json.dumps({"problems": _problems(home)}))
        case "backup":
            made = back_up(home, options.file)
            _say(f"{made.path}: up to row {made.reached.seq} and job {made.reached.number}")
        case "restore" if options.list:
            _list(home)
        case "restore":
            with _alone(home):
                _tell(restore(home, options.file or _newest(home), is_dry=options.dry_run), options.dry_run)
        case "repair":
            with _alone(home):
                done = repair(home, is_dry=options.dry_run)
            if done is None:
                _say("the log is sound: there is nothing to repair")
            else:
                _tell(done, options.dry_run)
    return 0


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No daemon runs, and none starts meanwhile."""
    try:
        with taken_lock(home.daemon_lock, "daemon"):
            yield
    except LockedError as error:
        raise WeftError(f"{error.message}; its log is in use", "weft down first; jobs go on") from error


def _problems(home: Home) -> list[str]:
    try:
        return integrity.problems_of(home)
    except WeftError as error:
        return [error.message]


def _newest(home: Home) -> Path:
    for path, _ in backups(home):
        try:
            verified(path)
        except WeftError as error:
            _say(f"passed over: {error.message}")
        else:
            return path
    raise WeftError(
        f"there is no backup in {home.backups} that can be used", "weft restore FILE takes one from elsewhere"
    )


def _list(home: Home) -> None:
    for path, made in backups(home):
        age_h = (datetime.now(UTC) - made).total_seconds() / 3600
        try:
            reached = verified(path)
            print(f"{path}  {age_h:.1f} h old, up to row {reached.seq} and job {reached.number}")
        except WeftError as error:
            print(f"{path}  {age_h:.1f} h old, cannot be used: {error.message}")


def _tell(done: Repaired, is_dry: bool) -> None:
    for line in done.lines():
        _say(line)
    _say("nothing was changed: this was a dry run" if is_dry else "weft up goes on from here")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
