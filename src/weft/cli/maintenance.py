"""`weft backup`, `weft restore`, `weft repair`: the log itself, which the control plane's own program works on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click


@click.command(short_help="Copy the log, also while weft runs.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def backup(file: Path | None) -> int:
    """Copy the log as it is now, verify the copy, and keep it in the home's folder backups, or as FILE."""
    return maintain("backup", file)


@click.command(short_help="Go back to a backup of the log.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "is_list", is_flag=True, help="Only list the backups, and say whether each can be used.")
@click.option("--dry-run", is_flag=True, help="Say what would be restored, and change nothing.")
def restore(file: Path | None, is_list: bool, dry_run: bool) -> int:
    """Put the newest backup, or FILE, in the place of the log. weft must be down; the log that was there is kept.

    Jobs that run go on if the backup knows them or their records on disk can be read. No number is given twice.
    """
    return maintain("restore", file, *(["--list"] if is_list else []), *(["--dry-run"] if dry_run else []))


@click.command(short_help="Recover a damaged log.")
@click.option("--dry-run", is_flag=True, help="Say what would be recovered, and change nothing.")
def repair(dry_run: bool) -> int:
    """Recover what can be read of a damaged log into a new one, and say what could not be. weft must be down.

    It reads the damaged log row by row, the newest backup, and the records of jobs that run. The damaged log is kept.
    """
    return maintain("repair", *(["--dry-run"] if dry_run else []))


def maintain(*words: str | Path | None) -> int:
    """Run the control plane's program for it; it prints for itself."""
    command = [sys.executable, "-P", "-m", "weft.control.store.log_tool"]
    given = [str(word.absolute()) if isinstance(word, Path) else word for word in words if word is not None]
    return subprocess.run([*command, *given], check=False).returncode  # noqa: S603
