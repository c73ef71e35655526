"""A seat is a proposal: whatever breaks a rule is rejected, with the reason, and nothing has changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from core_helpers import Make, grant, picture, submitted
from sharing_helpers import FIRST, SECOND, Host, offer, withdrawal

from weft.core.errors import PlanRejectedError
from weft.core.events import DevicesBlocked, Held, Measured, NodeLost
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.sharing import Memory, Note, Offer, Sharing, check, needed_bytes
from weft.core.values import Node


def crowded(make: Make) -> Scheduler:
    """On n0, of 100 bytes a device: runs (20) with guest (30) on the first, alone (unshared) on the second."""
    nodes = (
        Node("n0", 4, "any", 100),
        Node("n1", 2),
        Node("n2", 1, "other", 100),
        Node("n3", 4),
    )
    host = Host([Plan([grant("runs", (0, 1)), grant("alone", (0, 1))])], [Sharing([offer("guest")])])
    scheduler = make(host, *nodes)
    described = [
        submitted("runs", memory_bytes=20),
        submitted("alone", memory_bytes=1, may_share=False),
        submitted("guest", memory_bytes=30),
        submitted("waits", memory_bytes=30),
        submitted("other", memory_bytes=30),
        submitted("pair", 2, memory_bytes=60),
        submitted("large", memory_bytes=60),
        submitted("unknown"),
        submitted("selfish", memory_bytes=1, may_share=False),
        submitted("held", memory_bytes=1),
        submitted("picky", memory_bytes=1, device_types=frozenset({"other"})),
    ]
    scheduler.handle([NodeLost("n3"), *described, Held("held"), DevicesBlocked("n0", 0b1000)], 0.0)
    return scheduler


def offers(*some: Offer) -> Sharing:
    return Sharing(some)


NOT_THERE = "is seated on devices that are not there"
WRONG: dict[str, tuple[Sharing, str]] = {
    "woken in the past": (Sharing(wake_at=0.5), "asks to be woken at 0.5 s, which is not after"),
    "woken at no time": (Sharing(wake_at=math.nan), "asks to be woken at nan s"),
    "a stranger leaves": (Sharing(withdrawals=[withdrawal("nobody")]), "nobody is to leave a seat that it has not"),
    "a holder leaves": (Sharing(withdrawals=[withdrawal("runs")]), "runs is to leave a seat that it has not"),
    "leaves twice": (Sharing(withdrawals=[withdrawal("guest")] * 2), "guest is to leave a seat that it has not"),
    "a stranger sits": (offers(offer("nobody")), "nobody is offered a seat but does not wait for one"),
    "a holder sits": (offers(offer("runs", SECOND)), "runs is offered a seat but does not wait for one"),
    "who is held sits": (offers(offer("held")), "held is offered a seat but does not wait for one"),
    "sits already": (offers(offer("guest", ((0, 0b100),))), "guest is offered a seat but does not wait for one"),
    "sits twice": (offers(offer("waits"), offer("waits")), "waits is offered a seat but does not wait for one"),
    "a node that never was": (offers(offer("waits", ((9, 1),))), NOT_THERE),
    "a node from the end": (offers(offer("waits", ((-4, 1),))), NOT_THERE),
    "a lost node": (offers(offer("waits", ((3, 1),))), NOT_THERE),
    "a device too far": (offers(offer("waits", ((1, 0b100),))), NOT_THERE),
    "no device": (offers(offer("waits", ((0, 0),))), NOT_THERE),
    "a blocked device": (offers(offer("waits", ((0, 0b1000),))), NOT_THERE),
    "a gang in part": (offers(offer("pair", FIRST)), "pair needs its gang of 2 whole, but sits at ((0, 1),)"),
    "a gang and more": (offers(offer("waits", ((1, 0b11),))), "waits needs its gang of 1 whole"),
    "a gang nowhere": (offers(offer("waits", ())), "waits needs its gang of 1 whole"),
    "a node named twice": (offers(offer("pair", ((1, 0b01), (1, 0b10)))), "pair needs its gang of 2 whole"),
    "mixed types": (offers(offer("pair", ((0, 0b100), (2, 1)))), "pair may not run on any and other"),
    "a type it refuses": (offers(offer("picky")), "picky may not run on any"),
    "a gang in a lane": (
        offers(offer("pair", ((1, 0b11),), lane=1)),
        "pair, a gang of 2, cannot take turns in lane 1",
    ),
    "a lane below none": (offers(offer("waits", lane=-1)), "waits, a gang of 1, cannot take turns in lane -1"),
    "no speed": (offers(offer("waits", speed=0.0)), "waits is seated with a speed of 0"),
    "too much speed": (offers(offer("waits", speed=1.5)), "waits is seated with a speed of 1.5"),
    "a speed that is no number": (offers(offer("waits", speed=math.nan)), "waits is seated with a speed of nan"),
    "too large": (offers(offer("large")), "runs, guest, large do not fit on one device of n0"),
    "too large together": (
        offers(offer("waits"), offer("other")),
        "runs, guest, waits, other do not fit on one device of n0",
    ),
    "too large with nobody's device": (
        offers(offer("large", ((0, 0b100),)), offer("waits", ((0, 0b100),)), offer("other", ((0, 0b100),))),
        "large, waits, other do not fit on one device of n0",
    ),
    "of unknown memory": (offers(offer("unknown")), "runs, guest, unknown do not fit on one device of n0"),
    "does not share": (offers(offer("selfish")), "runs, guest, selfish do not fit on one device of n0"),
    "beside one that does not share": (offers(offer("waits", SECOND)), "alone, waits do not fit on one device of n0"),
    "on a device of unknown memory": (
        offers(offer("waits", ((1, 1),)), offer("other", ((1, 1),))),
        "waits, other do not fit on one device of n1",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_seat_is_rejected_and_changes_nothing(make: Make, case: str) -> None:
    sharing, message = WRONG[case]
    scheduler = crowded(make)
    before = picture(scheduler.ledger)
    with pytest.raises(PlanRejectedError) as caught:
        check(sharing, scheduler.ledger, 30.0)
    assert message in str(caught.value)
    assert picture(scheduler.ledger) == before


RIGHT: dict[str, Sharing] = {
    "nothing": Sharing(),
    "only a note": Sharing(notes=[Note("guest", offer("guest").reason)]),
    "a third that fits": offers(offer("waits")),
    "alone though its memory is not known": offers(offer("unknown", ((0, 0b100),))),
    "alone though it does not share": offers(offer("selfish", ((0, 0b100),))),
    "alone where no memory is known": offers(offer("waits", ((1, 1),))),
    "in the seat that another leaves": Sharing([offer("large")], [withdrawal("guest")]),
    "a gang beside nobody": offers(offer("pair", ((0, 0b100), (1, 1)))),
    "in another seat at once": Sharing([offer("guest", ((0, 0b100),))], [withdrawal("guest")]),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_seat_that_breaks_no_rule_is_accepted(make: Make, case: str) -> None:
    scheduler = crowded(make)
    before = picture(scheduler.ledger)
    check(RIGHT[case], scheduler.ledger, 30.0)
    assert picture(scheduler.ledger) == before


# ---- the safety condition

Members = Sequence[tuple[Memory, int]]
SMALL, LARGE = Memory(10, 20), Memory(10, 50)


@pytest.mark.parametrize(
    ("members", "bytes_needed"),
    [
        ([], 0),
        ([(SMALL, 0), (LARGE, 0)], 90),
        ([(SMALL, 1), (LARGE, 1)], 70),
        ([(SMALL, 1), (SMALL, 1), (SMALL, 1)], 50),
        ([(SMALL, 1), (LARGE, 2)], 90),
        ([(SMALL, 1), (LARGE, 2), (SMALL, 2), (SMALL, 0)], 130),
    ],
)
def test_in_a_lane_only_the_largest_of_what_comes_and_goes_counts(members: Members, bytes_needed: int) -> None:
    assert needed_bytes(members) == bytes_needed


@pytest.mark.parametrize(("lane", "fits"), [(1, True), (2, False), (0, False)])
def test_in_the_holders_lane_a_guest_needs_only_what_lasts(make: Make, lane: int, fits: bool) -> None:
    """20 + 20 last, and 50 come and go in each of them: 90 in turns, 140 side by side; the device has 100."""
    host = Host([Plan([replace(grant("a", (0, 1)), lane=1)])])
    scheduler = make(host, Node("n0", 2, "any", 100))
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    host.sharings = [Sharing([offer("b", SECOND)])]
    scheduler.handle([Measured("a", 1, 1.0, 0.5, 20, 50)], 1.0)
    scheduler.handle([Measured("b", 1, 1.0, 0.5, 20, 50)], 2.0)
    sharing = Sharing([offer("b", FIRST, lane=lane)], [withdrawal("b")])
    if fits:
        check(sharing, scheduler.ledger, 3.0)
    else:
        with pytest.raises(PlanRejectedError, match="a, b do not fit"):
            check(sharing, scheduler.ledger, 3.0)
