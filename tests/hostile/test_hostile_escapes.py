"""Jobs whose processes try to outlive their attempt: after a cancel none is alive, and no two attempts ever are.

Each attack runs twice: with a cgroup for each task, and by scans alone. What scans cannot hold is left out there: an
orphan of shepherd, coordinator and daemon that has left its session and its environment.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from box import SETTINGS, Attack, Box

from waiting import wait_until

ESCAPEE = Path(__file__).with_name("escapee.py")
ALONE = {
    "double_fork": "double fork and a session of its own",
    "cleared": "double fork, a session of its own, the environment cleared",
    "leader_cleared": "the command itself clears its environment",
    "daemonised": "a daemon in / with all files closed",
    "group_left": "another process group",
    "deaf": "SIGTERM, SIGINT, SIGHUP and SIGQUIT ignored",
    "blocked": "all signals blocked",
    "stopped_member": "a daemon that is stopped",
    "traced_member": "a process stopped by its tracer",
    "renamed": "a daemon named as the coordinator",
    "thread_storm": "64 threads in every process",
    "in_vfork": "a parent that waits in vfork",
    "spawned": "posix_spawn with a session and no environment",
    "nested_subreaper": "a subreaper of its own",
    "unreadable": "a daemon whose /proc files cannot be read",
    "user_namespace": "a daemon in a user namespace",
    "pid_namespace": "a daemon in a process namespace",
    "mount_namespace": "a daemon in a mount namespace with a /proc of its own",
    "strange_mark": "a daemon with the mark of another job",
    "forged_status": "a status written in the shepherd's name",
    "restarting": "processes that start each other again",
    "chain": "a chain of processes that fork and exit",
    "chain_of_sessions": "such a chain with a session each",
    "chain_alone": "such a chain whose first process is the command",
    "storm": "120 processes that fork on and on",
}
IN_A_CGROUP = {
    "left_cgroup": "moved to weft's cgroup",
    "left_all_cgroups": "moved to the cgroup around weft's",
    "nested_cgroup": "moved to a cgroup of its own",
    "frozen_cgroup": "its cgroup frozen",
    "shepherd_in_cgroup": "its shepherd moved to its cgroup",
    "coordinator_in_cgroup": "the coordinator moved to its cgroup",
}
OURS = ("shepherd", "coordinator", "daemon")
KILLS = [f"kill-{'-'.join(some)}" for count in (1, 2, 3) for some in combinations(OURS, count)]
STOPS = [f"stop-{each}" for each in OURS]


@pytest.fixture(scope="module", params=["cgroup", "scan"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    settings = SETTINGS.replace("stop_grace_s = 1", "stop_grace_s = 0.2") + f'fence = "{request.param}"\n'
    box = Box(tmp_path_factory.mktemp("escapes"), settings=settings, devices="cpu=40:64M")

    def start() -> None:
        if box.weft("up", "--devices", box.devices).returncode and request.param == "cgroup":
            pytest.skip("no cgroup can be had in the sandbox")
        box.up()

    with box.running(start, bystanders=1):
        yield box


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["box"])


def begin(box: Box, name: str) -> str:
    """Submit it, at once: a command line for each would take longer than all attacks."""
    words = [sys.executable, "-S", str(ESCAPEE), name, str(box.folder)]
    status, job = box.rest("POST", "/v1/jobs", {"command": words, "cwd": str(box.folder), "name": name})
    assert status == 201, job
    return str(job["id"])


def await_ready(box: Box, name: str, job_id: str) -> None:
    wait_until((box.folder / f"{name}.ready").exists, lambda: f"{name} is ready: {box.log(job_id)}{box.job(job_id)}")


def await_other(box: Box, which: str, before: int) -> None:
    wait_until(lambda: box.pid(which) != before, f"the {which} is another")


def await_stopped(box: Box, pid: int) -> None:
    wait_until(lambda: box.state_of(pid) == "T", f"process {pid} is stopped")


def cancel(box: Box, job_id: str) -> None:
    status, answer = box.rest("POST", f"/v1/jobs/{job_id}/cancel")
    assert status in (200, 409), answer  # it may have ended


def assert_over(box: Box, name: str, job_id: str) -> None:
    """It has ended, none of its processes is alive, and no attempt began while one of an older one was."""
    job = box.wait_for(job_id)
    fd = os.open(box.folder / f"{name}.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pytest.fail(f"a process of {name} is alive though its job is over: {job}")
    finally:
        os.close(fd)
    assert not (box.folder / f"{name}.overlap").exists(), f"two attempts of {name} were alive at once"


def test_no_process_of_a_job_outlives_its_cancel(box: Box, mode: str, attack: Attack) -> None:
    attacks = ALONE | (IN_A_CGROUP if mode == "cgroup" else {})
    jobs = {name: begin(box, name) for name in attacks if not name.startswith(("chain", "storm"))}
    jobs = {name: (await_ready(box, name, job_id), job_id)[1] for name, job_id in jobs.items()}
    for job_id in jobs.values():
        cancel(box, job_id)
    for name, what in attacks.items():
        with attack(f"escapes ({mode}): {what}"):
            if name not in jobs:
                jobs[name] = begin(box, name)
                await_ready(box, name, jobs[name])
                cancel(box, jobs[name])
            assert_over(box, name, jobs[name])


def test_a_job_that_kills_processes_of_weft_never_has_two_attempts_at_once(box: Box, mode: str, attack: Attack) -> None:
    for name in KILLS:
        killed = name.split("-")[1:]
        if mode == "scan" and len(killed) == 3:
            continue  # an orphan of all three is init's, and nothing tells whose it was
        with attack(f"escapes ({mode}): {' and '.join(killed)} killed by a job that has escaped"):
            before = {which: box.pid(which) for which in ("daemon", "coordinator")}
            job_id = begin(box, name)
            await_ready(box, name, job_id)
            for which in set(killed) & set(before):
                await_other(box, which, before[which])
            if "daemon" in killed:
                box.up()
            box.remember_processes()
            if {"shepherd", "coordinator"} <= set(killed):
                assert box.wait_for(job_id)["state"] == "SUCCEEDED", "the second attempt found itself alone"
            else:
                cancel(box, job_id)
            assert_over(box, name, job_id)


def test_a_job_that_stops_processes_of_weft_is_cancelled_all_the_same(box: Box, mode: str, attack: Attack) -> None:
    for name in STOPS:
        which = name.split("-")[1]
        with attack(f"escapes ({mode}): {which} stopped by a job that has escaped"):
            job_id = begin(box, name)
            before = box.pid("coordinator")
            wait_until((box.folder / f"{name}.ready").exists, "it is ready")
            if which == "daemon":
                await_stopped(box, box.pid("daemon"))
                box.send(box.pid("daemon"), signal.SIGCONT)
            if which == "coordinator":
                await_other(box, which, before)
                box.remember_processes()
            cancel(box, job_id)
            assert_over(box, name, job_id)
