"""Packed pairs on a real coordinator: each job is set against itself alone, in one window, whatever the load does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nodes import Message, Node
from test_company import GUEST, HOLDER, begin, tell_over

from waiting import wait_until
from weft.core.gain import Outcome, Share, judge
from weft.node.task.handle import attach
from weft.runtime.page.layout import Depth

LOADED = """
import os, sys, time, weft
over, load = sys.argv[1:]
while not os.path.exists(over):
    with weft.step(): time.sleep(0.08 if os.path.exists(load) else 0.02)
sys.exit(4)
"""
"""A step takes as long as the machine's load makes it; beside each other they cost each other nothing."""


def loaded(node: Node, job: str, seat: Message) -> Message:
    over, load = str(node.folder / f"over-{job}"), str(node.folder / "load")
    return node.run_order(sys.executable, "-c", LOADED, over, load, job=job, seat=seat)


def compared(node: Node, job: str) -> list[Message]:
    return [each for each in list(node.daemon.measured) if each["job"] == job and each.get("error") is not None]


def is_gated(node: Node, job: str) -> bool:
    with attach(node.run / f"{job}.1.0.page") as task:
        return task.wanted == Depth.GATE


def shares(node: Node) -> list[Share]:
    """As the two were told of in the first window."""
    wait_until(lambda: bool(compared(node, "1")) and bool(compared(node, "2")), "both are compared")
    told = [compared(node, "1")[0], compared(node, "2")[0]]
    assert told[0]["window"] == told[1]["window"] > 0
    assert [each["neighbours"] for each in told] == [["2"], ["1"]]
    return [Share(each["rate_hz"] / (each["alone_hz"] or float("nan")), each["error"]) for each in told]


def test_two_that_do_not_slow_each_other_are_kept_and_both_compute_on(node: Node) -> None:
    begin(node, loaded(node, "1", HOLDER), loaded(node, "2", GUEST))
    gain = judge(shares(node), margin=0.05)
    assert gain.outcome is Outcome.KEEP, gain
    assert abs(gain.total - 2.0) <= max(0.1, gain.half_width), gain
    assert not is_gated(node, "1")
    assert not is_gated(node, "2")
    tell_over(node, "1", "2")


@pytest.mark.parametrize("rises", [True, False])
def test_a_load_that_changes_meanwhile_makes_for_no_impossible_gain(node: Node, rises: bool) -> None:
    load = Path(node.folder / "load")
    if not rises:
        load.touch()
    begin(node, loaded(node, "1", HOLDER), loaded(node, "2", GUEST))
    for standing in ("2", "1"):  # the holder has been alone, and now the guest is
        wait_until(lambda job=standing: is_gated(node, job), "it stands for the other")  # type: ignore[misc]
    load.touch() if rises else load.unlink()
    gain = judge(shares(node), margin=0.05)
    assert gain.outcome in (Outcome.KEEP, Outcome.UNSURE), gain
    assert gain.total <= 2.1
    assert abs(gain.total - 2.0) <= max(0.1, gain.half_width), gain
    tell_over(node, "1", "2")


def test_who_is_to_pause_while_it_stands_for_the_other_pauses_and_goes_on(node: Node) -> None:
    guest = loaded(node, "2", GUEST)
    begin(node, loaded(node, "1", HOLDER), guest)
    wait_until(lambda: is_gated(node, "2"), "it stands for its holder")
    node.order("pause", "2", needs_bytes=0)
    node.daemon.next("paused", "2")
    wait_until(lambda: not is_gated(node, "1"), "the holder computes")
    node.daemon.send({**guest, "generation": 2})
    node.daemon.next("resumed", "2")
    tell_over(node, "1", "2")


@pytest.mark.parametrize("standing", ["1", "2"])
def test_a_coordinator_that_is_killed_leaves_nobody_standing_for_good(node: Node, standing: str) -> None:
    orders = [loaded(node, "1", HOLDER), loaded(node, "2", GUEST)]
    begin(node, *orders)
    wait_until(lambda: is_gated(node, standing), "it stands for the other")
    node.kill()
    with attach(node.run / f"{standing}.1.0.page") as task:
        stood_at = task.step
        node.restart(*orders)
        wait_until(lambda: task.step > stood_at + 1, "it goes on")
    tell_over(node, "1", "2")


def test_a_coordinator_that_leaves_lets_both_compute(node: Node) -> None:
    begin(node, loaded(node, "1", HOLDER), loaded(node, "2", GUEST))
    wait_until(lambda: is_gated(node, "1"), "it stands for its guest")
    node.daemon.on_hello = list
    node.daemon.send({"type": "leave"})
    assert node.process is not None
    node.process.wait()
    assert not is_gated(node, "1")
    assert not is_gated(node, "2")
    for job in "12":
        os.close(os.open(node.folder / f"over-{job}", os.O_CREAT))
