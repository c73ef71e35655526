"""`weft doctor`, `backup`, `restore`, `repair`: check the installation, and look after the log."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import click

from weft.cli.render.quantities import printable
from weft.cli.render.tables import show_json


@click.command(short_help="Check the installation and report problems.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--socket", "wants_socket", is_flag=True, help="Only print the path of the daemon's REST socket.")
def doctor(is_json: bool, wants_socket: bool) -> int:
    """Check the installation, this machine and the daemon, and report problems. Exit code 1 if there are any."""
    if wants_socket:
        from weft.system.home import Home

        click.echo(Home.find().socket)
        return 0
    from weft.cli.diagnosis import findings

    found = findings()
    if is_json:
        show_json([asdict(each) for each in found])
    else:
        for each in found:
            click.echo(f"{'ok ' if each.is_ok else 'off'}  {each.what}: {printable(each.says)}")
            if each.hint and not each.is_ok:
                click.echo(f"     hint: {printable(each.hint)}")
    return int(not all(each.is_ok for each in found))


@click.command(short_help="Back up the log, also while weft runs.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def backup(file: Path | None) -> int:
    """Copy the log, verify the copy, and keep it in the folder backups of the home, or as FILE."""
    return maintain("backup", file)


@click.command(short_help="Restore the log from a backup.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "is_list", is_flag=True, help="Only list the backups, and whether each is usable.")
@click.option("--dry-run", is_flag=True, help="Print what would be restored, and change nothing.")
def restore(file: Path | None, is_list: bool, dry_run: bool) -> int:
    """Replace the log by the newest backup, or by FILE. weft must be down; the replaced log is kept.

    Running jobs continue if the backup or their records on disk know them. No job id is used twice.
    """
    return maintain("restore", file, *(["--list"] if is_list else []), *(["--dry-run"] if dry_run else []))


@click.command(short_help="Recover a damaged log.")
@click.option("--dry-run", is_flag=True, help="Print what would be recovered, and change nothing.")
def repair(dry_run: bool) -> int:
    """Recover what is readable of a damaged log into a new one, and report what is lost. weft must be down.

    It reads the damaged log row by row, the newest backup, and the records of running jobs. The damaged log is kept.
    """
    return maintain("repair", *(["--dry-run"] if dry_run else []))


def maintain(*words: str | Path | None) -> int:
    """Run the daemon's maintenance program, which prints its own messages."""
    command = [sys.executable, "-P", "-m", "weft.control.store.log_tool"]
    given = [str(word.absolute()) if isinstance(word, Path) else word for word in words if word is not None]
    return subprocess.run([*command, *given], check=False).returncode  # noqa: S603
