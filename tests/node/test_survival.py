"""Coordinators and shepherds killed and stopped at any instant: each job ends once, rightly or honestly lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nodes import FINAL, Node, a_node, lives

from waiting import state_of, wait_until
from weft.node import coordinator
from weft.node.fence import process_tree
from weft.node.shepherd.supervise import FAIL_POINTS
from weft.runtime.page import layout

STEPS = """
import os, sys, time, weft
print("begun")
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.0005)
sys.exit(4)
"""
UNTIL_TOLD = "while [ ! -e {} ]; do sleep 0.01; done; "
DAEMONISED = "(setsid sh -c 'echo $$ > {}; exec sleep 1000' < /dev/null > /dev/null 2>&1 &); "
LOST_BY_COORDINATOR = {"coordinator-status-written"}
LOST_BY_SHEPHERD = {"shepherd-recorded", "shepherd-waited", "shepherd-tree-gone", "shepherd-status-written"}


def ends(node: Node) -> list[dict[str, object]]:
    return [report for report in list(node.daemon.reports) if report["what"] in FINAL]


def failing(node: Node, point: str, how: str) -> None:
    """A coordinator that fails once at this point, or whose shepherd does."""
    once = node.folder / "once"
    once.touch()
    node.start(WEFT_FAIL_AT=point, WEFT_FAIL_WITH=how, WEFT_FAIL_ONCE=str(once))
    node.await_hello()


def assert_nothing_is_left(node: Node) -> None:
    node.wait_until(lambda: not (node.folder / "once").exists(), "the point is reached")
    node.wait_until(lambda: not node.alive(), f"all processes are gone, {node.alive()}")
    node.wait_until(lambda: not (node.home.job("1") / "attempts").exists(), "the records are removed")
    node.wait_until(lambda: [each.name for each in node.run.iterdir()] == ["node.sock"], "the pages are removed")


def through_a_pause(node: Node) -> None:
    over = node.folder / "over"
    command = (sys.executable, "-c", STEPS, str(over))
    node.want(node.run_order(*command))
    node.wait_until(lambda: "begun" in node.output() or bool(ends(node)), "it runs")
    node.want({"type": "pause", "job": "1", "attempt": 1, "generation": 1, "needs_bytes": 0})
    node.wait_until(lambda: bool(node.daemon.all("paused") or ends(node)), "it pauses")
    node.want(node.run_order(*command, generation=2, on=(1,)))
    node.wait_until(lambda: bool(node.daemon.all("resumed") or has_hello_running(node) or ends(node)), "it goes on")
    over.touch()
    node.wait_until(lambda: bool(ends(node)), "it ends")


def has_hello_running(node: Node) -> bool:
    """A coordinator that was killed before it could say so left that to the next."""
    last = node.daemon.hellos[-1]["attempts"]
    return bool(node.daemon.all("paused")) and bool(last) and last[0]["state"] == "running"


def through_a_stop(node: Node) -> None:
    node.want(node.run_order("sh", "-c", "echo begun; while :; do sleep 0.01; done"))
    node.wait_until(lambda: "begun" in node.output(), "it runs")
    node.want({"type": "stop", "job": "1", "attempt": 1, "generation": 1})
    node.wait_until(lambda: bool(ends(node)), "it ends")


def through_a_lost_shepherd(node: Node) -> None:
    over = node.folder / "over"
    node.want(node.run_order("sh", "-c", f"echo begun; {UNTIL_TOLD.format(over)} exit 4"))
    node.wait_until(lambda: bool(node.daemon.all("started")), "it runs")
    node.kill_shepherd()
    over.touch()
    node.wait_until(lambda: bool(ends(node)), "it ends")


SCENARIOS: dict[str, tuple[Callable[[Node], None], int]] = {
    "coordinator-stopping": (through_a_stop, 143),
    "coordinator-status-written": (through_a_lost_shepherd, 4),
    "coordinator-status-named": (through_a_lost_shepherd, 4),
}


@pytest.mark.parametrize("how", ["KILL", "STOP"])
@pytest.mark.parametrize("point", coordinator.FAIL_POINTS)
def test_a_coordinator_may_fail_at_any_point(unstarted: Node, point: str, how: str) -> None:
    scenario, code = SCENARIOS.get(point, (through_a_pause, 4))
    failing(unstarted, point, how)
    scenario(unstarted)
    assert_nothing_is_left(unstarted)
    assert unstarted.output().splitlines() == ["begun"]
    allowed = {("lost", None)} if point in LOST_BY_COORDINATOR else {("ended", code)}
    assert {(end["what"], end.get("exit_code")) for end in ends(unstarted)} == allowed


@pytest.mark.parametrize("how", ["KILL", "STOP"])
@pytest.mark.parametrize("point", FAIL_POINTS)
def test_a_shepherd_may_fail_at_any_point(unstarted: Node, point: str, how: str) -> None:
    failing(unstarted, point, how)
    over, stray = unstarted.folder / "over", unstarted.folder / "stray"
    over.touch()
    script = f"echo begun; {DAEMONISED.format(stray)} {UNTIL_TOLD.format(stray)} {UNTIL_TOLD.format(over)} exit 4"
    unstarted.want(unstarted.run_order("sh", "-c", script))
    unstarted.wait_until(lambda: bool(ends(unstarted)), "it ends")
    assert_nothing_is_left(unstarted)
    is_lost = how == "KILL" and point in LOST_BY_SHEPHERD
    assert {(end["what"], end.get("exit_code")) for end in ends(unstarted)} == {
        ("lost", None) if is_lost else ("ended", 4)
    }
    assert unstarted.output() == ("" if is_lost and point == "shepherd-recorded" else "begun\n")


def test_a_killed_coordinator_is_not_noticed_by_a_job_of_any_age(node: Node) -> None:
    over = node.folder / "over"
    order = node.run_order("sh", "-c", f"echo begun; {UNTIL_TOLD.format(over)} exit 4")
    node.daemon.send(order)
    for _ in range(4):
        node.restart(order)
    over.touch()
    assert node.daemon.end()["exit_code"] == 4
    assert node.output() == "begun\n"


def test_a_job_that_ended_while_no_coordinator_ran_has_its_right_status(node: Node) -> None:
    over = node.folder / "over"
    order = node.run_order("sh", "-c", f"{UNTIL_TOLD.format(over)} exit 4")
    node.daemon.send(order)
    node.daemon.next("started")
    node.kill()
    over.touch()
    wait_until(lambda: (node.home.task("1", 1, 0) / "status.json").exists(), "the shepherd writes the status")
    node.restart(order)
    assert node.daemon.end()["exit_code"] == 4


def test_the_child_of_a_killed_shepherd_is_reaped_with_its_status_and_its_tree(node: Node) -> None:
    over, stray = node.folder / "over", node.folder / "stray"
    escaped = DAEMONISED.format(stray).replace("setsid sh", "setsid env -i sh")  # nothing tells whose it is
    node.daemon.send(node.run_order("sh", "-c", f"{escaped} {UNTIL_TOLD.format(over)} exit 4"))
    wait_until(lambda: stray.exists() and stray.read_text().endswith("\n"), "the daemon runs")
    node.kill_shepherd()
    over.touch()
    end = node.daemon.end()
    assert (end["what"], end["exit_code"]) == ("ended", 4)
    assert not lives(int(stray.read_text()))


def test_without_shepherd_and_coordinator_the_attempt_is_lost_and_its_tree_gone(node: Node) -> None:
    stray = node.folder / "stray"
    order = node.run_order("sh", "-c", f"{DAEMONISED.format(stray)} sleep 1000")
    node.daemon.send(order)
    wait_until(lambda: stray.exists() and stray.read_text().endswith("\n"), "the daemon runs")
    node.daemon.next("started")
    shepherd = node.shepherd()
    node.kill()
    os.kill(shepherd, signal.SIGKILL)
    node.restart(order)
    end = node.daemon.end()
    assert (end["what"], end["message"]) == ("lost", "its shepherd process was killed, so its exit code is not known")
    assert not node.alive()
    assert not lives(int(stray.read_text()))


def test_an_attempt_from_before_the_machine_was_started_anew_is_lost(node: Node) -> None:
    order = node.run_order("sleep", "1000")
    node.daemon.send(order)
    node.daemon.next("started")
    node.kill()
    record = node.home.task("1", 1, 0).parent / "attempt.json"
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record.write_text(record.read_text().replace(boot_id, "an-earlier-one"))
    node.restart(order)
    assert node.daemon.end()["message"] == "the machine was restarted while it ran"


def test_what_ended_before_the_machine_was_started_anew_has_its_right_status_and_both_are_in_the_hello(
    node: Node,
) -> None:
    node.daemon.acknowledges = lambda report: False
    orders = [node.run_order("sh", "-c", "exit 4"), node.run_order("sleep", "1000", job="2", on=(1,))]
    for order in orders:
        node.daemon.send(order)
    node.daemon.end()
    node.daemon.next("started", "2")
    node.kill()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for job in ("1", "2"):
        record = node.home.task(job, 1, 0).parent / "attempt.json"
        record.write_text(record.read_text().replace(boot_id, "an-earlier-one"))
    node.daemon.reports.clear()
    hello = node.restart(*orders)
    assert {(each["job"], each["attempt"]) for each in hello["attempts"]} == {("1", 1), ("2", 1)}
    assert node.daemon.end()["exit_code"] == 4
    assert node.daemon.end("2")["what"] == "lost"


def test_an_attempt_that_cannot_be_adopted_yet_is_in_the_hello(node: Node) -> None:
    node.kill()
    folder = node.home.job("1") / "attempts" / "1"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(folder)  # its record cannot be read
    hello = node.restart()
    assert [(each["job"], each["attempt"]) for each in hello["attempts"]] == [("1", 1)]


@pytest.mark.parametrize("is_of_a_gang", [False, True])
def test_an_attempt_whose_page_cannot_be_read_is_lost_and_no_other_is(node: Node, is_of_a_gang: bool) -> None:
    over, tasks = node.folder / "over", 2 if is_of_a_gang else 1
    orders = [
        node.run_order("sleep", "1000", tasks=tasks),
        node.run_order("sh", "-c", f"{UNTIL_TOLD.format(over)} exit 4", job="2", on=(1,)),
    ]
    for order in orders:
        node.daemon.send(order)
        node.daemon.next("started", order["job"])
    node.kill()
    page = node.run / f"1.1.{tasks - 1}.page"
    with page.open("r+b") as file:
        file.seek(8 * layout.VERSION)
        file.write((99).to_bytes(8, "little"))
    node.restart(*orders)
    lost = node.daemon.end()
    assert lost["what"] == "lost"
    assert lost["message"] == f"{page} is a control page of version 99; this weft knows {layout.PAGE_VERSION}"
    assert not process_tree.members(process_tree.Tree(marks=frozenset({f"{node.run}/1.1.0"})))
    over.touch()
    assert node.daemon.end("2")["exit_code"] == 4
    wait_until(lambda: not page.exists(), "the page is removed")


def test_a_job_whose_page_was_removed_is_lost_when_it_is_to_pause(node: Node) -> None:
    node.daemon.send(node.run_order("sleep", "1000"))
    node.daemon.next("started")
    (node.run / "1.1.0.page").unlink()
    node.order("pause", needs_bytes=0)
    end = node.daemon.end()
    assert (end["what"], "1.1.0.page" in end["message"]) == ("lost", True)
    assert not node.alive()


def test_a_gang_whose_one_shepherd_is_killed_after_a_restart_is_lost_as_a_whole(node: Node) -> None:
    order = node.run_order("sleep", "1000", on=(0, 1), tasks=2)
    node.daemon.send(order)
    node.daemon.next("started")
    node.restart(order)
    node.kill_shepherd(task=1)
    assert node.daemon.end()["what"] == "lost"
    assert not node.alive()


def test_a_stopped_shepherd_is_continued(node: Node) -> None:
    over = node.folder / "over"
    node.daemon.send(node.run_order("sh", "-c", f"{UNTIL_TOLD.format(over)} exit 4"))
    node.daemon.next("started")
    shepherd = node.shepherd()
    os.kill(shepherd, signal.SIGSTOP)
    wait_until(lambda: state_of(shepherd) == "T", "it is stopped")
    over.touch()
    assert node.daemon.end()["exit_code"] == 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(tmp_path)]
    if os.getuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def fill(disk: Path) -> Path:
    with suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096) == 4096:
            pass
    return disk / "filling"


def test_a_full_disk_delays_launches_and_ends_and_loses_nothing(small_disk: Path) -> None:
    with a_node(small_disk / "home") as node:
        node.start()
        node.await_hello()
        over = node.folder / "over"
        filling = fill(small_disk)
        node.want(node.run_order("sh", "-c", f"{UNTIL_TOLD.format(over)} exit 4"))
        wait_until(lambda: len(node.daemon.progress) > 2, "it has tried")
        assert node.daemon.reports == []
        filling.unlink()
        pid = node.daemon.next("started")["pids"][0]
        filling = fill(small_disk)
        over.touch()
        wait_until(lambda: not lives(pid), "the job has ended")
        node.restart(node.run_order("", generation=1))
        filling.unlink()
        assert node.daemon.end()["exit_code"] == 4


def test_a_home_folder_that_is_removed_leaves_no_shepherd_and_its_jobs_end_before_others_take_their_names(
    node: Node,
) -> None:
    node.daemon.send(node.run_order("sleep", "1000"))
    pid = node.daemon.next("started")["pids"][0]
    node.kill()
    shepherd = node.shepherd()
    shutil.rmtree(node.home.root)
    node.home.make()
    node.start()
    node.await_hello()
    node.daemon.send(node.run_order("sh", "-c", f"grep -s State /proc/{pid}/status"))
    node.daemon.end()
    assert node.output() in ("", "State:\tZ (zombie)\n")  # nobody has reaped it yet
    wait_until(lambda: not lives(shepherd), "the shepherd is gone")
