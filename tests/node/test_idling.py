"""The kernel's idle class, for whole families of processes and back."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.node.devices import sched_idle
from weft.node.devices.cpu import RunQueue
from weft.system import processes

FAMILY = """
import subprocess, sys, threading
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
threading.Thread(target=sys.stdin.read, daemon=True).start()
print("ready", flush=True)
child.wait() if not sys.stdin.read() else None
"""
SPINNING = "print(1, flush=True)\nwhile True: pass"


@pytest.fixture
def family() -> Iterator[int]:
    """A process with a second thread and a child, in a session of its own, as the node starts them."""
    process = subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    members = processes.family([process.pid])
    process.kill()
    process.communicate()
    for pid in members - {process.pid}:
        os.kill(pid, 9)


def policies(pid: int) -> list[int]:
    return [os.sched_getscheduler(each) for each in sched_idle.threads(processes.family([pid]))]


needs_undo = pytest.mark.skipif(bool(sched_idle.why_not([os.getpid()])), reason="what is idle here stays so")


@needs_undo
def test_every_thread_of_every_process_goes_there_and_back(family: int) -> None:
    done = sched_idle.idle([family])
    assert len(done) >= 3
    assert set(policies(family)) == {os.SCHED_IDLE}
    assert sched_idle.undo([family]) == done
    assert set(policies(family)) == {os.SCHED_OTHER}


@needs_undo
@pytest.mark.skipif(not sched_idle.AUTOGROUP.exists(), reason="this kernel does not group tasks by session")
def test_the_weight_of_its_session_goes_with_it_but_never_that_of_ours(family: int) -> None:
    if sched_idle.AUTOGROUP.read_text().strip() != "1":
        pytest.skip("tasks are not grouped by session here")
    ours = Path("/proc/self/autogroup").read_text()
    sched_idle.idle([family])
    assert Path(f"/proc/{family}/autogroup").read_text().endswith("nice 19\n")
    sched_idle.undo([family])
    assert Path(f"/proc/{family}/autogroup").read_text().endswith("nice 0\n")
    child = subprocess.Popen([sys.executable, "-c", SPINNING], stdout=subprocess.DEVNULL)
    sched_idle.idle([child.pid])
    child.kill()
    child.wait()
    assert Path("/proc/self/autogroup").read_text() == ours


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
def test_where_it_could_not_be_undone_it_says_so_and_the_kernel_agrees() -> None:
    code = f"""
import os, sys
sys.path[:0] = {[each for each in sys.path if each]!r}
from weft.node.devices import sched_idle
os.setresuid(65534, 65534, 65534)
print(sched_idle.why_not([os.getpid()]))
sched_idle.idle([os.getpid()])
print(len(sched_idle.undo([os.getpid()])), os.sched_getscheduler(0) == os.SCHED_IDLE)
"""
    resource_limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 0, done.stderr
    said, after = done.stdout.splitlines()
    if resource_limit < sched_idle.NICE_AS_BEFORE:
        assert "CAP_SYS_NICE" in said
        assert after == "0 True"


def test_a_process_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert sched_idle.undo([process.pid]) == set()


def test_the_kernel_counts_how_long_a_process_computed() -> None:
    line = RunQueue()
    if line.spent([os.getpid()]) is None:
        pytest.skip("this kernel does not count it")
    sum(range(2_000_000))
    spent = line.spent([os.getpid()])
    assert spent is not None
    assert spent.computed_s > 0
    assert spent.waited_s >= 0
    assert RunQueue().spent([]) is None
