"""A guest computes on devices that it does not hold: what it is charged, and what becomes of its seat."""

from __future__ import annotations

import math

import pytest
from core_helpers import BECAUSE, Make, eviction, grant, picture, running, started, submitted, wakes
from sharing_helpers import (
    FIRST,
    NODE,
    SECOND,
    Host,
    a_guest_beside_a_holder,
    guests,
    offer,
    unseated,
    withdrawal,
)

from weft.core.commands import Seat, Seating, Start, Tell, Unseat
from weft.core.errors import PlanRejectedError
from weft.core.events import (
    Finished,
)
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, Sharing
from weft.core.transitions import State

# ---- sitting down


def test_a_guest_sits_beside_a_holder_and_still_waits_for_devices_of_its_own(make: Make) -> None:
    host = Host([Plan([grant("holder", (0, 1))])], [Sharing([offer("guest", speed=0.5)])])
    scheduler = make(host, NODE)
    commands = scheduler.handle([submitted(name, memory_bytes=30) for name in ("holder", "guest")], 0.0)
    assert commands == [
        Start("holder", 1, FIRST, BECAUSE),
        Seat("guest", 1, Seating(FIRST, speed=0.5), BECAUSE),
    ]
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.state, guest.is_waiting, guest.is_computing) == (State.PENDING, True, True)
    assert (scheduler.ledger.jobs_waiting, scheduler.ledger.devices_held) == (1, 1)
    assert scheduler.reason("guest", 0.0) is not None


def test_the_share_stage_sees_who_was_granted_what_just_now_and_what_happened(make: Make) -> None:
    host = Host([Plan([grant("a", (0, 1))])])
    make(host, NODE).handle([submitted("a")], 0.0)
    [view] = host.seen
    assert list(view.running) == ["a"]
    assert [(change.value, job.id) for change, job in view.changes] == [("queued", "a")]


def test_service_as_a_guest_is_charged_by_its_speed_and_is_no_waiting(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.25)
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.run_s(9.0), guest.attained(9.0), guest.steps_done(9.0)) == (2.0, 2.0, 2.0)
    assert (guest.wait_s(9.0), guest.first_start_s, guest.first_wait_s) == (1.0, 1.0, 1.0)


def test_a_gang_is_charged_for_all_of_its_seat(make: Make) -> None:
    host = Host([Plan([grant("holder", (0, 2))])], [Sharing([offer("guest", ((0, 0b11),), speed=0.5)])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted(name, 2, memory_bytes=60) for name in ("holder", "guest")], 0.0)
    assert scheduler.ledger.jobs["guest"].attained(10.0) == 10.0
    assert guests(scheduler) == {(0, 0): ["guest"], (0, 1): ["guest"]}


def test_a_guest_may_sit_alone_and_another_is_granted_the_device_beside_it(make: Make) -> None:
    host = Host([Plan(), Plan([grant("b", (0, 1))])], [Sharing([offer("a")])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted("a", memory_bytes=30)], 0.0)
    assert scheduler.ledger.free_masks == [0b11]
    commands = scheduler.handle([submitted("b", memory_bytes=30)], 1.0)
    assert started(commands) == {"b": FIRST}
    assert not unseated(commands)
    assert guests(scheduler) == {(0, 0): ["a"]}


def test_a_guest_changes_its_seat_in_one_proposal(make: Make) -> None:
    sharing = Sharing([offer("guest", SECOND)], [withdrawal("guest")])
    scheduler = a_guest_beside_a_holder(make, sharings=[sharing])
    commands = scheduler.handle([], 5.0)
    assert commands == [Unseat("guest", 1, BECAUSE), Seat("guest", 2, Seating(SECOND), BECAUSE)]
    assert guests(scheduler) == {(0, 1): ["guest"]}


def test_what_was_learnt_of_a_seat_that_stays_is_told(make: Make) -> None:
    note = Note("guest", Reason(Code.PACKED_KEPT, ("holder", 0.3)))
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing(), Sharing(notes=[note])])
    scheduler.handle([], 4.0)
    before = picture(scheduler.ledger)
    assert scheduler.handle([], 5.0) == [Tell("guest", note.reason)]
    assert picture(scheduler.ledger) == before


# ---- leaving a seat


def test_a_guest_that_leaves_waits_as_before(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing(withdrawals=[withdrawal("guest")])], speed=0.5)
    assert scheduler.handle([], 5.0) == [Unseat("guest", 1, BECAUSE)]
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.run_s(9.0), guest.wait_s(9.0), guest.is_computing, guest.last_allocation) == (2.0, 5.0, False, FIRST)
    assert not scheduler.ledger.seats.seated


def test_promotion_in_place_vacates_the_seat_and_keeps_the_devices(make: Make) -> None:
    """The device it sits on becomes free; of two free ones it gets the one where it computes already."""
    host = Host([Plan([grant("holder", (0, 1)), grant("other", (0, 1))])], [Sharing([offer("guest", SECOND)])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted(name, memory_bytes=30) for name in ("holder", "other", "guest")], 0.0)
    host.plans = [Plan([grant("guest", (0, 1))])]
    commands = scheduler.handle([Finished("holder", 1), Finished("other", 1)], 4.0)
    assert commands == [Start("guest", 2, SECOND, BECAUSE)]
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.seating, guest.speed, guest.run_s(5.0)) == (None, 1.0, 5.0)
    assert not scheduler.ledger.seats.seated


def test_a_guest_that_takes_its_holders_devices_stays_where_it_is(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, Plan([grant("guest", (0, 1))], [eviction("holder")]))
    commands = scheduler.handle([], 5.0)
    assert started(commands) == {"guest": FIRST}
    assert not unseated(commands)


def test_who_arrives_as_a_holder_dismisses_those_that_do_not_fit_the_latest_first(make: Make) -> None:
    host = Host(
        [Plan(), Plan([grant("holder", (0, 1))])],
        [Sharing([offer("c", FIRST), offer("a", FIRST), offer("b", FIRST)])],
    )
    scheduler = make(host, NODE)
    scheduler.handle([submitted(name, memory_bytes=30) for name in "abc"], 0.0)
    commands = scheduler.handle([submitted("holder", memory_bytes=50)], 1.0)
    taken = Reason(Code.SEAT_TAKEN, ("holder",))
    assert commands == [Unseat("b", 1, taken), Unseat("a", 1, taken), Start("holder", 1, FIRST, BECAUSE)]
    assert guests(scheduler) == {(0, 0): ["c"]}


@pytest.mark.parametrize("described", [{}, {"memory_bytes": 1, "may_share": False}])
def test_a_holder_of_unknown_memory_or_that_does_not_share_has_no_guests(make: Make, described: dict) -> None:
    host = Host([Plan(), Plan([grant("holder", (0, 1))])], [Sharing([offer("guest")])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted("guest", memory_bytes=1)], 0.0)
    assert unseated(scheduler.handle([submitted("holder", **described)], 1.0)) == ["guest"]


def test_a_guest_that_is_dismissed_may_be_granted_other_devices_at_once(make: Make) -> None:
    host = Host([Plan(), Plan([grant("holder", (0, 1)), grant("guest", (0, 1))])], [Sharing([offer("guest")])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted("guest", memory_bytes=90)], 0.0)
    commands = scheduler.handle([submitted("holder", memory_bytes=90)], 1.0)
    assert [type(one).__name__ for one in commands] == ["Unseat", "Start", "Start"]
    assert started(commands) == {"holder": FIRST, "guest": SECOND}


# ---- when to look again


@pytest.mark.parametrize(("plan_s", "sharing_s", "wake_s"), [(7.0, 9.0, 7.0), (9.0, 7.0, 7.0), (math.inf, 9.0, 9.0)])
def test_the_scheduler_asks_to_be_woken_at_the_earlier_of_both(
    make: Make, plan_s: float, sharing_s: float, wake_s: float
) -> None:
    host = Host([Plan(wake_at=plan_s)], [Sharing(wake_at=sharing_s)])
    assert wakes(make(host, NODE).handle([], 0.0)) == [wake_s]


def test_a_proposal_that_is_rejected_leaves_seats_as_they_are_and_the_plan_committed(make: Make) -> None:
    host = Host([Plan([grant("a", (0, 1))])], [Sharing([offer("nobody")])])
    scheduler = make(host, NODE)
    scheduler.record([submitted("a")], 0.0)
    assert started(scheduler.decide(0.0)) == {"a": FIRST}
    with pytest.raises(PlanRejectedError, match="nobody is offered a seat but does not wait for one"):
        scheduler.share(0.0)
    assert (running(scheduler), guests(scheduler)) == ({"a"}, {})
