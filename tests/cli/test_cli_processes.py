"""`weft` as a process among others: signals, pipes, terminals, and what it loads."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from command import command_line

from waiting import PATIENCE_S

STUCK = '''
import threading
from weft.core.reasons import Code, Reason


class Stuck:
    """Says that it was asked to decide, and never answers."""

    def decide(self, view):
        with open("asked", "w") as pipe:
            pipe.write("x")
        threading.Event().wait()

    def explain(self, view, job):
        return Reason(Code.HELD)
'''


class Started:
    """A simulation in a session of its own, once all its policies have been asked to decide."""

    def __init__(self, policies: int) -> None:
        named = ",".join(["stuck.py:Stuck"] * policies)
        self.process = subprocess.Popen(
            command_line("simulate", "many.csv", "--cluster", "4x4", "--policy", named, "--workers", "2"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def said(self) -> tuple[str, str]:
        """Everything, up to the end of the last process that could still say something."""
        return self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def started() -> Iterator[Callable[[int], Started]]:
    Path("stuck.py").write_text(STUCK)
    os.mkfifo("asked")
    pipe = os.open("asked", os.O_RDWR)
    with ExitStack() as cleanup:
        cleanup.callback(os.close, pipe)

        def start(policies: int) -> Started:
            started = Started(policies)
            cleanup.callback(_end_session, started.process.pid)
            for _ in range(policies):
                assert select.select([pipe], [], [], PATIENCE_S)[0], "the policy was never asked"
                os.read(pipe, 1)
            return started

        yield start


def _end_session(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@pytest.mark.parametrize("policies", [1, 2])
def test_an_interrupt_ends_it_quietly_and_leaves_no_process_behind(
    started: Callable[[int], Started], policies: int
) -> None:
    simulation = started(policies)
    os.killpg(simulation.process.pid, signal.SIGINT)
    stdout, stderr = simulation.said()
    assert simulation.process.returncode == 130
    assert stdout == ""
    assert stderr.strip() == ""


def test_workers_end_when_the_process_that_asked_is_killed(started: Callable[[int], Started]) -> None:
    simulation = started(2)
    simulation.process.kill()
    simulation.said()
    assert simulation.process.returncode == -signal.SIGKILL


def test_a_reader_that_goes_away_is_no_reason_to_complain() -> None:
    process = subprocess.Popen(
        command_line("simulate", "few.csv", "--cluster", "2x2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 1


def test_files_are_written_even_if_the_reader_goes_away() -> None:
    outputs = ["--report", "h.html", "--json", "h.json", "--csv", "h.csv"]
    process = subprocess.Popen(
        command_line("simulate", "few.csv", "--cluster", "2x2", *outputs),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    process.stdout.close()
    process.wait(PATIENCE_S)
    assert all(Path(name).stat().st_size for name in ("h.html", "h.json", "h.csv"))


def test_a_terminal_shows_a_bar_for_each_policy_and_stdout_has_the_data_only() -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command_line("simulate", "many.csv", "--cluster", "4x4", "--policy", "fifo,srsf", "--json", "-"),
        stdout=subprocess.PIPE,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(slave)
    assert process.stdout
    shown = _all_of(master)
    assert process.stdout.read().startswith(b'{\n  "runs"')
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert "/2,500 jobs" in shown
    assert "\x1b[?25h" in shown  # the cursor is back


def _all_of(master: int) -> str:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other side is closed
            part = b""
        if not part:
            os.close(master)
            return b"".join(parts).decode()
        parts.append(part)


def test_the_version_does_not_wait_for_numpy() -> None:
    script = "import sys, weft.cli.main; print(weft.__version__, *{'numpy', 'rich', 'scipy'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "0.1.0\n"
    words = subprocess.run(command_line("--version"), capture_output=True, text=True, check=True)
    assert words.stdout == "weft 0.1.0\n"


def test_a_plain_simulation_loads_neither_scipy_nor_pandas_nor_plotly() -> None:
    script = (
        "import sys, weft; weft.simulate('few.csv', cluster='2x2');"
        "print(*{'scipy', 'pandas', 'plotly', 'rich.progress', 'multiprocessing'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "\n"
