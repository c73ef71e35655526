"""The throttle on real tasks: it gates, paces, limits, and leaves a task as it found it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from underweft import Running, under_weft
from waiting import wait_until
from weft.node.devices import sched_idle
from weft.node.exec.command_limits import FOLDERS_ON_DISK
from weft.node.sharing.throttle import SeatedGuest, StepDurations, Throttle
from weft.node.sharing.throttle_state import GuestSetting, ThrottleSetting
from weft.node.task.handle import Task
from weft.runtime.allocator import library_path
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth

pytestmark = pytest.mark.torch

MB = 1 << 20
STEPPING = """
import time, weft
while True:
    with weft.step(): time.sleep(0.002)
"""
BURSTING = """
import os, sys, time, torch, weft
while True:
    size = 40 if os.path.exists(sys.argv[1]) else 12
    with weft.step():
        passing = torch.zeros(size << 18).add_(1)
        del passing
    time.sleep(0.002)
"""


@pytest.fixture
def two() -> Iterator[tuple[Running, Running]]:
    with ExitStack() as stack:
        command = (sys.executable, "-c", STEPPING)
        holder, guest = (stack.enter_context(under_weft(*command)) for _ in range(2))
        for each in (holder, guest):
            each.wait_for_steps()
        yield holder, guest


def duty(task: Task) -> int:
    return int(task.firsts[0].words[layout.DUTY])


def tick_until(throttle: Throttle, reason: str) -> ThrottleSetting:
    seen: list[ThrottleSetting] = []

    def is_reached() -> bool:
        seen.append(throttle.tick(time.monotonic()))
        return seen[-1].reason == reason

    wait_until(is_reached, reason)
    return seen[-1]


def test_the_guest_stands_still_while_the_holder_is_learnt_then_is_paced(two: tuple[Running, Running]) -> None:
    holder, guest = (each.task for each in two)
    with Throttle(holder) as throttle:
        throttle.add(SeatedGuest("2", guest))
        assert throttle.tick(time.monotonic()).guests["2"].duty == 0
        wait_until(lambda: guest.status().state == "paused", "the guest stands")
        setting = tick_until(throttle, "sharing")
        assert setting.guests["2"].duty == duty(guest) == 5
        step = guest.step
        wait_until(lambda: guest.step > step, "the guest goes on")
    assert duty(guest) == 100
    assert guest.wanted == Depth.RUN


def test_a_guest_that_leaves_while_it_is_gated_runs_on(two: tuple[Running, Running]) -> None:
    holder, guest = (each.task for each in two)
    throttle = Throttle(holder)
    throttle.add(SeatedGuest("2", guest))
    throttle.tick(time.monotonic())
    assert guest.wanted == Depth.GATE
    throttle.remove("2")
    assert guest.wanted == Depth.RUN
    assert throttle.tick(time.monotonic()).guests == {}


def test_what_somebody_else_asks_of_a_gated_guest_stands(two: tuple[Running, Running]) -> None:
    holder, guest = (each.task for each in two)
    throttle = Throttle(holder)
    throttle.add(SeatedGuest("2", guest))
    throttle.tick(time.monotonic())
    guest.firsts[0].ask(Depth.DROP_CACHES)
    throttle.remove("2")
    assert guest.wanted == Depth.DROP_CACHES


@pytest.mark.skipif(bool(sched_idle.why_not([os.getpid()])), reason="what is idle here stays so")
def test_on_cores_a_guest_is_in_the_idle_class_as_long_as_it_is_one(two: tuple[Running, Running]) -> None:
    holder, guest = (each.task for each in two)
    with Throttle(holder, on_cores=True) as throttle:
        throttle.add(SeatedGuest("2", guest))
        assert tick_until(throttle, "sharing").guests["2"].duty == 100
        assert {os.sched_getscheduler(each) for each in guest.roots} == {os.SCHED_IDLE}
        assert {os.sched_getscheduler(each) for each in holder.roots} == {os.SCHED_OTHER}
    assert {os.sched_getscheduler(each) for each in guest.roots} == {os.SCHED_OTHER}


def test_a_guest_or_a_holder_that_ends_is_no_error(two: tuple[Running, Running]) -> None:
    with Throttle(two[0].task) as throttle:
        throttle.add(SeatedGuest("2", two[1].task))
        tick_until(throttle, "sharing")
        for each in reversed(two):
            each.process.terminate()
            each.process.wait()
            throttle.tick(time.monotonic())


def test_a_guest_never_has_more_than_its_own_limit(two: tuple[Running, Running]) -> None:
    task = two[1].task
    seated = SeatedGuest("2", task, own_bytes=8 * MB)
    for given_bytes, has_bytes in ((64 * MB, 8 * MB), (4 * MB, 4 * MB)):
        seated.obey(GuestSetting(100, given_bytes))
        assert task.firsts[0].words[layout.LIMIT] == has_bytes
    seated.free()
    assert task.firsts[0].words[layout.LIMIT] == 8 * MB


def test_each_step_is_seen_once(two: tuple[Running, Running]) -> None:
    task = two[0].task
    steps = StepDurations(task)
    steps.new_durations_s()
    task.pause()
    before = task.step
    steps.new_durations_s()
    task.pause(at_step=before + 10)
    assert len(steps.new_durations_s()) == 10
    assert steps.new_durations_s() == ()


@pytest.mark.skipif(library_path() is None, reason="weft was installed without its native library")
def test_a_burst_of_the_holder_shrinks_the_guest_and_nobody_fails(tmp_path: Path) -> None:
    burst = tmp_path / "burst"
    with ExitStack() as stack:
        options = ("--overflow", FOLDERS_ON_DISK[0])
        jobs = [
            stack.enter_context(under_weft(sys.executable, "-c", BURSTING, str(path), options=options))
            for path in (burst, "/nowhere")
        ]
        holder, guest = (each.task for each in jobs)
        wait_until(lambda: all(each.has_steps and each.task.step > 40 for each in jobs), "both step")
        with Throttle(holder, 44 * MB, own_bytes=43 * MB) as throttle:
            throttle.add(SeatedGuest("2", guest))
            before = tick_until(throttle, "sharing")
            wait_until(lambda: throttle.tick(time.monotonic()) and not throttle.is_burst_seen, "its steps are alike")
            burst.touch()
            wait_until(lambda: throttle.is_burst_seen, "it is seen between two ticks")
            wait_until(lambda: _holder_limit(throttle) >= 42 * MB, "the holder has grown")
            after = throttle.tick(time.monotonic())
            assert before.holder_limit_bytes is not None
            assert (before.guests["2"].limit_bytes or 0) > (after.guests["2"].limit_bytes or 0) > 0
            assert guest.firsts[0].words[layout.LIMIT] == after.guests["2"].limit_bytes
            assert holder.firsts[0].words[layout.LIMIT] <= 43 * MB
            step = holder.step
            wait_until(lambda: holder.step > step + 40 and not holder.status().ranks[0].overflow_bytes, "on the device")
        assert all(each.is_running for each in jobs)
        assert holder.firsts[0].words[layout.LIMIT] == 43 * MB, "as before"


def _holder_limit(throttle: Throttle) -> int:
    return throttle.tick(time.monotonic()).holder_limit_bytes or 0
