"""The harness itself: it isolates, it counts, and it notices what an attack must not achieve."""

from __future__ import annotations

import signal

import pytest
from box import Attack, Box

from waiting import wait_until
from weft.system.runtime_dir import SHARED_MEMORY


def test_a_sandbox_has_its_own_processes_and_shared_memory(box: Box) -> None:
    if not box.sandbox.is_isolated:
        pytest.skip("this kernel refuses namespaces")
    path = SHARED_MEMORY / "of-the-sandbox"
    box.run("touch", str(path))
    assert not path.exists()
    assert box.sandbox.outside(path).exists()
    assert int(box.python("import os; print(os.getpid())").stdout) < 30_000


def test_a_dead_coordinator_is_noticed_unless_the_attack_killed_it(box: Box, attack: Attack) -> None:
    pid = box.pid("coordinator")
    box.send(pid, signal.SIGKILL)
    wait_until(lambda: not box.is_alive(pid), "the coordinator is dead")
    with pytest.raises(AssertionError, match="the coordinator died"):
        box.check()
    box.remember_processes()
    with attack("killing: the coordinator"):
        box.kill("coordinator")


def test_a_job_in_the_sandbox_runs_as_any_other(box: Box, attack: Attack) -> None:
    with attack("harmless: a job that prints"):
        job_id = box.submit_python("print('hello')")
        assert box.wait_for(job_id)["state"] == "SUCCEEDED"
        assert box.log(job_id) == "hello\n"
