"""`weft queue --watch`: the listing, again and again."""

from __future__ import annotations

import json
import select
import signal
import sys
import time
from collections.abc import Callable

import click

from weft.cli.shown import in_states, terminal_size
from weft.client import Job, UnreachableError

HOME, TO_END_OF_LINE, TO_END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
AROUND = 3
"""Rows that are not jobs: what it is, the heads of the columns, and how many more there are."""

Listed = Callable[[int], tuple[list[Job], int]]
Table = Callable[[list[Job]], list[str]]


def watch(ask: Listed, table: Table, limit: int | None, every_s: float, is_json: bool, parsable: bool) -> None:
    """Until Ctrl-C, which is no error."""
    is_screen = sys.stdout.isatty() and not is_json and not parsable
    try:
        if is_screen:
            _redraw(ask, table, limit, every_s)
        while True:
            jobs, _ = ask(limit or 0)
            if is_json:
                click.echo(json.dumps(jobs))
            else:
                click.echo(time.strftime("%Y-%m-%d %H:%M:%S"))
                for line in [job["id"] for job in jobs] if parsable else table(jobs):
                    click.echo(line)
                click.echo()
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        if is_screen:
            click.echo()


def _redraw(ask: Listed, table: Table, limit: int | None, every_s: float) -> None:
    """In place: each line over the one that was there, so that nothing flickers. Anew at once in a resized terminal."""
    import os

    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGWINCH, lambda *_: None)  # its number comes through the pipe
    shown: list[str] = []
    while True:
        columns, rows = terminal_size()
        room = max(1, rows - AROUND)
        now = time.strftime("%H:%M:%S")
        try:
            jobs, total = ask(min(limit or room, room))
            states = dict.fromkeys(job["state"] for job in jobs)
            counts = {state: sum(job["state"] == state for job in jobs) for state in states}
            more = [f"and {total - len(jobs):,} more"] if total > len(jobs) else []
            shown = [*table(jobs), *more]
            head = f"weft queue  {now}  {in_states(counts) or 'no jobs'}"
        except UnreachableError as error:
            head = f"weft queue  {now}  {error.message}; asked again every {every_s:g} s"
        lines = [line[: columns - 1] for line in [head, *shown]][:rows]
        drawn = f"{TO_END_OF_LINE}\n".join(lines)
        sys.stdout.write(f"{HOME}{drawn}{TO_END_OF_LINE}{TO_END_OF_SCREEN}")
        sys.stdout.flush()
        if select.select([woken], [], [], every_s)[0]:
            os.read(woken, 4096)
