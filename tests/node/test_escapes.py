"""Processes that try to outlive their attempt, with a cgroup and without: no later attempt begins beside them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes import Node, a_node, lives

from waiting import state_of, wait_until
from weft.node.fence import cgroups
from weft.runtime.page import layout
from weft.runtime.procfs import start_time

BARE = "setsid env -i sh -c 'echo $$ > {}; exec sleep 100' < /dev/null > /dev/null 2>&1 &"
"""Nothing tells whose it is: no session, no environment, no output; its parent ends."""


CHAIN = """
import os, sys, time
until = time.monotonic() + 30
if os.fork():
    time.sleep(30)
for _ in range(30_000):  # a bound, should nothing end it
    if os.fork():
        os._exit(0)
    os.setsid()
    os.close(os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY))
    if time.monotonic() > until:
        break
"""


@pytest.fixture(params=["auto", "scan"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with a_node() as node:
        if request.param == "auto" and not node.fences.folder:
            pytest.skip("no cgroup can be had here")
        node.fence = request.param
        node.start()
        node.await_hello()
        yield node


@pytest.fixture
def fenced(node: Node) -> Node:
    if node.fence == "scan":
        pytest.skip("only a cgroup holds this")
    return node


def begun(node: Node, order: dict[str, object], escaped: Path) -> int:
    """Start it; the pid of what escaped."""
    node.daemon.send(order)
    wait_until(lambda: escaped.exists() and escaped.read_text().endswith("\n"), "it has escaped")
    return int(escaped.read_text())


def test_what_escapes_from_a_command_that_ends_is_killed_with_it(node: Node) -> None:
    escaped, over = node.folder / "escaped", node.folder / "over"
    script = f"({BARE.format(escaped)}); while [ ! -e {over} ]; do sleep 0.01; done; exit 4"
    pid = begun(node, node.run_order("sh", "-c", script), escaped)
    over.touch()
    assert node.daemon.end()["exit_code"] == 4
    assert not lives(pid)


def test_what_escapes_is_killed_by_a_stop_though_its_page_names_another(node: Node) -> None:
    """A job can write its page: it says that another job's process is its own leader."""
    escaped = node.folder / "escaped"
    node.daemon.send(node.run_order("sleep", "100", job="2", on=(1,)))
    (other,) = node.daemon.next("started", "2")["pids"]
    pid = begun(node, node.run_order("sh", "-c", f"({BARE.format(escaped)}); exec env -i sleep 100"), escaped)
    with (node.run / "1.1.0.page").open("r+b") as page:
        for word, number in ((layout.TASK_PID, other), (layout.TASK_START, start_time(other))):
            page.seek(8 * word)
            page.write(number.to_bytes(8, "little"))
    node.order("stop")
    node.daemon.end()
    assert not lives(pid)
    assert lives(other)
    assert not node.daemon.all("ended", "2")


def test_a_status_that_the_job_wrote_itself_is_no_proof_that_it_has_gone(node: Node) -> None:
    status = {"exit_code": 1, "at_s": 1.0, "by": "shepherd", "message": ""}
    path, said = node.home.task("1", 1, 0) / "status.json", node.folder / "pid"
    forging = f"echo $$ > {said}; echo '{json.dumps(status)}' > {path}.x; mv {path}.x {path}; exec env -i sleep 100"
    pid = begun(node, node.run_order("sh", "-c", forging), said)
    wait_until(path.exists, "it has written a status")
    node.order("stop")  # or it is noticed when its shepherd ends
    node.daemon.end()
    assert not lives(pid)


def test_a_status_beside_a_killed_shepherd_is_no_proof_either(node: Node) -> None:
    status = {"exit_code": 1, "at_s": 1.0, "by": "shepherd", "message": ""}
    path, escaped = node.home.task("1", 1, 0) / "status.json", node.folder / "escaped"
    forging = f"({BARE.format(escaped)}); while [ ! -s {escaped} ]; do sleep 0.01; done; "
    forging += f"echo '{json.dumps(status)}' > {path}.x; mv {path}.x {path}; kill -9 $PPID; exec env -i sleep 100"
    pid = begun(node, node.run_order("sh", "-c", forging), escaped)
    node.daemon.end()
    assert not lives(pid)


def test_a_shepherd_killed_before_a_fork_chain_ends_leaves_nothing_behind(node: Node) -> None:
    last, glances = node.folder / "last", list[int]()
    node.daemon.send(node.run_order(sys.executable, "-S", "-c", CHAIN, str(last)))
    wait_until(last.exists, "the chain has begun")
    os.kill(node.shepherd(), signal.SIGKILL)
    node.order("stop")
    node.daemon.end()
    before = last.stat().st_mtime_ns
    wait_until(lambda: len(glances) > 20 or bool(glances.append(last.stat().st_mtime_ns)), "some time has passed")
    assert {*glances} == {before}


def test_with_coordinator_and_shepherd_killed_together_the_next_attempt_is_alone(fenced: Node) -> None:
    escaped = fenced.folder / "escaped"
    pid = begun(fenced, fenced.run_order("sh", "-c", f"({BARE.format(escaped)}); exec env -i sleep 100"), escaped)
    shepherd = fenced.shepherd()
    fenced.kill()
    os.kill(shepherd, signal.SIGKILL)
    fenced.restart()
    alone = f"echo $(cut -d ' ' -f 3 /proc/{pid}/stat 2> /dev/null) alone"  # a zombie is no company
    fenced.daemon.send(fenced.run_order("sh", "-c", alone, attempt=2, generation=2))
    wait_until(lambda: bool(fenced.output()), "the second attempt prints")
    assert fenced.output() in ("alone\n", "Z alone\n")
    assert not lives(pid)


def test_an_attempt_whose_records_the_job_removed_is_killed_before_the_next_one(fenced: Node) -> None:
    escaped = fenced.folder / "escaped"
    pid = begun(fenced, fenced.run_order("sh", "-c", f"({BARE.format(escaped)}); exec env -i sleep 100"), escaped)
    shepherd = fenced.shepherd()
    fenced.kill()
    os.kill(shepherd, signal.SIGKILL)
    for path in sorted(fenced.home.job("1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (fenced.run / "1.1.0.page").unlink()
    fenced.restart()
    fenced.daemon.send(fenced.run_order("sh", "-c", "exit 4", attempt=2, generation=2))
    assert fenced.daemon.end()["exit_code"] == 4
    assert not lives(pid)


def test_its_cgroup_is_removed_when_it_is_forgotten_and_left_over_ones_at_the_start(fenced: Node) -> None:
    folder = Path(fenced.fences.folder)
    fenced.daemon.send(fenced.run_order("sh", "-c", "mkdir -p /dev/null/x; exec sleep 100"))
    fenced.daemon.next("started")
    assert [each.name for each in folder.iterdir() if each.is_dir()] == ["1.1.0"]
    fenced.order("stop")
    fenced.daemon.end()
    wait_until(lambda: not (folder / "1.1.0").exists(), "it is removed")
    cgroups.make(str(folder / "7.1.0"))
    cgroups.make(str(folder / "nobodys"))
    fenced.restart()
    wait_until(lambda: not (folder / "7.1.0").exists(), "the left-over one is removed")
    assert (folder / "nobodys").exists()
    cgroups.remove(str(folder / "nobodys"))


def test_a_job_runs_without_its_cgroup_when_that_cannot_be_made(fenced: Node) -> None:
    folder = Path(fenced.fences.folder)
    (folder / "cgroup.max.descendants").write_text("0")
    fenced.daemon.send(fenced.run_order("sh", "-c", "tail -n 1 /proc/self/cgroup; exit 4"))
    assert fenced.daemon.end()["exit_code"] == 4
    assert "1.1.0" not in fenced.output()


def test_a_stopped_shepherd_does_not_keep_a_stop_from_ending_all(node: Node) -> None:
    escaped = node.folder / "escaped"
    pid = begun(node, node.run_order("sh", "-c", f"({BARE.format(escaped)}); exec env -i sleep 100"), escaped)
    shepherd = node.shepherd()
    os.kill(shepherd, signal.SIGSTOP)
    wait_until(lambda: state_of(shepherd) == "T", "it is stopped")
    node.order("stop")
    node.daemon.end()
    assert not lives(pid)
