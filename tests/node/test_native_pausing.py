"""Pauses that give memory back, ordered by the daemon: with PyTorch, and the native library beneath it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from nodes import Message, Node, a_node

from waiting import wait_until
from weft.runtime.allocator import library_path

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library"),
]

MB = 1 << 20
ROOMY, TIGHT = 0, 1 << 50
# 200 MB that last; 200 MB that last no longer than a step.
LASTING = """
import os, sys, time, torch, weft
kept = torch.arange(50_000_000, dtype=torch.int32)
total = kept.sum()
while not os.path.exists(sys.argv[1]):
    with weft.step(): time.sleep(0.005)
print(torch.equal(kept, torch.arange(50_000_000, dtype=torch.int32)), bool(kept.sum() == total))
"""
PASSING = """
import os, sys, time, torch, weft
while not os.path.exists(sys.argv[1]):
    with weft.step():
        passing = torch.zeros(50_000_000, dtype=torch.int32).add_(1)
        del passing
    time.sleep(0.01)
"""


def begin(node: Node, code: str, **more: Any) -> Message:
    """Its progress once its memory is measured."""
    order = node.run_order(sys.executable, "-c", code, str(node.folder / "over"), **more)
    node.want(order)
    wait_until(lambda: seen(node).get("peak_bytes", 0) > 190 * MB, lambda: f"it is measured: {seen(node)}")
    return order


def seen(node: Node, job: str = "1") -> Message:
    found: Message = node.daemon.progress[-1]["jobs"].get(job, {}) if node.daemon.progress else {}
    return found


def pause(node: Node, needs_bytes: int) -> None:
    node.want({"type": "pause", "job": "1", "attempt": 1, "generation": 1, "needs_bytes": needs_bytes})


def budget_bytes(node: Node) -> int:
    return int(node.daemon.hellos[0]["devices"][0]["memory_bytes"])


def test_caches_are_dropped_where_that_makes_room_enough(node: Node) -> None:
    begin(node, PASSING)
    wait_until(lambda: seen(node)["ephemeral_bytes"] > 190 * MB and seen(node)["host_bytes"] > 300 * MB, "it steps")
    assert seen(node)["persistent_bytes"] < 10 * MB
    room_bytes = seen(node)["host_bytes"] - 100 * MB
    pause(node, budget_bytes(node) - room_bytes)
    paused = node.daemon.next("paused")
    assert (paused["how"], paused["depth"]) == ("boundary", "drop-caches")
    assert paused["held_bytes"] < room_bytes


def test_a_job_that_is_swapped_out_survives_its_coordinator_and_goes_on_unchanged(node: Node) -> None:
    order = begin(node, LASTING)
    assert seen(node)["can_swap"] is True
    assert seen(node)["persistent_bytes"] > 190 * MB
    before_bytes = seen(node)["host_bytes"]
    pause(node, TIGHT)
    paused = node.daemon.next("paused")
    assert (paused["how"], paused["depth"]) == ("boundary", "swap-out")
    assert paused["held_bytes"] < before_bytes - 150 * MB
    node.daemon.reports.clear()
    node.restart({"type": "pause", "job": "1", "attempt": 1, "generation": 2, "needs_bytes": TIGHT})
    again = node.daemon.next("paused")
    assert (again["depth"], again["held_bytes"] < before_bytes - 150 * MB) == ("swap-out", True)
    node.want({**order, "generation": 3})
    node.daemon.next("resumed")
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "True True\n"


def test_a_pause_goes_deeper_when_others_come_and_goes_on_unchanged(node: Node) -> None:
    """Its owner paused it, and it kept its memory until somebody needed the room."""
    order = begin(node, LASTING)
    pause(node, ROOMY)
    assert node.daemon.next("paused")["depth"] == "gate"
    held_bytes = seen(node)["host_bytes"]
    node.order("pause", needs_bytes=TIGHT, incoming=["2"])
    wait_until(lambda: seen(node)["host_bytes"] < held_bytes - 150 * MB, lambda: f"it is swapped out: {seen(node)}")
    node.order("pause", needs_bytes=ROOMY, incoming=["2", "3"])
    node.want({**order, "generation": 2})
    node.daemon.next("resumed")
    (node.folder / "over").touch()
    assert node.daemon.end()["exit_code"] == 0
    assert node.output() == "True True\n"


def test_what_pauses_is_part_of_what_the_same_job_needs_when_it_comes(node: Node) -> None:
    begin(node, LASTING)
    pause(node, ROOMY)
    assert node.daemon.next("paused")["depth"] == "gate"
    other = node.run_order(sys.executable, "-c", LASTING, str(node.folder / "over"), job="2")
    node.daemon.send(other)
    node.daemon.next("started", "2")
    wait_until(lambda: seen(node, "2").get("step", 0) > 100, "it holds what it needs")
    room_bytes = seen(node, "2")["host_bytes"] + 150 * MB
    node.order("pause", "2", needs_bytes=budget_bytes(node) - room_bytes, incoming=["1"])
    assert node.daemon.next("paused", "2")["depth"] == "gate", "though what job 1 holds would not fit besides"


def test_of_two_that_pause_at_once_the_second_makes_the_room_that_the_first_does_not(node: Node) -> None:
    begin(node, LASTING)
    other = node.run_order(sys.executable, "-c", LASTING, str(node.folder / "over"), job="2", seat={"guest": True})
    node.daemon.send(other)
    wait_until(lambda: seen(node, "2").get("peak_bytes", 0) > 190 * MB, "it is measured")
    room_bytes = seen(node, "1")["host_bytes"] + seen(node, "2")["host_bytes"] - 100 * MB
    for job in "12":
        node.order("pause", job, needs_bytes=budget_bytes(node) - room_bytes)
    assert {node.daemon.next("paused", job)["depth"] for job in "12"} == {"gate", "swap-out"}


def test_without_a_next_tier_nothing_is_swapped_out() -> None:
    with tempfile.TemporaryDirectory(prefix="weft-test-", dir="/dev/shm") as folder, a_node(Path(folder)) as node:
        node.start()
        node.await_hello()
        begin(node, LASTING)
        assert seen(node)["can_swap"] is False
        pause(node, TIGHT)
        assert node.daemon.next("paused")["depth"] in ("gate", "drop-caches")


def test_a_limit_is_the_allocators_and_the_rest_overflows(node: Node) -> None:
    asked = {"memory_bytes": 100 * MB, "limit_bytes": 100 * MB}
    node.want(node.run_order(sys.executable, "-c", LASTING, str(node.folder / "over"), **asked))
    wait_until(lambda: seen(node).get("overflow_bytes", 0) > 100 * MB, "it overflows")
    (node.folder / "over").touch()
    end = node.daemon.end()
    assert (end["exit_code"], node.output()) == (0, "True True\n")
    assert end["progress"]["overflow_bytes"] > 100 * MB
