"""Which of several optimizers ends a step, learnt from the order in which they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.runtime.hooks.step_cycle import Cycle

pytestmark = pytest.mark.unit


def boundaries(updates: str) -> tuple[int, str]:
    """Steps counted, and the updates that were boundaries as capitals. A space begins a phase: a backward pass."""
    cycle, phase, count, shown = Cycle(), 1, 0, ""
    for update in updates:
        if update == " ":
            phase += 1
            shown += " "
            continue
        missed, closes = cycle.note(update, phase)
        count += missed + closes
        shown += update.upper() if closes else update
    return count + cycle.is_open, shown


def test_one_optimizer_ends_every_step_from_the_second_on() -> None:
    assert boundaries("a a a a") == (4, "a A A A")


def test_a_single_step_is_counted_at_the_end() -> None:
    assert boundaries("a") == (1, "a")


def test_in_a_gan_the_second_optimizer_ends_the_step() -> None:
    assert boundaries("d g d g d g") == (3, "d g d G d G")


def test_two_optimizers_after_one_backward_end_it_together() -> None:
    assert boundaries("ed ed ed") == (3, "ed eD eD")


def test_an_optimizer_left_out_at_times_does_not_hold_up_the_others() -> None:
    assert boundaries("ed d ed d ed") == (5, "ed D eD D eD")
    assert boundaries("de d de d de d") == (6, "de d dE D dE D")


def test_optimizers_inside_backward_end_it_with_the_one_that_always_comes_last() -> None:
    assert boundaries("cba ca ba cba") == (4, "cba cA bA cbA")


def test_a_critic_with_several_updates_counts_each_of_them() -> None:
    assert boundaries("c c c g c c c g c c c g") == (9, "c C C g C C C g C C C g")


def test_a_new_optimizer_takes_over() -> None:
    assert boundaries("a a a b b b") == (6, "a A A b B B")


def test_a_late_comer_becomes_the_one_that_ends_a_step() -> None:
    assert boundaries("a a ab ab ab") == (5, "a A Ab aB aB")


@given(st.permutations("abcdef"), st.integers(1, 6), st.integers(1, 12), st.sets(st.integers(1, 5)))
def test_a_fixed_round_is_counted_exactly_and_ends_with_its_last(
    order: list[str], size: int, rounds: int, backwards: set[int]
) -> None:
    """However many members, and wherever backward passes lie between them."""
    members = order[:size]
    one = "".join(" " * (i in backwards) + member for i, member in enumerate(members))
    count, shown = boundaries(" ".join([one] * rounds))
    assert count == rounds
    ends = [letter for letter in shown if letter.isupper()]
    assert ends == [members[-1].upper()] * (rounds - 1)


@given(st.lists(st.sets(st.sampled_from("bcd")), max_size=30))
def test_members_left_out_at_random_cost_at_most_a_boundary_now_and_then(chosen: list[set[str]]) -> None:
    """One backward a round, its members in a fixed order, `a` always last: never more steps than rounds."""
    rounds = ["".join(sorted(some)) + "z" for some in chosen]
    count, _ = boundaries(" ".join(rounds))
    assert count <= len(rounds)
    assert count >= len(rounds) - 1
