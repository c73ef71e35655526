"""Where the idle class could not be undone, the weight of a guest's session holds it back: anybody may take it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.node.devices import sched_idle

ASLEEP = ["sh", "-c", "echo; read line"]
AS_NOBODY = f"""
import os, subprocess, sys, time
sys.path[:0] = {[each for each in sys.path if each]!r}
from weft.node.devices import sched_idle
os.setresuid(65534, 65534, 65534)

def weight(pid): return int(open(f"/proc/{{pid}}/autogroup").read().split()[-1])
def family(own_session):
    process = subprocess.Popen({ASLEEP!r}, stdin=-1, stdout=-1, start_new_session=own_session)
    process.stdout.readline()
    return process

stranger, guest = family(False), family(True)
def settle():
    while sched_idle.catch_up(): time.sleep(0.02)

print(bool(sched_idle.why_not([guest.pid])), sched_idle.lighten([stranger.pid]), sched_idle.lighten([guest.pid]))
settle()
print(weight(guest.pid))
sched_idle.undo([guest.pid])
settle()
print(weight(guest.pid), os.sched_getscheduler(guest.pid) == os.SCHED_OTHER, weight(os.getpid()))
for each in (stranger, guest):
    each.communicate()
"""


def _counts_here() -> bool:
    is_grouped = sched_idle.AUTOGROUP.exists() and sched_idle.AUTOGROUP.read_text().strip() == "1"
    return is_grouped and sched_idle._is_in_no_control_group(os.getpid())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
@pytest.mark.skipif(not _counts_here(), reason="weights count for nothing here")
def test_a_guest_of_who_may_nothing_weighs_least_and_then_as_before() -> None:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 0, done.stderr
    able, there, back = done.stdout.splitlines()
    assert able == "True False True", "who shares our session is no lighter than we are"
    assert there == "19"
    assert back == "0 True 0"


def test_in_a_control_group_a_weight_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user.slice").mkdir()
    monkeypatch.setattr(sched_idle, "CONTROL_GROUPS", tmp_path)
    whole = sched_idle.ALL_CONTROL_GROUPS
    is_free = sched_idle.is_free_of_control_groups
    assert is_free(["5:cpu,cpuacct:/", "0::/deep/down"], whole)
    assert not is_free(["5:cpu,cpuacct:/deep", "0::/"], whole)
    assert not is_free(["5:cpu:/"], "cgroup:[1]"), "of a container nobody can say"
    assert is_free(["0::/user.slice/some"], whole)
    (tmp_path / "user.slice/cpu.weight").touch()
    assert not is_free(["0::/user.slice/some"], whole)
    assert is_free(["0::/"], whole)
