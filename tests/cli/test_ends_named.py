"""How a job ended is named: by its memory, a signal or its time limit; and `weft run` ends with a code that says so."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command import command_line
from livehome import Live
from typist import Typist

from waiting import PATIENCE_S, wait_until

HUNGRY = "x = bytearray(400_000_000); print(len(x))"
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGABRT, signal.SIGUSR1])
def test_a_signal_that_ended_the_job_is_named_everywhere(live: Live, number: signal.Signals) -> None:
    done = live.weft("run", "--name", f"by-{number.name}", "--", "sh", "-c", f"kill -{number.value} $$")
    assert done.returncode == 128 + number
    assert f"was ended by signal {number.value} ({number.name})" in done.stderr
    job = live.json("history", "--limit", "1")[0]
    assert (job["name"], job["exit_code"]) == (f"by-{number.name}", 128 + number)
    assert f"exit code:  {128 + number}" in live.says("status", job["id"])


def test_a_code_above_128_that_is_no_signal_is_a_code(live: Live) -> None:
    assert "ended with exit code 250" in live.weft("run", "--", "sh", "-c", "exit 250").stderr


@pytest.mark.parametrize("program", ["sleep 600", "trap 'exit 0' TERM; while :; do sleep 0.01; done"])
def test_a_job_that_ran_past_its_limit_ends_with_124_however_it_took_it(live: Live, program: str) -> None:
    done = live.weft("run", "--time", "0.2s", "--", "sh", "-c", program)
    assert done.returncode == 124
    assert "ran past its limit of 0.2 s" in done.stderr
    assert live.json("history", "--limit", "1")[0]["exit_code"] == 124


def test_a_job_that_somebody_else_cancels_ends_as_by_sigterm(live: Live) -> None:
    process = live.starts("run", "--name", "cancelled-elsewhere", "--", "sleep", "600")
    wait_until(lambda: bool(live.json("queue", "--name", "cancelled-elsewhere")), "it is there")
    live.says("cancel", live.json("queue", "--name", "cancelled-elsewhere")[0]["id"])
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "was cancelled" in stderr


def test_a_job_that_its_memory_limit_ends_says_so_with_the_limit(live: Live) -> None:
    done = live.weft("run", "--mem", "128M", "--", sys.executable, "-c", HUNGRY)
    said = r"job (\d+) failed: ran out of memory: --mem 128M allows each of its processes no more; it was refused more "
    found = re.search(said + r"than the [\d.]+M it used \(exit code 1\)", done.stderr)
    assert found, done.stderr
    assert "ran out of memory: --mem 128M" in live.says("status", found[1])
    assert "ran out of memory: --mem 128M" in live.says("why", found[1])


@pytest.mark.parametrize("words", [["--mem", "128M"], []])
def test_a_job_that_fails_otherwise_is_not_said_to_lack_memory(live: Live, words: list[str]) -> None:
    wrong = "raise MemoryError" if not words else "raise ValueError"
    assert "ran out of memory" not in live.weft("run", *words, "--", sys.executable, "-c", wrong).stderr


@pytest.fixture
def small() -> Iterator[Path]:
    """A cgroup of 64 MiB, made by hand: the kernel kills what needs more."""
    folder = MEMORY_CGROUPS / f"weft-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text("64M")
    except OSError:
        pytest.skip("needs root, and cgroups of version 1")
    yield folder
    with suppress(OSError):
        folder.rmdir()


def test_the_oom_killer_is_told_apart_from_a_plain_sigkill(live: Live, small: Path) -> None:
    program = f"echo $$ > {small}/cgroup.procs; exec {sys.executable} -c '{HUNGRY}'"
    done = live.weft("run", "--", "sh", "-c", program)
    assert done.returncode == 128 + signal.SIGKILL
    assert re.search(r"was killed by the kernel's OOM killer: .* ran out of memory; it used up to \d+", done.stderr)
    plain = live.weft("run", "--", "sh", "-c", "kill -9 $$")
    assert "was ended by signal 9 (SIGKILL)" in plain.stderr


def test_at_a_terminal_run_says_which_job_it_is_and_where_it_runs(at: Callable[..., Typist], live: Live) -> None:
    person = at(*command_line("run", "--", "sh", "-c", "echo out; read line"), **live.env)
    job_id, place = person.sees(r"weft: job (\d+) runs on (\S+)\r\n").groups()
    person.sees("out")
    job = live.job(job_id)
    assert [place] == job["devices"]
    person.types("\r")
    assert person.process.wait(PATIENCE_S) == 0
