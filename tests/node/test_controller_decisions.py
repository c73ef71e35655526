"""What the throttling controller decided in worlds drawn from a seed, recorded: a refactoring changes none of it.

python tests/node/test_controller_decisions.py --record
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.node.sharing.throttle_controller import FIRST_DUTY, adjust
from weft.node.sharing.throttle_state import ControllerState, GuestSample, ThrottleSample, ThrottleSetting

RECORDED = Path(__file__).with_name("recorded") / "controller.txt"
SEEDS, TICKS = range(6), 1500
MB = 1 << 20
HARMS = (0.0, 0.0, 0.01, 0.03, 0.1, 0.5, 2.0, -0.05)


class World:
    """A holder whose speed, need of memory and harm by guests leap, and guests that come and go."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.capacity_bytes = (0, 200 * MB, 100 * MB)[seed % 3]
        self.guests: dict[str, tuple[bool, int]] = {}
        self.harm, self.step_s, self.needed_bytes, self.stalled_ticks, self.came = 0.0, 0.05, 20 * MB, 0, 0

    def change(self) -> None:
        drawn = self.chance.random()
        if drawn < 0.004 or not self.guests:
            self.came += 1
            self.guests[str(self.came)] = (self.chance.random() < 0.3, self.chance.choice((0, 1)))
        elif drawn < 0.006:
            del self.guests[self.chance.choice(sorted(self.guests))]
        elif drawn < 0.02:
            self.harm = self.chance.choice(HARMS)
        elif drawn < 0.022:
            self.stalled_ticks = self.chance.choice((5, 50, 400))
        elif drawn < 0.028:
            self.step_s = self.chance.choice((0.02, 0.05, 0.06, 0.4))
        elif drawn < 0.032:
            self.needed_bytes = self.chance.choice((20, 24, 60)) * MB

    def sample(self, duties: dict[str, int]) -> ThrottleSample:
        duty = min(1.0, sum(duties.get(name, FIRST_DUTY) for name in self.guests) / 100)
        durations_s: list[float] = []
        self.stalled_ticks = max(0, self.stalled_ticks - 1)
        while not self.stalled_ticks and sum(durations_s) < 0.1:
            durations_s.append(self.step_s * self.chance.uniform(0.98, 1.02) * (1 + self.harm * duty))
        lasted_s = max(0.1, sum(durations_s))
        guests = tuple(
            GuestSample(name, duties.get(name) == 0, 4 * MB, 30 * MB, is_idle=is_idle, lane=lane)
            for name, (is_idle, lane) in self.guests.items()
        )
        return ThrottleSample(tuple(durations_s), None, lasted_s, self.needed_bytes, guests)


def decisions(seed: int) -> Iterator[str]:
    """A line for each tick at which something else was set than before."""
    world, state, now_s, before = World(seed), ControllerState(), 0.0, ""
    duties: dict[str, int] = {}
    for tick in range(TICKS):
        world.change()
        sample = world.sample(duties)
        now_s += sample.lasted_s
        state, setting = adjust(state, sample, now_s, world.capacity_bytes)
        duties = {name: each.duty for name, each in setting.guests.items()}
        said = _said(setting)
        if said != before:
            yield f"{seed} {tick} {said}"
        before = said


def _said(setting: ThrottleSetting) -> str:
    guests = (f"{name}:{each.duty}/{each.limit_bytes}" for name, each in setting.guests.items())
    return f"{setting.reason} {setting.holder_limit_bytes} {' '.join(guests)}"


def recorded() -> list[str]:
    return RECORDED.read_text().splitlines()


@pytest.mark.parametrize("seed", SEEDS)
def test_decisions_are_as_recorded(seed: int) -> None:
    assert list(decisions(seed)) == [line for line in recorded() if line.startswith(f"{seed} ")]


if __name__ == "__main__" and "--record" in sys.argv:
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text("".join(f"{line}\n" for seed in SEEDS for line in decisions(seed)))
