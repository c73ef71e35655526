"""Pauses ordered by the daemon: where a job stands, what is free then, where it goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nodes import Message, Node

from waiting import state_of, wait_until
from weft.node.task.handle import attach

STEPS = """
import os, sys, threading, time, weft
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.0005)
    weft.report(loss=0.5)
sys.exit(4)
"""
RESUMABLE = """
import os, sys, time, weft
class Part:
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
run = weft.init(part=Part())
print("from", run.step)
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.0005)
sys.exit(4)
"""
WITHOUT_STEPS = "while [ ! -e {} ]; do sleep 0.01; done; exit 4"
ROOMY, TIGHT = 0, 1 << 50


def stepping(node: Node, code: str = STEPS, **more: object) -> Message:
    return node.run_order(sys.executable, "-c", code, str(node.folder / "over"), **more)  # type: ignore[arg-type]


def begin(node: Node, order: Message) -> None:
    node.want(order)
    wait_until(lambda: steps(node) > 0, "steps are seen")


def steps(node: Node) -> int:
    jobs = node.daemon.progress[-1]["jobs"] if node.daemon.progress else {}
    return int(jobs.get("1", {}).get("step", 0))


def pause(node: Node, generation: int = 1, needs_bytes: int | None = ROOMY) -> None:
    """Of the generation of the run, as the daemon does."""
    order = {"type": "pause", "job": "1", "attempt": 1, "generation": generation, "needs_bytes": needs_bytes}
    node.want(order)


def cores_of(pid: int) -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(int(each.name))) for each in Path(f"/proc/{pid}/task").iterdir()}


def test_a_paused_job_frees_its_device_and_goes_on_on_another_with_all_its_threads(node: Node) -> None:
    cores = [frozenset(device["cores"]) for device in node.daemon.hellos[0]["devices"]]
    begin(node, stepping(node))
    job = node.daemon.progress[-1]["jobs"]["1"]
    assert job["state"] == "running"
    assert job["step_rate_hz"] > 0
    assert job["metrics"] == {"loss": 0.5}
    assert job["can_checkpoint"] is False
    pid = node.daemon.next("started")["pids"][0]
    assert cores_of(pid) == {cores[0]}
    pause(node)
    paused = node.daemon.next("paused")
    assert (paused["how"], paused["depth"], paused["reason"]) == ("boundary", "gate", "")
    assert paused["step"] > 0
    node.daemon.send(node.run_order("sleep", "1000", job="2"))
    node.daemon.next("started", "2")
    node.want(stepping(node, generation=2, on=(1,)))
    assert node.daemon.next("resumed")["devices"] == [1]
    assert cores_of(pid) == {cores[1]}
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 4


def test_a_job_without_steps_is_stopped_where_it_is_with_what_left_its_session(node: Node) -> None:
    over, stray = node.folder / "over", node.folder / "stray"
    node.daemon.send({"type": "synced", "stop_grace_s": 5, "pause_grace_s": 0.1})
    daemonised = f"(setsid sh -c 'echo $$ > {stray}; {WITHOUT_STEPS.format(over)}' &); "
    node.want(node.run_order("sh", "-c", daemonised + WITHOUT_STEPS.format(over)))
    wait_until(lambda: stray.exists() and stray.read_text().endswith("\n"), "the daemon runs")
    pid = node.daemon.next("started")["pids"][0]
    pause(node)
    assert node.daemon.next("paused")["how"] == "stopped"
    assert [state_of(each) for each in (pid, int(stray.read_text()))] == ["T", "T"]
    node.want(node.run_order("", generation=2))
    node.daemon.next("resumed")
    over.touch()
    assert node.daemon.end()["exit_code"] == 4


def test_a_job_that_can_leaves_with_a_checkpoint_when_there_is_no_room_for_it(node: Node) -> None:
    begin(node, stepping(node, RESUMABLE))
    pause(node, needs_bytes=TIGHT)
    left = node.daemon.end()
    assert left["what"] == "left"
    assert left["step"] > 0
    assert not node.alive()
    (node.folder / "over").touch()
    node.daemon.send(stepping(node, RESUMABLE, attempt=2, generation=2))
    wait_until(lambda: len(node.daemon.all("ended")) == 1, "the next attempt ends")
    assert node.output().splitlines() == ["from 0", f"from {left['step']}"]


def test_a_job_that_cannot_leave_is_kept_in_memory_though_there_is_no_room(node: Node) -> None:
    begin(node, stepping(node))
    pause(node, needs_bytes=TIGHT)
    paused = node.daemon.next("paused")
    assert (paused["how"], paused["depth"]) == ("boundary", "gate")


@pytest.mark.parametrize("has_steps", [True, False])
def test_a_paused_job_survives_its_coordinator_and_is_paused_for_the_next(node: Node, has_steps: bool) -> None:
    over = node.folder / "over"
    node.daemon.send({"type": "synced", "stop_grace_s": 5, "pause_grace_s": 10 if has_steps else 0.1})
    order = stepping(node) if has_steps else node.run_order("sh", "-c", WITHOUT_STEPS.format(over))
    node.want(order)
    wait_until(lambda: bool(steps(node)) or (not has_steps and bool(node.daemon.all("started"))), "it runs")
    pause(node)
    first = node.daemon.next("paused")
    hello = node.restart({"type": "pause", "job": "1", "attempt": 1, "generation": 1, "needs_bytes": ROOMY})
    assert hello["attempts"] == [{"job": "1", "attempt": 1, "generation": 1, "state": "paused"}]
    second = node.daemon.next("paused", after=1)
    assert [second[key] for key in ("how", "depth", "step")] == [first[key] for key in ("how", "depth", "step")]
    node.daemon.send(node.run_order("true", job="2"))
    assert node.daemon.end("2")["exit_code"] == 0
    node.want({**order, "generation": 2})
    node.daemon.next("resumed")
    over.touch()
    assert node.daemon.end()["exit_code"] == 4


def test_a_gang_that_can_leaves_as_a_whole(node: Node) -> None:
    one_leaves_late = "import atexit, os, time; atexit.register(time.sleep, 0.3 * int(os.environ['RANK']))"
    begin(node, stepping(node, one_leaves_late + RESUMABLE, on=(0, 1), tasks=2))
    with attach(*(node.run / f"1.1.{rank}.page" for rank in (0, 1))) as task:
        wait_until(lambda: len(task.ranks) == 2, "both make steps")
    pause(node, needs_bytes=TIGHT)
    left = node.daemon.end()
    assert left["what"] == "left"
    node.daemon.send(stepping(node, RESUMABLE, attempt=2, generation=2, on=(0, 1), tasks=2))

    def said() -> list[list[str]]:
        return [node.output(task=rank).splitlines() for rank in (0, 1)]

    wait_until(lambda: all(len(lines) == 2 for lines in said()), "both go on")
    (node.folder / "over").touch()  # only now: the first to end, which it does with 4, ends the other
    assert [first for first, _ in said()] == ["from 0", "from 0"]
    assert max(int(again.split()[1]) for _, again in said()) == left["step"]
    assert "from 0" not in [again for _, again in said()]
    wait_until(lambda: len(node.daemon.all("ended")) == 1, "the next attempt ends")


def test_a_pause_is_answered_once_for_each_lease(node: Node) -> None:
    order = stepping(node)
    begin(node, order)
    for generation in (1, 2):
        for _ in range(3):
            pause(node, generation)
        paused = node.daemon.next("paused", after=generation - 1)
        pause(node, generation)
        assert paused["generation"] == generation
        for _ in range(3):
            node.want({**order, "generation": generation + 1})
        assert node.daemon.next("resumed", after=generation - 1)["generation"] == generation + 1
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 4
    assert [each["what"] for each in node.daemon.reports] == ["started", *(2 * ["paused", "resumed"]), "ended"]


def test_a_paused_job_can_be_stopped(node: Node) -> None:
    begin(node, stepping(node))
    pause(node)
    node.daemon.next("paused")
    node.order("stop")
    assert node.daemon.end()["exit_code"] == 128 + 15


def test_a_stop_does_not_wait_for_a_pause(node: Node) -> None:
    node.daemon.send({"type": "synced", "stop_grace_s": 5, "pause_grace_s": 1000})
    node.want(node.run_order("sleep", "1000"))
    node.daemon.next("started")
    pause(node)
    wait_until(lambda: "pausing" in str(node.daemon.progress[-1:]), "it is being paused")
    node.order("stop")
    assert node.daemon.end()["exit_code"] == 128 + 15


def test_a_pause_that_is_taken_back_before_the_job_runs_leaves_it_running(node: Node) -> None:
    order = stepping(node)
    node.daemon.send(order)
    node.order("pause", needs_bytes=ROOMY)
    node.want({**order, "generation": 2})
    wait_until(lambda: steps(node) > 0, "it steps")
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 4


def test_a_gang_pauses_as_a_whole(node: Node) -> None:
    order = stepping(node, on=(0, 1), tasks=2)
    begin(node, order)
    pids = node.daemon.next("started")["pids"]
    pause(node)
    assert node.daemon.next("paused")["how"] == "boundary"
    node.daemon.send(node.run_order("true", job="2", on=(0,)))
    assert node.daemon.end("2")["exit_code"] == 0
    node.want({**order, "generation": 2, "devices": [1, 0]})
    node.daemon.next("resumed")
    cores = [frozenset(device["cores"]) for device in node.daemon.hellos[0]["devices"]]
    assert [cores_of(pid) for pid in pids] == [{cores[1]}, {cores[0]}]
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 4
