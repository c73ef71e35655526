"""Guests and holders on one device: who may come when, who stays, and what a killed coordinator leaves to the next."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nodes import Message, Node

from waiting import state_of, wait_until
from weft.node.devices import sched_idle
from weft.node.task.handle import Task, attach
from weft.runtime.allocator import library_path
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth

pytestmark = pytest.mark.torch

GUEST, HOLDER = {"guest": True}, {"guest": False}
THROTTLED = {"guest": True, "throttled": True}
UNTIL_TOLD = "while [ ! -e {} ]; do sleep 0.01; done; "
STEPS = """
import os, sys, time, weft
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.0005)
sys.exit(4)
"""
GROWING = """
import os, sys, time, torch, weft
while not os.path.exists(sys.argv[1]):
    with weft.step(): torch.zeros(4 << 18).add_(1)
    time.sleep(0.002)
with weft.step(): kept = torch.zeros(40 << 18).add_(1)
with weft.step():
    while os.path.exists(sys.argv[1]): time.sleep(0.01)
sys.exit(4)
"""
PASSING = """
import os, sys, time, torch, weft
while not os.path.exists(sys.argv[1]):
    with weft.step(): torch.zeros(20 << 18).add_(1)
    time.sleep(0.002)
sys.exit(4)
"""
LINGERING = """
import os, sys, time, weft
over, stay = sys.argv[1:]
while not os.path.exists(over):
    with weft.step():
        time.sleep(0.0005)
        while os.path.exists(stay):
            open(stay + "-does", "w").close()
            time.sleep(0.01)
sys.exit(4)
"""
RESUMABLE = """
import os, sys, time, weft
class Part:
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
run = weft.init(part=Part())
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.0005)
sys.exit(4)
"""


def stepping(node: Node, job: str = "1", code: str = STEPS, arguments: Sequence[str] = (), **more: Any) -> Message:
    over = str(node.folder / f"over-{job}")
    return node.run_order(sys.executable, "-c", code, over, *arguments, job=job, **more)


def sleeping(node: Node, job: str = "1", **more: Any) -> Message:
    return node.run_order("sh", "-c", UNTIL_TOLD.format(node.folder / f"over-{job}") + "exit 4", job=job, **more)


def tell_over(node: Node, *jobs: str) -> None:
    for job in jobs:
        (node.folder / f"over-{job}").touch()
    for job in jobs:
        assert node.daemon.end(job)["exit_code"] == 4


def seen(node: Node, job: str = "1") -> Message:
    found: Message = node.daemon.progress[-1]["jobs"].get(job, {}) if node.daemon.progress else {}
    return found


def begin(node: Node, *orders: Message) -> None:
    """All of them, and each makes steps."""
    node.daemon.on_hello = lambda: list(orders)
    for order in orders:
        node.daemon.send(order)
    for order in orders:
        node.daemon.next("started", order["job"])
        wait_until(lambda job=order["job"]: seen(node, job).get("step", 0) > 0, "steps are seen")  # type: ignore[misc]


def is_held_back(task: Task) -> bool:
    """It stands still while its holder's steps alone are learnt, or is slowed."""
    return task.duty < 100 or task.wanted == Depth.GATE


def whats(node: Node, job: str) -> list[str]:
    """Reported of it, but for rests, which depend on what else the machine does."""
    reports = [report for report in list(node.daemon.reports) if report["job"] == job]
    return [report["what"] for report in reports if report["what"] != "held-back"]


@pytest.mark.parametrize("seats", [(HOLDER, GUEST), (GUEST, HOLDER), (GUEST, GUEST)])
def test_a_guest_and_another_run_on_one_device_at_once(node: Node, seats: tuple[Message, Message]) -> None:
    for job, seat in zip("12", seats, strict=True):
        node.daemon.send(sleeping(node, job, seat=seat))
        node.daemon.next("started", job)
    wait_until(lambda: seen(node, "2").get("neighbours") == ["1"], "it is beside the other")
    assert (seen(node, "1")["neighbours"], seen(node, "1")["duty"]) == (["2"], 100)
    tell_over(node, "1", "2")


def test_a_holder_does_not_wait_for_a_guest_that_may_stay_and_waits_for_one_that_is_to_leave(node: Node) -> None:
    for job in "12":
        node.daemon.send(sleeping(node, job, seat=GUEST))
        node.daemon.next("started", job)
    node.daemon.send({"type": "synced", "stop_grace_s": 5, "pause_grace_s": 1})
    node.order("pause", job="2", needs_bytes=0)
    node.daemon.send(sleeping(node, "3"))
    node.daemon.next("started", "3")
    order = [(report["job"], report["what"]) for report in list(node.daemon.reports)]
    assert order.index(("2", "paused")) < order.index(("3", "started"))
    assert whats(node, "1") == ["started"]


def test_a_holder_waits_for_a_guest_that_is_to_go_elsewhere_until_it_is_there(node: Node) -> None:
    cores = [set(device["cores"]) for device in node.daemon.hellos[0]["devices"]]
    node.daemon.send(sleeping(node, seat=GUEST))
    pid = node.daemon.next("started")["pids"][0]
    node.daemon.send(sleeping(node, generation=2, seat=GUEST, on=(1,)))
    node.daemon.send(sleeping(node, "2"))
    node.daemon.next("started", "2")
    assert node.daemon.next("resumed")["devices"] == [1]
    assert os.sched_getaffinity(pid) == cores[1]
    assert whats(node, "1") == ["started", "resumed"]
    tell_over(node, "1", "2")


def test_a_guest_that_becomes_the_holder_runs_on_as_it_is(node: Node) -> None:
    begin(node, stepping(node, seat=GUEST))
    pid = node.daemon.next("started")["pids"][0]
    with attach(node.run / "1.1.0.page") as task:
        asked = task.firsts[0].words[layout.REQUEST]
        node.daemon.send(stepping(node, generation=2))
        node.daemon.send(sleeping(node, "2", seat=GUEST))
        node.daemon.next("started", "2")
        node.daemon.send(node.run_order("true", job="3"))  # for which there is a holder already
        wait_until(lambda: len(node.daemon.progress) > 2, "it had time to start")
        assert not node.daemon.all("started", "3")
        assert task.firsts[0].words[layout.REQUEST] == asked, "nobody has asked it to pause"
    assert state_of(pid) in "RS"
    assert whats(node, "1") == ["started"]
    tell_over(node, "1", "2")
    assert node.daemon.end("3")["exit_code"] == 0


def test_two_who_change_places_do_not_wait_for_each_other(node: Node) -> None:
    begin(node, stepping(node), stepping(node, "2", on=(1,)))
    pids = [node.daemon.next("started", job)["pids"][0] for job in "12"]
    node.daemon.send(stepping(node, generation=2, on=(1,)))
    node.daemon.send(stepping(node, "2", generation=2, on=(0,)))
    assert [node.daemon.next("resumed", job)["devices"] for job in "12"] == [[1], [0]]
    cores = [set(device["cores"]) for device in node.daemon.hellos[0]["devices"]]
    assert [os.sched_getaffinity(pid) for pid in pids] == cores[::-1]
    assert "paused" not in whats(node, "1") + whats(node, "2")
    tell_over(node, "1", "2")


def test_a_guest_that_loses_its_seat_pauses_and_the_holder_notices_nothing(node: Node) -> None:
    begin(node, stepping(node), stepping(node, "2", seat=GUEST))
    node.order("pause", "2", needs_bytes=0)
    assert node.daemon.next("paused", "2")["how"] == "boundary"
    wait_until(lambda: seen(node)["neighbours"] == [], "the holder is alone")
    node.daemon.send(stepping(node, "2", generation=2, seat=GUEST, on=(1,)))
    assert node.daemon.next("resumed", "2")["devices"] == [1]
    assert whats(node, "1") == ["started"]
    tell_over(node, "1", "2")


def test_a_killed_coordinator_leaves_guests_and_holders_as_they_are(node: Node) -> None:
    orders = [stepping(node), stepping(node, "2", seat=THROTTLED), stepping(node, "3", on=(1,))]
    begin(node, orders[1])  # while it is alone, it is not held back
    begin(node, orders[0], orders[2])
    pids = [node.daemon.next("started", job)["pids"][0] for job in "123"]
    wait_until(lambda: seen(node, "2")["duty"] < 100, "it is held back")
    moved = {**orders[2], "devices": [0], "generation": 2}  # somebody has to leave first
    node.restart(orders[0], {"type": "pause", "job": "2", "attempt": 1, "generation": 1, "needs_bytes": 0}, moved)
    node.daemon.next("paused", "2")
    with attach(node.run / "2.1.0.page") as task:
        assert task.duty == 100
    assert os.sched_getscheduler(pids[1]) == os.SCHED_OTHER
    again = stepping(node, "2", generation=2, seat=GUEST)
    node.daemon.send(again)
    node.daemon.next("resumed", "2")
    wait_until(lambda: seen(node, "2").get("neighbours") == ["1"], "both are on the device")
    assert [node.daemon.next("started", job, after=1)["pids"][0] for job in "13"] == [pids[0], pids[2]]
    tell_over(node, "1", "2")
    assert node.daemon.next("resumed", "3")["devices"] == [0]
    tell_over(node, "3")


def test_guests_on_single_devices_of_a_gang_are_held_back_for_it(node: Node) -> None:
    begin(node, *(stepping(node, job, seat=THROTTLED, on=(device,)) for job, device in (("2", 0), ("3", 1))))
    begin(node, stepping(node, on=(0, 1), tasks=2, devices_per_task=1))
    pids = [node.daemon.next("started", job)["pids"][0] for job in "23"]
    with attach(node.run / "2.1.0.page") as one, attach(node.run / "3.1.0.page") as other:
        wait_until(lambda: is_held_back(one) and is_held_back(other), "both are held back")
        wait_until(lambda: seen(node)["neighbours"] == ["2", "3"], "both are beside it")
        (node.folder / "over-1").touch()
        assert node.daemon.end("1")["exit_code"] == 4
        wait_until(lambda: all(each.duty == 100 and each.wanted == Depth.RUN for each in (one, other)), "they are free")
    wait_until(lambda: {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_OTHER}, "so says the kernel")
    tell_over(node, "2", "3")


def test_what_a_throttle_has_set_is_undone_when_the_guest_is_alone_and_when_it_holds_its_device(node: Node) -> None:
    begin(node, stepping(node, "2", seat=THROTTLED))
    begin(node, stepping(node))
    pid = node.daemon.next("started", "2")["pids"][0]
    with attach(node.run / "2.1.0.page") as task:
        wait_until(lambda: is_held_back(task), "it is held back")
        if not sched_idle.why_not([pid]):
            wait_until(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE, "it is in the idle class")
        node.order("pause", needs_bytes=0)
        node.daemon.next("paused")
        wait_until(lambda: task.duty == 100 and task.wanted == Depth.RUN, "alone it runs at full duty")
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
        node.daemon.send(stepping(node, generation=2))
        node.daemon.next("resumed")
        wait_until(lambda: is_held_back(task), "it is held back again")
        node.daemon.send(stepping(node, generation=3, seat=GUEST))
        node.daemon.send(stepping(node, "2", generation=2))
        wait_until(lambda: task.duty == 100 and task.wanted == Depth.RUN, "it holds the device")
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
        assert whats(node, "2") == ["started"]
    tell_over(node, "1", "2")


@pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library")
def test_where_nothing_may_overflow_nobody_is_bounded_for_the_sake_of_others(node: Node) -> None:
    """A limit below what a step needs would be the end of it."""
    begin(node, stepping(node, "2", PASSING, seat=THROTTLED, strict=True))
    begin(node, stepping(node, "1", PASSING, strict=True))
    with attach(node.run / "1.1.0.page") as holder, attach(node.run / "2.1.0.page") as guest:
        wait_until(lambda: is_held_back(guest), "it is held back")
        wait_until(lambda: guest.wanted == Depth.RUN, "the time alone is learnt")
        steps = holder.step, guest.step
        wait_until(lambda: holder.step > steps[0] + 20 and guest.step > steps[1] + 3, "both go on")
        assert [task.firsts[0].words[layout.LIMIT] for task in (holder, guest)] == [0, 0]
    tell_over(node, "1", "2")


def test_a_guest_that_is_to_pause_is_held_back_on_its_way_to_the_boundary_but_not_for_long(node: Node) -> None:
    stay, does = node.folder / "stay", node.folder / "stay-does"
    begin(node, stepping(node, "2", LINGERING, (str(stay),), seat=THROTTLED))
    pid = node.daemon.next("started", "2")["pids"][0]
    if sched_idle.why_not([pid]):
        pytest.skip("nobody may use the idle class here")
    stay.touch()
    wait_until(does.exists, "it is inside a step")
    node.daemon.send(sleeping(node))  # it makes no steps to learn of, so the guest is slowed and not gated
    wait_until(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE, "it is in the idle class")
    with attach(node.run / "2.1.0.page") as task:
        node.order("pause", "2", needs_bytes=0)
        wait_until(lambda: task.wanted == Depth.GATE, "it is asked to pause")
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
        wait_until(lambda: os.sched_getscheduler(pid) == os.SCHED_OTHER, "it is so no more")
        assert not any(rank.is_paused for rank in task.ranks), "though it has not come to the boundary"
    assert not node.daemon.all("paused", "2")
    stay.unlink()
    assert node.daemon.next("paused", "2")["how"] == "boundary"
    tell_over(node, "1")


@pytest.mark.parametrize("seat", [GUEST, THROTTLED])
def test_who_is_told_to_stand_is_a_neighbour_until_it_does(node: Node, seat: Message) -> None:
    stay, does = node.folder / "stay", node.folder / "stay-does"
    begin(node, stepping(node, "2", LINGERING, (str(stay),), seat=seat))
    stay.touch()
    wait_until(does.exists, "it is inside a step")
    begin(node, stepping(node))
    with attach(node.run / "2.1.0.page") as task:
        if seat is GUEST:
            node.order("pause", "2", needs_bytes=0)
        wait_until(lambda: task.wanted == Depth.GATE, "it is told to stand")
    looks = len(node.daemon.progress)
    wait_until(lambda: len(node.daemon.progress) > looks + 1, "the node has looked at it since")
    assert seen(node)["neighbours"] == ["2"]
    node.order("pause", "2", needs_bytes=0)
    stay.unlink()
    node.daemon.next("paused", "2")
    wait_until(lambda: seen(node)["neighbours"] == [], "it stands")
    tell_over(node, "1")


def test_a_seat_that_changes_within_a_lease_is_taken_as_it_is(node: Node) -> None:
    begin(node, stepping(node, "2", seat=GUEST))
    begin(node, stepping(node))
    with attach(node.run / "2.1.0.page") as task:
        node.daemon.send(stepping(node, "2", seat=THROTTLED))
        wait_until(lambda: is_held_back(task), "it is held back")
        node.daemon.send(stepping(node, "2", seat=GUEST))
        wait_until(lambda: task.duty == 100 and task.wanted == Depth.RUN, "it is not")
    assert whats(node, "2") == ["started"]
    tell_over(node, "1", "2")


def test_beside_a_holder_without_steps_a_guest_is_slowed_and_not_stopped(node: Node) -> None:
    begin(node, stepping(node, "2", seat=THROTTLED))
    node.daemon.send(sleeping(node))
    node.daemon.next("started")
    wait_until(lambda: seen(node, "2")["duty"] == 5, "it is slowed")
    step = seen(node, "2")["step"]
    wait_until(lambda: seen(node, "2")["step"] > step, "it makes steps")
    tell_over(node, "1", "2")


def test_a_limit_of_its_own_is_there_again_after_a_throttle(node: Node) -> None:
    limited = {"memory_bytes": 1 << 30, "limit_bytes": 1 << 30}
    begin(node, stepping(node, "2", seat=THROTTLED, **limited))
    begin(node, stepping(node, **limited))
    with attach(node.run / "1.1.0.page") as holder, attach(node.run / "2.1.0.page") as guest:
        wait_until(lambda: is_held_back(guest), "it is held back")
        node.order("stop", "2")
        node.daemon.end("2")
        words = [task.firsts[0].words[layout.LIMIT] for task in (holder, guest)]
    assert words == [1 << 30, 1 << 30]
    tell_over(node, "1")


def test_what_is_measured_is_told_with_the_neighbours(node: Node) -> None:
    begin(node, stepping(node))

    def of(job: str, *neighbours: str) -> list[Message]:
        told = list(node.daemon.measured)
        return [each for each in told if (each["job"], each["neighbours"]) == (job, list(neighbours))]

    wait_until(lambda: bool(of("1")), "it is measured alone")
    alone = of("1")[0]
    assert (alone["attempt"], alone["generation"]) == (1, 1)
    assert 20 < alone["rate_hz"] < 2000
    assert 0 < alone["utilisation"] <= 1
    assert (alone["persistent_bytes"] > 1 << 20, alone["ephemeral_bytes"]) == (True, 0), (
        "all it has, as nobody serves it"
    )
    begin(node, stepping(node, "2", seat=GUEST))
    wait_until(lambda: bool(of("1", "2")) and bool(of("2", "1")), "both are measured beside each other")
    assert len(of("1")) == 1, "once a stretch"
    tell_over(node, "1", "2")


@pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library")
def test_a_job_that_grows_is_told_of_though_nothing_can_be_measured_of_its_rate(node: Node) -> None:
    begin(node, stepping(node, code=GROWING))

    def needs_bytes() -> int:
        return sum(seen(node).get("needs_bytes") or ())

    wait_until(lambda: needs_bytes() > 0, "what it needs is told")
    before_bytes = needs_bytes()
    (node.folder / "over-1").touch()
    wait_until(lambda: needs_bytes() - before_bytes >= 40 << 20, "that it has grown is told")
    assert seen(node)["generation"] == 1
    (node.folder / "over-1").unlink()
    assert node.daemon.end("1")["exit_code"] == 4


@pytest.fixture
def on_gpus(unstarted: Node) -> Node:
    """A node whose jobs cannot change their devices."""
    unstarted.start(devices="cuda", PYTHONPATH=str(Path(__file__).parent / "driver"))
    assert [device["kind"] for device in unstarted.await_hello()["devices"]] == ["cuda", "cuda"]
    return unstarted


def test_a_guest_that_can_save_and_cannot_move_is_ended_to_be_launched_elsewhere(on_gpus: Node) -> None:
    begin(on_gpus, stepping(on_gpus, code=RESUMABLE, seat=GUEST))
    on_gpus.daemon.send(stepping(on_gpus, code=RESUMABLE, generation=2, seat=GUEST, on=(1,)))
    left = on_gpus.daemon.end()
    assert (left["what"], left["generation"]) == ("left", 2)
    assert left["step"] > 0


def test_memory_that_nobody_can_see_is_not_told_as_none_at_all(on_gpus: Node) -> None:
    begin(on_gpus, stepping(on_gpus))
    wait_until(lambda: bool(on_gpus.daemon.measured), "it is measured")
    told = on_gpus.daemon.measured[0]
    assert (told["persistent_bytes"], told["ephemeral_bytes"]) == (None, None)
    assert told["utilisation"] == pytest.approx(0.4), "as the driver says"
    tell_over(on_gpus, "1")


def test_a_guest_that_can_neither_save_nor_move_stays_and_says_why(on_gpus: Node) -> None:
    begin(on_gpus, stepping(on_gpus, seat=GUEST))
    on_gpus.daemon.send(stepping(on_gpus, generation=2, seat=GUEST, on=(1,)))
    resumed = on_gpus.daemon.next("resumed")
    assert resumed["devices"] == [0]
    assert resumed["reason"] == "it was launched on 0, and stays there: it cannot save"
    on_gpus.daemon.send(sleeping(on_gpus, "2"))
    on_gpus.daemon.next("started", "2")
    tell_over(on_gpus, "1", "2")


def test_records_from_before_there_were_seats_are_adopted(node: Node) -> None:
    order = sleeping(node)
    node.daemon.send(order)
    node.daemon.next("started")
    node.kill()
    path: Path = node.home.task("1", 1, 0).parent / "attempt.json"
    older = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("seat", "lane")}
    path.write_text(json.dumps(older))
    node.restart(order)
    tell_over(node, "1")
