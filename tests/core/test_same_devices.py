"""A job that goes on gets the devices it had last, where it may still be in memory, if it can have them."""

from __future__ import annotations

from core_helpers import Make, Script, eviction, grant, started, submitted

from weft.core.events import Finished
from weft.core.plan import Plan


def test_a_job_gets_the_devices_it_had_last_if_they_are_free(make: Make) -> None:
    scheduler = make(
        Script(
            Plan([grant("other", (0, 2)), grant("a", (0, 2))]),
            Plan([], [eviction("a")]),
            Plan([grant("a", (0, 2))]),
        ),
        4,
    )
    first = started(scheduler.handle([submitted("other", 2), submitted("a", 2)], 0.0))
    assert first["a"] == ((0, 0b1100),)
    scheduler.handle([Finished("other", 1)], 1.0)
    assert started(scheduler.handle([], 2.0)) == {"a": ((0, 0b1100),)}


def test_it_gets_the_lowest_free_ones_if_one_of_them_is_taken(make: Make) -> None:
    scheduler = make(
        Script(
            Plan([grant("a", (0, 2))]),
            Plan([grant("b", (0, 1))], [eviction("a")]),
            Plan([grant("a", (0, 2))]),
        ),
        4,
    )
    scheduler.handle([submitted("a", 2), submitted("b")], 0.0)
    assert started(scheduler.handle([], 1.0)) == {"b": ((0, 0b0001),)}
    assert started(scheduler.handle([], 2.0)) == {"a": ((0, 0b0110),)}


def test_on_another_node_what_it_had_means_nothing(make: Make) -> None:
    scheduler = make(
        Script(
            Plan([grant("other", (0, 1)), grant("a", (0, 1))]),
            Plan([grant("a", (1, 1))], [eviction("a")]),
        ),
        2,
        2,
    )
    scheduler.handle([submitted("other"), submitted("a")], 0.0)
    assert started(scheduler.handle([], 1.0)) == {"a": ((1, 0b01),)}


def test_a_gang_over_two_nodes_gets_its_devices_of_each_again(make: Make) -> None:
    scheduler = make(
        Script(
            Plan([grant("x", (0, 1)), grant("a", (0, 1), (1, 2))]),
            Plan([], [eviction("a")]),
            Plan([grant("a", (0, 1), (1, 2))]),
        ),
        2,
        2,
    )
    scheduler.handle([submitted("x"), submitted("a", 3)], 0.0)
    scheduler.handle([Finished("x", 1)], 1.0)
    assert started(scheduler.handle([], 2.0)) == {"a": ((0, 0b10), (1, 0b11))}
