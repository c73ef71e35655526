"""Ending a tree without a cgroup: by scans that stop first, and the kernel's lists of children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from waiting import state_of, wait_until
from weft.node.fence import process_tree
from weft.node.fence.process_tree import Tree, end_tree, members
from weft.system import processes
from weft.system.processes import Process

REAPER = "import ctypes, os, time; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
"""A subreaper as a shepherd is one; it reaps what ends."""

REAPING = """
while True:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        print("none", flush=True)
        time.sleep(0.01)
"""
CHAIN = """
if os.fork() == 0:
    until = time.monotonic() + 20
    print("begun", flush=True)
    for _ in range(20_000):  # a bound, should nothing end it
        if os.fork():
            os._exit(0)
        os.setsid()
        if time.monotonic() > until:
            break
    os._exit(0)
"""
RESTARTING = """
import os, subprocess, sys, time
until = time.monotonic() + 20
while time.monotonic() < until:
    subprocess.call(["sh", "-c", "echo $$; sleep 20"])
"""
Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Started]:
    started: list[subprocess.Popen[str]] = []

    def start(source: str, **how: object) -> subprocess.Popen[str]:
        how = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True, **how}
        process = subprocess.Popen([sys.executable, "-c", source], **how)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start
    for each in started:
        each.kill()
        with each:  # its output is closed
            pass


def identity(pid: int) -> tuple[int, int]:
    found = processes.process(pid)
    assert found is not None
    return pid, found.start


def test_a_chain_that_forks_and_exits_ends_though_no_scan_sees_it(start: Started) -> None:
    reaper = start(REAPER + CHAIN + REAPING)
    assert reaper.stdout is not None
    assert reaper.stdout.readline() == "begun\n"
    end_tree(Tree(spared=frozenset({identity(reaper.pid)})))
    assert reaper.stdout.readline() == "none\n"
    assert reaper.poll() is None


def test_a_process_that_starts_anew_what_is_killed_is_stopped_before_it_can(start: Started) -> None:
    restarting = start(RESTARTING)
    assert restarting.stdout is not None
    restarting.stdout.readline()
    end_tree(Tree(roots=frozenset({identity(restarting.pid)})))
    assert restarting.stdout.read() == "", "nothing was started after the end"


def test_its_output_tells_whose_a_process_is_that_has_nothing_else_in_common(start: Started, tmp_path: Path) -> None:
    log = tmp_path / "task-0.log"
    with log.open("w") as output:
        escaped = start("import time; time.sleep(20)", stdout=output, env={})
    reader = subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL)
    try:
        end_tree(Tree(outputs=frozenset({str(log)})))
        assert escaped.wait(1) == -signal.SIGKILL
        assert reader.poll() is None, "who reads the log is not of the task"
    finally:
        reader.kill()
        reader.wait()


def test_a_number_that_another_process_has_by_now_is_nobodys(start: Started) -> None:
    other = start("import subprocess; print(1, flush=True); subprocess.call(['sleep', '20'])")
    assert other.stdout is not None
    other.stdout.readline()
    pid, began = identity(other.pid)
    earlier = frozenset({(pid, began - 1)})
    assert members(Tree(roots=earlier)) == []
    assert members(Tree(spared=earlier)) == []
    end_tree(Tree(roots=earlier, spared=earlier))
    process_tree.send([Process(pid, "S", 1, pid, pid, began - 1)], signal.SIGKILL)
    assert other.poll() is None
    wait_until(lambda: len(members(Tree(spared=frozenset({(pid, began)})))) == 1, "its child is found")
    assert pid not in {each.pid for each in members(Tree(spared=frozenset({(pid, began)})))}


def test_that_none_is_found_counts_after_several_passes_alone(start: Started) -> None:
    late = start("import time; time.sleep(20)")
    found = processes.process(late.pid)
    assert found is not None
    passes: list[list[Process]] = [[], [found], [], []]

    def find() -> list[Process]:
        return passes.pop(0) if passes else []

    process_tree.end_all(find)
    assert late.wait(1) == -signal.SIGKILL
    assert not passes


def test_what_is_stopped_already_is_killed_as_well(start: Started) -> None:
    stopped = start("import time; time.sleep(20)")
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(stopped.pid) == "T", "it is stopped")
    end_tree(Tree(roots=frozenset({identity(stopped.pid)})))
    assert stopped.wait(1) == -signal.SIGKILL
