"""Jobs in one lane of a device, ordered by the daemon: they take turns, pause without the turn, and leave no page."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nodes import Message, Node

from underweft import environment
from waiting import PATIENCE_S, wait_until
from weft.node.attempt.order import AttemptSeat
from weft.node.sharing import node_lanes
from weft.node.task.handle import attach
from weft.node.task.rank import RankStatus
from weft.runtime.allocator import library_path
from weft.runtime.page import lane_page
from weft.runtime.page.lane_page import Member

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library"),
]

IN_LANE = {"guest": True, "lane": 1}
# Forty steps, of which the last thirty only once somebody says so.
TRAINING = """
import os, sys, time, torch
torch.manual_seed(int(sys.argv[2]))
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(40):
    while step == 10 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    loss = model(torch.randn(512, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
"""
# As many steps as it is told, or until it is told; some tensors of each step live on for a while.
WANDERING = """
import os, sys, torch
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters())
kept, step, last = [], 0, int(sys.argv[3])
while step < last if last else not os.path.exists(sys.argv[1]):
    hidden = model[:2](torch.randn(512, 64))
    loss = model[2](hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    kept = [*kept[-7:], hidden.detach()[: 100 + 50 * (step % 8)].clone()]
    optimizer.step()
    step += 1
    print(loss.item().hex(), float(sum(each.sum() for each in kept)).hex())
"""
ENDLESS = """
import os, sys, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters())
while not os.path.exists(sys.argv[1]):
    loss = model(torch.randn(512, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
sys.exit(4)
"""


def order(node: Node, code: str, job: str, **more: Any) -> Message:
    words = (sys.executable, "-c", code, str(node.folder / "over"), job)
    return node.run_order(*words, job=job, **{"seat": IN_LANE, **more})


def begin(node: Node, *orders: Message) -> None:
    """Each is a member of the lane, and has had turns."""
    node.daemon.on_hello = lambda: list(orders)
    for each in orders:
        node.daemon.send(each)
    for each in orders:
        wait_until(lambda job=each["job"]: turns(node, job) > 2, "it takes turns")  # type: ignore[misc]


def rank(node: Node, job: str) -> RankStatus | None:
    page = node.run / f"{job}.1.0.page"
    if not page.exists():
        return None
    with attach(page) as task:
        return next(iter(task.status().ranks), None)


def turns(node: Node, job: str) -> int:
    found = rank(node, job)
    return found.turns if found and found.is_in_lane else 0


def members(path: Path) -> dict[int, tuple[int, int]]:
    """The base and the weight of each as they were ordered, by its process."""
    page = path.read_bytes()
    slots = [8 * (lane_page.MEMBERS + slot * lane_page.MEMBER_WORDS) for slot in range(lane_page.LANE_MEMBERS)]
    found = [struct.unpack_from("=16q", page, at) for at in slots]
    return {each[Member.PID]: (each[Member.ORDERED], each[Member.WEIGHT]) for each in found if each[Member.PID]}


def alone(node: Node, seed: str) -> str:
    (node.folder / "over").touch()
    command = [sys.executable, "-c", TRAINING, str(node.folder / "over"), seed]
    out = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=True)
    return out.stdout


def test_jobs_in_one_lane_take_turns_and_print_what_they_print_alone(node: Node) -> None:
    begin(node, order(node, TRAINING, "1"), order(node, TRAINING, "2"))
    pids = {node.daemon.next("started", job)["pids"][0] for job in "12"}
    lane = node.run / "lane-0-1"
    assert members(lane) == dict.fromkeys(pids, (0, 1)), "all get the same time unless it is said"
    capacity = struct.unpack_from("=Q", lane.read_bytes(), 8 * lane_page.CAPACITY)[0]
    assert capacity == node.daemon.hellos[0]["devices"][0]["memory_bytes"]
    assert [node.daemon.next("started", job)["lane"] for job in "12"] == [1, 1]
    (node.folder / "over").touch()
    for job in "12":
        assert node.daemon.end(job)["exit_code"] == 0
        assert node.output(job) == alone(node, job)
    wait_until(lambda: not lane.exists(), "the lane's page is removed")


def test_who_is_next_in_a_lane_can_be_ordered_before_and_while_it_is_in_it(node: Node) -> None:
    first = {**IN_LANE, "base": -5, "weight": 0}
    begin(node, order(node, ENDLESS, "1", seat=first), order(node, ENDLESS, "2"))
    lane = node.run / "lane-0-1"
    assert sorted(members(lane).values()) == [(-5, 0), (0, 1)]
    node.daemon.send(order(node, ENDLESS, "1", seat={**IN_LANE, "base": 7, "weight": 3}, generation=2))
    wait_until(lambda: sorted(members(lane).values()) == [(0, 1), (7, 3)], "it is as ordered")
    (node.folder / "over").touch()
    assert [node.daemon.end(job)["exit_code"] for job in "12"] == [4, 4]


def test_a_member_that_pauses_has_not_the_turn_and_the_lane_survives_the_coordinator(node: Node) -> None:
    orders = [order(node, ENDLESS, "1"), order(node, ENDLESS, "2")]
    begin(node, *orders)
    node.order("pause", "1", needs_bytes=0)
    assert node.daemon.next("paused")["how"] == "boundary"
    before = turns(node, "2")
    wait_until(lambda: turns(node, "2") > before + 20, "the other one goes on")
    node.restart({"type": "pause", "job": "1", "attempt": 1, "generation": 1, "needs_bytes": 0}, orders[1])
    before = turns(node, "2")
    wait_until(lambda: turns(node, "2") > before + 20, "nobody has noticed")
    assert len(members(node.run / "lane-0-1")) == 2
    before = turns(node, "1")
    node.daemon.send({**orders[0], "generation": 2})
    assert node.daemon.next("resumed")["lane"] == 1
    wait_until(lambda: turns(node, "1") > before, "it takes turns again")
    (node.folder / "over").touch()
    assert [node.daemon.end(job)["exit_code"] for job in "12"] == [4, 4]
    wait_until(lambda: not (node.run / "lane-0-1").exists(), "the lane's page is removed")


def test_who_changes_its_lane_takes_its_turns_there_and_prints_what_it_prints_alone(node: Node) -> None:
    """From no lane into one, into one of another device beside somebody, and out of all lanes."""
    cores = [set(device["cores"]) for device in node.daemon.hellos[0]["devices"]]
    elsewhere = {"guest": True, "lane": 3}
    begin(node, order(node, ENDLESS, "2", seat=elsewhere, on=(1,)))
    command = [sys.executable, "-c", WANDERING, str(node.folder / "over"), "1"]
    env = {**environment(), "WEFT_POISON": "1"}

    def wander(generation: int, seat: Message, device: int) -> set[str]:
        """To a seat where it makes some steps, with turns or without; the lanes that there are then."""
        about = {"on": (device,), "seat": seat, "generation": generation, "env": env}
        node.daemon.send(node.run_order(*command, "0", job="1", **about))
        node.daemon.next("resumed" if generation > 1 else "started", "1", after=max(0, generation - 2))
        taken, made = turns(node, "1"), lines(node)
        wait_until(lambda: lines(node) > made + 20, "it makes steps")
        assert (turns(node, "1") > taken) == bool(seat)
        assert os.sched_getaffinity(node.daemon.next("started", "1")["pids"][0]) == cores[device]
        return {each.name for each in node.run.glob("lane-*")}

    assert wander(1, {}, 0) == {"lane-1-3"}
    assert wander(2, IN_LANE, 0) == {"lane-0-1", "lane-1-3"}
    assert wander(3, {**elsewhere, "base": 4}, 1) == {"lane-1-3"}
    assert sorted(members(node.run / "lane-1-3").values()) == [(0, 1), (4, 1)]
    assert wander(4, IN_LANE, 1) == {"lane-1-1", "lane-1-3"}
    assert wander(5, {}, 0) == {"lane-1-3"}
    (node.folder / "over").touch()
    assert [node.daemon.end(job)["exit_code"] for job in "12"] == [0, 4]
    (node.folder / "over").unlink()
    made = node.output().splitlines()
    out = subprocess.run([*command, str(len(made))], capture_output=True, text=True, env=environment(), check=True)
    assert made == out.stdout.splitlines()


def lines(node: Node) -> int:
    return node.output().count("\n")


def test_a_member_that_pauses_leaves_nothing_of_its_steps_in_the_lane(node: Node) -> None:
    begin(node, order(node, ENDLESS, "1"))

    def reserved_bytes() -> int:
        found: int = struct.unpack_from("=Q", (node.run / "lane-0-1").read_bytes(), 8 * lane_page.RESERVED)[0]
        return found

    assert reserved_bytes() > 100_000
    node.order("pause", "1", needs_bytes=0)
    node.daemon.next("paused")
    assert reserved_bytes() == 0
    node.order("stop", "1")
    node.daemon.end("1")


def test_who_cannot_join_its_lane_is_measured_as_one_that_shares_nothing(node: Node) -> None:
    (node.run / "lane-0-1").mkdir()
    node.daemon.send(order(node, ENDLESS, "1"))
    wait_until(lambda: bool(node.daemon.measured), "it is measured")
    found = rank(node, "1")
    assert found is not None
    told = node.daemon.measured[0]
    assert (told["persistent_bytes"], told["ephemeral_bytes"]) == (found.persistent_bytes + found.ephemeral_bytes, 0)
    assert "no lane: the lane's page" in node.output()
    (node.folder / "over").touch()
    assert node.daemon.end("1")["exit_code"] == 4
    wait_until(lambda: not (node.run / "lane-0-1").exists(), "what stood in the page's way is removed with the lane")


def test_the_page_of_a_lane_whose_last_member_was_killed_is_removed(node: Node) -> None:
    begin(node, order(node, ENDLESS, "1"))
    os.kill(node.daemon.next("started")["pids"][0], signal.SIGKILL)
    assert node.daemon.end()["exit_code"] == 128 + 9
    wait_until(lambda: not (node.run / "lane-0-1").exists(), "the lane's page is removed")


def test_a_page_is_removed_only_if_no_attempt_and_no_process_uses_its_lane(tmp_path: Path) -> None:
    mine = (os.getpid(), int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]))
    page = bytearray(lane_page.LANE_BYTES)
    struct.pack_into("=3Q", page, 0, lane_page.LANE_MAGIC, lane_page.LANE_VERSION, lane_page.LANE_BYTES)
    for name, member in (("lane-0-1", mine), ("lane-0-2", (mine[0], mine[1] + 1)), ("lane-0-3", (0, 0))):
        struct.pack_into("=2Q", page, 8 * lane_page.MEMBERS, *member)
        (tmp_path / name).write_bytes(page)
    (tmp_path / "lane-x").touch()
    node_lanes.remove_unused(tmp_path, {tmp_path / "lane-0-3"})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lane-0-1", "lane-0-3", "lane-x"]
    node_lanes.set_order(tmp_path / "lane-0-1", {mine[0]}, AttemptSeat(base=-3, weight=9))
    assert members(tmp_path / "lane-0-1") == {mine[0]: (-3, 9)}


def test_what_was_used_before_an_order_does_not_count_against_it(tmp_path: Path) -> None:
    """With the least remaining time first: who was paused with 9 s left, after 2 s, and comes back has 9 s left."""
    page, lane = bytearray(lane_page.LANE_BYTES), tmp_path / "lane-0-1"
    struct.pack_into("=3Q", page, 0, lane_page.LANE_MAGIC, lane_page.LANE_VERSION, lane_page.LANE_BYTES)
    base_at, used_at = (8 * (lane_page.MEMBERS + word) for word in (Member.BASE, Member.USED))
    struct.pack_into("=Q", page, 8 * lane_page.MEMBERS, os.getpid())
    lane.write_bytes(page)

    def key_after(used_s: int, remaining_s: int) -> int:
        page[:] = lane.read_bytes()
        struct.pack_into("=Q", page, used_at, used_s * 10**9)
        lane.write_bytes(page)
        node_lanes.set_order(lane, {os.getpid()}, AttemptSeat(base=remaining_s * 10**6, weight=-1))
        return int(struct.unpack_from("=q", lane.read_bytes(), base_at)[0]) - used_s * 10**6

    assert key_after(0, 11) == 11 * 10**6
    assert key_after(2, 11) == 9 * 10**6, "the same order"
    assert key_after(2, 9) == 9 * 10**6, "a new one"
    assert key_after(3, 9) == 8 * 10**6


@pytest.mark.parametrize("how", ["a gang", "two devices", "no library"])
def test_who_cannot_take_turns_is_launched_without_a_lane(unstarted: Node, how: str) -> None:
    unstarted.start(**({"WEFT_NATIVE": ""} if how == "no library" else {}))
    unstarted.await_hello()
    on, tasks = ((0,), 1) if how == "no library" else ((0, 1), 2 if how == "a gang" else 1)
    more = {"devices_per_task": len(on) // tasks, "tasks": tasks}
    unstarted.daemon.send(unstarted.run_order("sh", "-c", "echo lanes=$WEFT_LANES", on=on, seat=IN_LANE, **more))
    assert unstarted.daemon.end()["exit_code"] == 0
    assert unstarted.output() == "lanes=\n"
