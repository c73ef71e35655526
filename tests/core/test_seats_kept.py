"""Seats outlive a restart: from a snapshot, and from the log after it, in the order in which they were taken."""

from __future__ import annotations

import json

from core_helpers import Make, grant, submitted
from sharing_helpers import FIRST, NODE, Host, a_guest_beside_a_holder, guests, offer, unseated

from weft.core.commands import Preempt, Seat, Start, Unseat
from weft.core.events import Event, Finished, Held, Measured
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.sharing import Sharing
from weft.core.snapshot import restored, snapshot


def started_again(scheduler: Scheduler, host: Host) -> Scheduler:
    return Scheduler(restored(json.loads(json.dumps(snapshot(scheduler.ledger)))), host)


def test_after_a_restart_a_guest_is_charged_as_before(make: Make) -> None:
    scheduler = a_guest_beside_a_holder(make, speed=0.25)
    again = started_again(scheduler, Host())
    again.ledger.validate()
    guest = again.ledger.jobs["guest"]
    assert (guest.run_s(9.0), guest.wait_s(9.0), guest.seating) == (2.0, 1.0, scheduler.ledger.jobs["guest"].seating)


def test_after_a_restart_the_latest_guest_is_still_the_first_to_go(make: Make) -> None:
    """Who came first as a job is not who sat down first."""
    host = Host(sharings=[Sharing(), Sharing([offer("b")]), Sharing([offer("a")])])
    scheduler = make(host, NODE)
    scheduler.handle([submitted(name, memory_bytes=40) for name in "ab"], 0.0)
    scheduler.handle([], 1.0)
    scheduler.handle([], 2.0)
    again = started_again(scheduler, Host([Plan([grant("holder", (0, 1))])]))
    assert guests(again) == guests(scheduler) == {(0, 0): ["b", "a"]}
    assert unseated(again.handle([submitted("holder", memory_bytes=50)], 3.0)) == ["a"]


def test_a_guest_that_outgrew_its_seat_and_sat_down_elsewhere_is_folded_so(make: Make) -> None:
    host = Host(
        [Plan([grant("holder", (0, 1))]), Plan(), Plan([grant("large", (0, 1))])],
        [
            Sharing([offer("guest", speed=0.5)]),
            Sharing([offer("guest", ((0, 0b10),))]),
            Sharing([offer("guest", FIRST)]),
        ],
    )
    live, folded = make(host, NODE), make("fifo", NODE)
    facts: list[tuple[float, list[Event]]] = [
        (0.0, [submitted(name, memory_bytes=30) for name in ("holder", "guest")]),
        (2.0, [Measured("guest", 1, 2.0, 0.5, 70, 10, ("holder",))]),  # it leaves, and sits down elsewhere at once
        (3.0, [submitted("large", memory_bytes=60), Measured("holder", 1, 2.0, 0.5, 5, 5)]),
        (4.0, [Held("guest")]),
        (5.0, [Finished("holder", 1)]),
    ]
    seen = []
    for now, events in facts:
        decided = [one for one in live.handle(events, now) if isinstance(one, Start | Preempt | Seat | Unseat)]
        seen += [f"{type(one).__name__} {one.job_id}" for one in decided]
        folded.record(events, now)
        for one in decided:
            folded.repeat(one, now)
        folded.ledger.validate()
        assert snapshot(folded.ledger) == snapshot(live.ledger)
        assert guests(folded) == guests(live)
    assert seen[:4] == ["Start holder", "Seat guest", "Unseat guest", "Seat guest"]
    assert seen[4:] == ["Unseat guest", "Start large", "Seat guest", "Unseat guest"]
