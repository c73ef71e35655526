"""Devices that are somebody else's for now are not granted; those in use are left to who has them."""

from __future__ import annotations

import pytest
from core_helpers import Make, running, started, submitted

from weft.core.errors import IllegalEventError
from weft.core.events import DevicesBlocked, Finished, NodeJoined, NodeLost
from weft.core.values import Node
from weft.policies.registry import POLICIES


@pytest.mark.parametrize("name", POLICIES)
def test_a_blocked_device_is_not_granted_until_it_is_free_again(make: Make, name: str) -> None:
    scheduler = make(name, 2)
    scheduler.handle([DevicesBlocked("n0", 0b01)], 0.0)
    commands = scheduler.handle([submitted("a", declared_steps=9.0), submitted("b", declared_steps=9.0)], 1.0)
    assert list(started(commands).values()) == [((0, 0b10),)]
    assert list(started(scheduler.handle([DevicesBlocked("n0", 0)], 2.0)).values()) == [((0, 0b01),)]


@pytest.mark.parametrize("name", POLICIES)
def test_a_gang_waits_while_too_many_devices_are_blocked(make: Make, name: str) -> None:
    scheduler = make(name, 4)
    scheduler.handle([DevicesBlocked("n0", 0b0110)], 0.0)
    assert not started(scheduler.handle([submitted("a", 3, declared_steps=9.0)], 1.0))
    assert str(scheduler.reason("a", 1.0))
    assert started(scheduler.handle([DevicesBlocked("n0", 0b0100)], 2.0)) == {"a": ((0, 0b1011),)}


def test_a_held_device_stays_with_its_job(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([DevicesBlocked("n0", 0b11)], 1.0)
    assert running(scheduler) == {"a"}
    assert scheduler.ledger.blocked_masks == [0b10]


def test_saying_the_same_again_changes_nothing(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([DevicesBlocked("n0", 0b01)], 0.0)
    version = scheduler.ledger.version
    scheduler.handle([DevicesBlocked("n0", 0b01)], 1.0)
    assert scheduler.ledger.version == version


def test_bits_beyond_the_last_device_mean_nothing(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([DevicesBlocked("n0", 0b1101)], 0.0)
    assert (scheduler.ledger.free_counts, scheduler.ledger.blocked_masks) == ([1], [0b01])


def test_blocked_devices_of_a_lost_node_are_gone_with_it(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([DevicesBlocked("n0", 0b11)], 0.0)
    scheduler.handle([NodeLost("n0")], 1.0)
    scheduler.handle([NodeJoined(Node("n0", 2))], 2.0)
    assert started(scheduler.handle([submitted("a", 2)], 3.0)) == {"a": ((1, 0b11),)}


def test_devices_of_a_node_that_is_not_there_cannot_be_blocked(make: Make) -> None:
    with pytest.raises(IllegalEventError, match="DevicesBlocked names n7, a node that is not there"):
        make("fifo", 1).handle([DevicesBlocked("n7", 1)], 0.0)


def test_a_device_blocked_while_it_was_held_is_blocked_by_the_next_word_after_its_job(make: Make) -> None:
    """In one instant: the end of the job comes first, so nobody slips in between."""
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    assert not started(scheduler.handle([DevicesBlocked("n0", 1), Finished("a", 1)], 1.0))
