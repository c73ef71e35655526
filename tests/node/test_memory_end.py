"""Ends for want of memory, from the kernel's counters and from what a job printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.node.attempt.ending import explained
from weft.node.attempt.records import AttemptRecord, TaskExit, status_of
from weft.node.fence import cgroups
from weft.node.shepherd.supervise import AROUND, MACHINE, TASK, counts, risen

MIB = 1 << 20


def attempt(**launch: Any) -> AttemptRecord:
    return AttemptRecord("1", 1, 1, (0,), "boot", 0, {"tasks": 1, "devices_per_task": 1, **launch})


def message(status: TaskExit, process_bytes: int = 0, *logs: Path, **launch: Any) -> str:
    return explained(status, attempt(**launch), process_bytes, logs).message


@pytest.mark.parametrize(
    ("file", "text"),
    [("memory.events", "low 0\nmax 12\noom 1\noom_kill {}\n"), ("memory.oom_control", "under_oom 0\noom_kill {}\n")],
)
def test_the_innermost_count_that_rose_tells_whose_memory_had_run_out(tmp_path: Path, file: str, text: str) -> None:
    paths = {scope: tmp_path / scope / file for scope in (TASK, AROUND, MACHINE)}
    counters = {scope: str(path) for scope, path in paths.items()}
    for path in paths.values():
        path.parent.mkdir()
        path.write_text(text.format(3))
    before = counts(counters)
    assert risen(before, counts(counters)) == ""
    for scope in reversed(paths):
        paths[scope].write_text(text.format(4))
        assert risen(before, counts(counters)) == scope


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n", "oom_kill_disable 7\n"])
def test_a_counter_that_says_nothing_counts_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd").write_text(text)
    counters = {"task": str(tmp_path / "odd"), "cgroup": str(tmp_path / "none"), "machine": str(tmp_path)}
    assert counts(counters) == {"task": 0, "cgroup": 0, "machine": 0}


def test_the_machine_is_always_asked() -> None:
    assert cgroups.counters("")[MACHINE] == "/proc/vmstat"
    assert next(iter(cgroups.counters("/c/1.1.0"))) == TASK


@pytest.mark.parametrize(
    ("code", "oom", "is_named"),
    [(137, "task", True), (1, "task", True), (137, "cgroup", True), (1, "cgroup", False), (137, "machine", True),
     (137, "", False), (0, "task", False)],
)  # fmt: skip
def test_only_what_the_kernel_can_have_killed_is_said_to_have_been(code: int, oom: str, is_named: bool) -> None:
    said = message(TaskExit(code, 0.0, "shepherd", "", oom, 70 * MIB))
    assert said.startswith("was killed by the kernel's OOM killer: ") == is_named
    assert said.endswith("; it used up to 70M") == is_named


def test_memory_that_was_refused_is_named_with_the_limit_that_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "task-0.log"
    log.write_text("x" * 100_000 + "\nRuntimeError: DefaultCPUAllocator: can't allocate memory: you tried ...\n")
    status = TaskExit(1, 0.0, "shepherd", "", "", 60 * MIB)
    said = message(status, 192 * MIB, log, limit_bytes=192 * MIB, memory_bytes=64 * MIB)
    assert said == (
        "ran out of memory: --mem 128M and --gpu-mem 64M allow each of its processes no more; "
        "it was refused more than the 60M it used (exit code 1)"
    )
    assert message(status, 0, log) == "", "nothing bounds it"
    log.write_text("an ordinary failure\n")
    assert message(status, 192 * MIB, log, limit_bytes=192 * MIB) == ""
    log.unlink()
    log.symlink_to("/dev/zero")
    assert message(status, 192 * MIB, log, limit_bytes=192 * MIB) == "", "the job put something else there"


def test_a_status_of_before_says_nothing_of_memory_and_a_forged_one_nothing_odd() -> None:
    plain = {"exit_code": 1, "at_s": 1.0, "by": "shepherd", "message": ""}
    assert (status_of(plain).oom, status_of(plain).peak_bytes) == ("", 0)
    assert status_of({**plain, "oom": "\x1b[2J"}).oom == ""
    assert status_of({**plain, "oom": ["task"]}).oom == ""
    with pytest.raises(ValueError, match="peak_bytes"):
        status_of({**plain, "peak_bytes": -1})
