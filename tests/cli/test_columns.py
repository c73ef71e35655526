"""Tables on terminals of all widths: what the last column says survives."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from command import command_line
from hypothesis import given
from hypothesis import strategies as st
from livehome import Live
from typist import Typist

from weft.cli.render.tables import LEAST_LAST, SHRINKING, fitted
from weft.cli.verbs.queue import HEADS

GOES = ("TENANT", "STEPS/S", "TIME", "STEPS")
CELL = st.text("abc-:1", min_size=1, max_size=30)


def narrow(cells: list[str]) -> list[str]:
    """As a queue has them: numbers and letters that do not shrink are short."""
    return [cell if head in (*SHRINKING, HEADS[-1]) else cell[:7] for head, cell in zip(HEADS, cells, strict=True)]


@given(rows=st.lists(st.lists(CELL, min_size=9, max_size=9).map(narrow), max_size=5), limit=st.integers(60, 250))
def test_no_line_is_too_long_and_the_reason_keeps_its_room(rows: list[list[str]], limit: int) -> None:
    lines = fitted([list(HEADS), *rows], limit, SHRINKING, GOES)
    assert all(len(line) <= limit for line in lines)
    for row, line in zip(rows, lines[1:], strict=True):
        least = min(len(row[-1]), LEAST_LAST - 1)
        assert row[-1][:least] in line
        assert line.startswith(row[0])


def shown(at: Callable[..., Typist], live: Live, columns: int, *words: str) -> Typist:
    """`weft` on a terminal of this width."""
    size = f"struct.pack('HHHH', 24, {columns}, 0, 0)"
    sized = f"import fcntl, os, struct, sys, termios; fcntl.ioctl(0, termios.TIOCSWINSZ, {size}); "
    return at(sys.executable, "-c", f"{sized} os.execv(sys.argv[1], sys.argv[1:])", *command_line(*words), **live.env)


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_reason_survives_in_the_queue(at: Callable[..., Typist], live: Live, columns: int) -> None:
    name = "a-name-that-is-rather-long"
    job_id = live.submit("--hold", "--name", name, "--tenant", "a-long-tenant", "--", "true")
    line = shown(at, live, columns, "queue", "--name", name).sees(rf"\n({job_id} .*)\r")[1].rstrip()
    assert "held by its owner" in line
    assert len(line) <= columns
    assert ("a-long-tenant" in line) == (columns >= 100)
    live.says("cancel", job_id)


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_reason_survives_in_the_history(at: Callable[..., Typist], live: Live, columns: int) -> None:
    job_id = live.submit("--name", "a-name-that-is-rather-long", "--", "sh", "-c", "exit 3")
    live.is_("FAILED", job_id)
    line = shown(at, live, columns, "history", "--limit", "1").sees(rf"\n({job_id} .*)\r")[1].rstrip()
    assert "ended with exit code 3" in line
    assert len(line) <= columns
