"""Time only goes forward: over restarts, over reboots, and whatever is done to the machine's clock."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from weft.control import clock as clocks
from weft.control.clock import Clock, Mark

YEAR_S = 365 * 86_400.0
WALL = 1_700_000_000.0


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.up, self.boot = WALL, 1_000.0, "first"
        monkeypatch.setattr(clocks.time, "time", lambda: self.wall)
        monkeypatch.setattr(clocks, "boot_s", lambda: self.up)
        monkeypatch.setattr(clocks, "boot_id", lambda: self.boot)

    def pass_time(self, seconds: float) -> None:
        self.wall, self.up = self.wall + seconds, self.up + seconds

    def reboot(self, off_s: float) -> None:
        self.wall, self.up, self.boot = self.wall + off_s, 5.0, self.boot + "'"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_it_begins_with_the_wall_clock(machine: Machine) -> None:
    assert Clock().now() == WALL


def test_every_instant_is_later_than_the_one_before(machine: Machine) -> None:
    clock = Clock()
    instants = [clock.now() for _ in range(1_000)]
    assert all(before < after for before, after in pairwise(instants))
    assert instants[-1] == pytest.approx(WALL, abs=0.01)


@pytest.mark.parametrize("jump_s", [-YEAR_S, YEAR_S])
def test_setting_the_wall_clock_changes_nothing_while_it_runs(machine: Machine, jump_s: float) -> None:
    clock = Clock()
    machine.wall += jump_s
    machine.pass_time(10.0)
    assert clock.now() == WALL + 10.0


@pytest.mark.parametrize("jump_s", [-YEAR_S, 0.0, YEAR_S])
def test_a_restart_counts_on_from_the_mark(machine: Machine, jump_s: float) -> None:
    clock = Clock()
    mark = clock.mark(clock.now())
    machine.wall += jump_s
    machine.pass_time(60.0)
    assert Clock(mark).now() == pytest.approx(WALL + 60.0)


def test_after_a_reboot_the_wall_clock_tells_how_long_the_machine_was_off(machine: Machine) -> None:
    clock = Clock()
    mark = clock.mark(clock.now())
    machine.reboot(off_s=3_600.0)
    assert Clock(mark).now() == WALL + 3_600.0


@pytest.mark.parametrize("jump_s", [-YEAR_S, -1.0])
def test_after_a_reboot_with_the_clock_set_back_time_goes_on(machine: Machine, jump_s: float) -> None:
    clock = Clock()
    mark = clock.mark(clock.now())
    machine.reboot(off_s=0.0)
    machine.wall += jump_s
    after = Clock(mark)
    first = after.now()
    assert WALL < first < WALL + 1.0
    machine.pass_time(10.0)
    assert after.now() == pytest.approx(first + 10.0)


def test_a_year_too_far_is_never_taken_back(machine: Machine) -> None:
    machine.wall += YEAR_S
    clock = Clock()
    mark = clock.mark(clock.now())
    machine.wall -= YEAR_S
    machine.reboot(off_s=60.0)
    assert Clock(mark).now() > mark.at


def test_a_mark_of_this_boot_from_the_future_is_not_trusted(machine: Machine) -> None:
    """As after a machine was put back to an earlier image."""
    after = Clock(Mark(WALL + 500.0, "first", machine.up + 500.0))
    assert after.now() > WALL + 500.0


def test_looking_does_not_move_it(machine: Machine) -> None:
    clock = Clock()
    assert clock.peek() == clock.peek() == WALL
    at = clock.now()
    assert clock.peek() == at
    machine.pass_time(1.0)
    assert clock.peek() == WALL + 1.0


def test_the_real_clocks_agree_to_a_second() -> None:
    assert Clock().now() == pytest.approx(time.time(), abs=1.0)
    assert len(clocks.boot_id()) == 36
