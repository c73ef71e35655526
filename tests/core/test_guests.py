"""What may happen to a guest on its seat: its end, a loss, a hold, words that come late, measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_helpers import Make, picture, running, stopped, submitted
from sharing_helpers import (
    FIRST,
    NODE,
    SECOND,
    Host,
    a_guest_beside_a_holder,
    guests,
    offer,
    seated,
    withdrawal,
)

from weft.core.commands import Seating, Stop, Unseat
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Grown,
    Held,
    Lost,
    Measured,
    NodeLost,
    Progressed,
    Released,
)
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Sharing
from weft.core.transitions import State
from weft.core.values import Node

# ---- what it has had


def test_what_a_guest_has_of_devices_counts_for_its_tenant_who_holds_nothing(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing((), [withdrawal("guest")])], speed=0.3)
    tenants = scheduler.ledger.tenants
    assert tenants.attained("guest", 11.0) == pytest.approx(3.0)
    assert tenants.attained("holder", 11.0) == pytest.approx(11.0)
    assert tenants.devices_held("guest") == 0
    scheduler.handle([], 21.0)
    assert tenants.attained("guest", 100.0) == pytest.approx(6.0)
    assert tenants.attained("guest", 100.0) == pytest.approx(scheduler.ledger.jobs["guest"].attained(100.0))


ALONE = Measured("guest", 1, 4.0, 0.5, 10, 20)


def beside(rate_hz: float) -> Measured:
    return replace(ALONE, rate_hz=rate_hz, neighbours=("holder",))


def test_what_a_guest_makes_is_what_it_is_charged_from_when_that_is_measured(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.5)
    guest, tenants = scheduler.ledger.jobs["guest"], scheduler.ledger.tenants
    scheduler.handle([ALONE, beside(0.4)], 5.0)
    assert guest.seating == Seating(FIRST, speed=0.1)
    assert (guest.run_s(5.0), guest.steps_done(5.0)) == pytest.approx((2.0, 2.0)), "what it had by then stays"
    assert (guest.run_s(15.0), guest.steps_done(15.0), guest.wait_s(15.0)) == pytest.approx((3.0, 3.0, 1.0))
    assert tenants.attained("guest", 15.0) == pytest.approx(guest.attained(15.0))
    assert guest.since_s == 1.0, "it sits since then"
    scheduler.ledger.validate()


@pytest.mark.parametrize(("rate_hz", "speed"), [(0.0, 0.01), (4.4, 1.0)])
def test_a_guest_is_charged_something_and_never_more_than_its_devices(make: Make, rate_hz: float, speed: float) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.5)
    scheduler.handle([ALONE, beside(rate_hz)], 5.0)
    assert scheduler.ledger.jobs["guest"].speed == speed


def test_a_guest_that_is_left_alone_is_charged_for_all_it_has(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.5)
    scheduler.handle([Finished("holder", 1)], 4.0)
    scheduler.handle([ALONE], 5.0)
    assert scheduler.ledger.jobs["guest"].speed == 1.0


@pytest.mark.parametrize("alone", [[], [replace(ALONE, rate_hz=0.0)]])
def test_a_guest_whose_rate_alone_is_not_known_is_charged_as_expected(make: Make, alone: list[Event]) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.5)
    scheduler.handle([*alone, beside(0.4)], 5.0)
    assert scheduler.ledger.jobs["guest"].speed == 0.5


def test_a_rate_alone_on_other_devices_says_nothing_of_what_a_guest_has(make: Make) -> None:
    sharings = [Sharing(), Sharing((), [withdrawal("guest")]), Sharing([offer("guest", ((1, 0b1),), speed=0.5)])]
    host = Host([], [Sharing([offer("guest")]), *sharings])
    scheduler = make(host, NODE, Node("n1", 1, "other", 100))
    scheduler.handle([submitted("guest", memory_bytes=30)], 0.0)
    for now, events in enumerate([[ALONE], [], [], [replace(ALONE, generation=2, rate_hz=1.0, neighbours=("one",))]]):
        scheduler.handle(events, now + 1.0)
    assert scheduler.ledger.jobs["guest"].speed == 0.5


def test_whoever_ranks_by_service_hears_that_a_guest_is_charged_otherwise(make: Make) -> None:
    heard = Host()
    scheduler = a_guest_beside_a_holder(make)
    scheduler.change_policy(heard)
    scheduler.handle([ALONE], 4.0)
    scheduler.handle([beside(0.4)], 5.0)
    assert (Change.PROGRESSED, scheduler.ledger.jobs["guest"]) in heard.seen[-1].changes


# ---- the end of a guest


@pytest.mark.parametrize("kind", [Finished, Failed])
def test_a_guest_may_come_to_its_end_on_its_seat(make: Make, kind: type[Finished | Failed]) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([kind("guest", 1)], 5.0) == []
    assert (list(scheduler.ledger.jobs), guests(scheduler)) == (["holder"], {})


def test_a_guest_that_is_cancelled_is_stopped(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([Cancelled("guest")], 5.0) == [Stop("guest", 1)]
    assert guests(scheduler) == {}


def test_a_guest_that_is_held_leaves_its_seat(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([Held("guest")], 5.0) == [Unseat("guest", 1, Reason(Code.HELD))]
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.state, guest.run_s(9.0), guests(scheduler)) == (State.HELD, 4.0, {})


def test_a_guest_whose_attempt_is_lost_waits_again(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([Lost("guest", 1)], 5.0) == []
    guest = scheduler.ledger.jobs["guest"]
    assert (guest.state, guest.run_s(9.0), guest.wait_s(9.0), guests(scheduler)) == (State.PENDING, 4.0, 5.0, {})


def test_a_holder_that_is_lost_leaves_its_guest_alone_on_the_device(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([Lost("holder", 1)], 5.0) == []
    assert guests(scheduler) == {(0, 0): ["guest"]}
    assert scheduler.ledger.free_masks == [0b11]


def test_guests_of_a_lost_node_wait_again(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([NodeLost("n0")], 5.0) == []
    assert (running(scheduler), guests(scheduler), scheduler.ledger.jobs_waiting) == (set(), {}, 2)


def test_a_guest_over_two_nodes_is_stopped_where_it_still_is_when_one_of_them_is_lost(make: Make) -> None:
    host = Host(sharings=[Sharing([offer("guest", ((0, 1), (1, 1)))])])
    scheduler = make(host, Node("n0", 1, "any", 100), Node("n1", 1, "any", 100))
    scheduler.handle([submitted("guest", 2)], 0.0)
    assert stopped(scheduler.handle([NodeLost("n1")], 1.0)) == [("guest", 1)]
    assert guests(scheduler) == {}


def test_a_guest_alone_on_a_device_that_somebody_else_takes_must_leave(make: Make) -> None:
    host = Host(sharings=[Sharing([offer("a", FIRST), offer("b", SECOND)])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    assert scheduler.handle([DevicesBlocked("n0", 0b01)], 1.0) == [Unseat("a", 1, Reason(Code.SEAT_BLOCKED))]
    assert guests(scheduler) == {(0, 1): ["b"]}


@pytest.mark.parametrize(
    "late",
    [
        Finished("guest", 1),
        Failed("guest", 1),
        Lost("guest", 1),
        Progressed("guest", 1, 900.0),
        Measured("guest", 1, 9.0, 0.9, 99, 99),
    ],
)
def test_a_late_word_of_a_seat_before_this_one_is_dropped(make: Make, late: Event) -> None:
    sharing = Sharing([offer("guest", SECOND)], [withdrawal("guest")])
    scheduler = a_guest_beside_a_holder(make, sharings=[sharing])
    scheduler.handle([], 4.0)
    scheduler.handle([], 5.0)
    before = picture(scheduler.ledger)
    assert scheduler.handle([late], 6.0) == []
    assert picture(scheduler.ledger) == before


def test_a_guest_that_was_told_to_leave_may_just_have_ended(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing(withdrawals=[withdrawal("guest")])])
    scheduler.handle([], 5.0)
    scheduler.handle([Finished("guest", 1)], 6.0)
    assert list(scheduler.ledger.jobs) == ["holder"]


def test_held_and_released_a_guest_may_sit_again(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing(), Sharing([offer("guest")])])
    scheduler.handle([Held("guest")], 5.0)
    assert seated(scheduler.handle([Released("guest")], 6.0)) == {"guest": Seating(FIRST)}


# ---- what was measured


def test_what_was_measured_alone_is_kept_apart_from_what_was_measured_beside_others(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    alone = Measured("holder", 1, 4.0, 0.5, 10, 20)
    beside = Measured("holder", 1, 3.0, 0.5, 10, 20, ("guest",))
    scheduler.handle([alone], 2.0)
    scheduler.handle([beside], 3.0)
    holder = scheduler.ledger.jobs["holder"]
    assert (holder.alone, holder.measured) == (alone, beside)


def test_a_guest_whose_progress_is_reported_is_reckoned_on_from_there(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.5)
    scheduler.handle([Progressed("guest", 1, 100.0)], 5.0)
    assert scheduler.ledger.jobs["guest"].steps_done(7.0) == 101.0


@pytest.mark.parametrize("who", ["holder", "guest"])
def test_who_is_found_to_need_more_memory_than_was_known_has_no_company(make: Make, who: str) -> None:
    scheduler = a_guest_beside_a_holder(make)
    other = "guest" if who == "holder" else "holder"
    commands = scheduler.handle([Measured(who, 1, 1.0, 0.5, 50, 30, (other,))], 5.0)
    assert commands == [Unseat("guest", 1, Reason(Code.SEAT_OUTGROWN, (who,)))]
    assert guests(scheduler) == {}


@pytest.mark.parametrize("who", ["holder", "guest"])
def test_who_has_grown_has_no_company_though_nobody_has_measured_how_fast_it_is_now(make: Make, who: str) -> None:
    scheduler = a_guest_beside_a_holder(make)
    measured = Measured(who, 1, 4.0, 0.5, 10, 20)
    assert scheduler.handle([measured], 4.0) == []
    assert scheduler.handle([Grown(who, 0, 50, 30), Grown("nobody", 1, 50, 30)], 5.0) == [], "of a lease that is over"
    assert scheduler.handle([Grown(who, 1, 50, 30)], 6.0) == [Unseat("guest", 1, Reason(Code.SEAT_OUTGROWN, (who,)))]
    assert scheduler.ledger.jobs[who].measured == replace(measured, persistent_bytes=50, ephemeral_bytes=30)
    assert scheduler.ledger.jobs[who].alone == measured


def test_what_was_declared_counts_until_a_job_is_measured(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make)
    assert scheduler.handle([Grown("guest", 1, 500, 30)], 5.0) == []
    assert scheduler.ledger.jobs["guest"].measured is None


def test_who_is_found_to_need_less_memory_makes_room(make: Make) -> None:
    """What is declared bounds everything; of that, what comes and goes is needed once in a lane."""
    sharing = Sharing([offer("third", lane=1)])
    scheduler = a_guest_beside_a_holder(make, sharings=[Sharing(), sharing], lane=1)
    scheduler.handle([submitted("third", memory_bytes=50)], 2.0)
    measured = Measured("guest", 1, 1.0, 0.5, 10, 10, ("holder",))
    assert list(seated(scheduler.handle([measured], 5.0))) == ["third"]
