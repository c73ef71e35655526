"""Training loops written at random, run for real: which of their updates weft takes for the end of an iteration.

In each iteration one optimizer, the anchor, is stepped once. Others are stepped before it (once, in some iterations) or
after it (any number of times, in some iterations), always in the same order. The code says that, so it can be
known: each iteration is counted once, whatever the pattern; and where that is periodic, the ends are foretold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.runtime.hooks.step_cycle import Cycle

pytestmark = pytest.mark.unit

WARM_UP = 30  # iterations of an optimizer's absence, at most
LEARNT = 400  # iterations after which a period of at most 12 is known


class Watched:
    """Takes the updates of a script, as the hook of PyTorch's optimizers does."""

    def __init__(self) -> None:
        self.cycle = Cycle()
        self.iteration = 0
        self.phase = 0
        self.counted = 0
        self.updates: list[tuple[int, bool]] = []  # the iteration of each, and whether it was taken for its end

    def step(self, optimizer: str, is_with_backward: bool = True) -> None:
        self.phase += is_with_backward
        missed, closes = self.cycle.note(optimizer, self.phase, self.cycle.sites.at(sys._getframe(1)))
        self.counted += missed + closes
        self.updates.append((self.iteration, closes))

    @property
    def total(self) -> int:
        return self.counted + self.cycle.is_open

    def early(self, since: int) -> int:
        """How often, from an iteration on, an end was seen where the iteration went on."""
        following = zip(self.updates, self.updates[1:], strict=False)
        return sum(closes and at == after and at > since for (at, closes), (after, _) in following)

    def ends_seen(self, since: int) -> int:
        return len({at for at, closes in self.updates if closes and at > since})


@dataclass(frozen=True)
class Other:
    """An optimizer beside the anchor: in which iterations, how often, and how the script steps it."""

    every: int
    since: int
    until: int
    times: int
    chances: tuple[bool, ...] = ()

    def is_due(self, iteration: int) -> bool:
        if self.chances:
            return self.chances[iteration % len(self.chances)]
        return self.since <= iteration < self.until and iteration % self.every == 0


def others(most_times: int, irregular: bool = False) -> st.SearchStrategy[Other]:
    chances = st.lists(st.booleans(), min_size=400, max_size=400).map(tuple) if irregular else st.just(())
    until = st.sampled_from([10**9, 10**9, 200])
    return st.builds(Other, st.integers(1, 4), st.integers(0, WARM_UP), until, st.integers(1, most_times), chances)


def script(before: list[Other], after: list[Other], style: str) -> str:
    """The source of a training loop. Its styles: all in one loop, with functions, after each other in one place."""
    anchor = ["step('anchor')"]
    blocks = [_block(f"b{i}", other, f"before[{i}]") for i, other in enumerate(before)]
    tail = [_block(f"a{i}", other, f"after[{i}]") for i, other in enumerate(after)]
    if style == "together" and after:
        names = ", ".join(f"'a{i}'" for i in range(len(after)))
        loops = [f"    for _ in range({after[0].times}):", f"        for name in ({names},):", "            step(name)"]
        tail = [["if after[0].is_due(i):", *loops]]
    if style == "functions":
        return _with_functions([*blocks, anchor, *tail])
    if style == "guarded":
        anchor = [
            "with open('/dev/null'):",
            "    try:",
            "        step('anchor')",
            "    except KeyError:",
            "        continue",
        ]
    lines = [line for block in [*blocks, anchor, *tail] for line in block]
    loop = "while watched.iteration < iterations:" if style == "while" else "for _ in range(iterations):"
    body = ["watched.iteration += 1", "i = watched.iteration", *lines]
    return "\n".join(["def run():", "    " + loop, *("        " + line for line in body)])


def _block(name: str, other: Other, told: str) -> list[str]:
    call = f"step('{name}')"
    if other.times == 1:
        return [f"if {told}.is_due(i):", f"    {call}"]
    return [f"if {told}.is_due(i):", f"    for _ in range({other.times}):", f"        {call}"]


def _with_functions(blocks: list[list[str]]) -> str:
    lines = []
    for number, block in enumerate(blocks):
        lines += [f"def part{number}(i):", *("    " + line for line in block)]
    lines += ["def iterate(i):", *(f"    part{number}(i)" for number in range(len(blocks)))]
    lines += [
        "def run():",
        "    for i in range(1, iterations + 1):",
        "        watched.iteration = i",
        "        iterate(i)",
    ]
    return "\n".join(lines)


def run(source: str, iterations: int, **names: Any) -> Watched:
    watched = Watched()
    scope: dict[str, Any] = {"watched": watched, "step": watched.step, "iterations": iterations, **names}
    exec(compile(source, "script.py", "exec"), scope)  # noqa: S102 -- the script that was just written
    scope["run"]()
    return watched


STYLES = st.sampled_from(["plain", "while", "guarded", "functions", "together"])


@settings(max_examples=40, deadline=None)
@given(st.lists(others(1), max_size=2), st.lists(others(3), max_size=3), STYLES)
@example([], [Other(2, 0, 10**9, 2), Other(2, 0, 10**9, 2)], "together")
def test_periodic_rounds_are_counted_and_their_ends_foretold(
    before: list[Other], after: list[Other], style: str
) -> None:
    watched = run(script(before, after, style), 700, before=before, after=after)
    assert watched.total == 700
    assert watched.early(LEARNT) == 0
    assert watched.ends_seen(LEARNT) >= 298


@settings(max_examples=25, deadline=None)
@given(
    st.lists(others(1, irregular=True), max_size=2), st.lists(others(3, irregular=True), min_size=1, max_size=2), STYLES
)
def test_irregular_rounds_are_counted_and_have_an_end_now_and_then(
    before: list[Other], after: list[Other], style: str
) -> None:
    watched = run(script(before, after, style), 400, before=before, after=after)
    assert watched.total == 400
    assert watched.ends_seen(100) >= 300 // 6


Step = Callable[..., None]


def several_critic_updates_count_each(step: Step) -> None:
    for _ in range(10):
        for _ in range(3):
            step("critic")
        step("generator")


def one_loop_after_the_other(step: Step) -> None:
    for _ in range(12):
        step("a")
    for _ in range(18):
        step("a")


def two_loops_in_each_epoch(step: Step) -> None:
    for _ in range(3):
        for _ in range(6):
            step("a")
        for _ in range(4):
            step("b")


def an_update_before_the_loop(step: Step) -> None:
    step("a")
    for _ in range(29):
        step("a")


def gradients_left_over_at_the_end_of_an_epoch(step: Step) -> None:
    for _ in range(5):
        for _ in range(5):
            step("a")
        step("a")


def twice_in_an_iteration_as_for_sharpness_aware_minimization(step: Step) -> None:
    for _ in range(30):
        step("a")
        step("a")


def several_temperature_updates(step: Step) -> None:
    for _ in range(30):
        step("q")
        step("policy")
        for _ in range(3):
            step("alpha")


def a_loop_over_the_optimizers(step: Step) -> None:
    for _ in range(30):
        for name in "abc":
            step(name, is_with_backward=name == "a")


def a_loop_in_c(step: Step) -> None:
    def iterate(_: int) -> None:
        step("d")
        step("g")

    list(map(iterate, range(30)))


def an_optimizer_that_comes_later_and_one_that_leaves(step: Step) -> None:
    for i in range(30):
        if i < 20:
            step("a")
        step("b")
        if i > 10:
            step("c")


def trials_with_an_optimizer_each_some_given_up_at_once(step: Step) -> None:
    for trial, steps in enumerate([8, 8, 1, 1, 8, 1, 1, 1, 1]):
        for _ in range(steps):
            step(trial)


SCRIPTS = [
    (several_critic_updates_count_each, 30),
    (one_loop_after_the_other, 30),
    (two_loops_in_each_epoch, 30),
    (an_update_before_the_loop, 30),
    (gradients_left_over_at_the_end_of_an_epoch, 30),
    (twice_in_an_iteration_as_for_sharpness_aware_minimization, 30),
    (several_temperature_updates, 30),
    (a_loop_over_the_optimizers, 30),
    (a_loop_in_c, 30),
    (an_optimizer_that_comes_later_and_one_that_leaves, 30),
    (trials_with_an_optimizer_each_some_given_up_at_once, 30),
]


@pytest.mark.parametrize(("train", "steps"), SCRIPTS, ids=[train.__name__ for train, _ in SCRIPTS])
def test_a_script_is_counted_by_its_loops(train: Callable[[Step], None], steps: int) -> None:
    watched = Watched()
    train(watched.step)
    assert watched.total == steps
