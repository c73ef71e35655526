"""Facts as plain values, decisions from a log, and snapshots: a ledger is the same by whichever way it came to be."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest
from core_helpers import BECAUSE, Make, Script, grant, picture, running, submitted
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.commands import Preempt, Seat, Seating, Start, Unseat, WakeAt
from weft.core.errors import IllegalEventError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Failed,
    Finished,
    Grown,
    Held,
    Launched,
    Lost,
    Measured,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Stepped,
    Submitted,
    Woken,
)
from weft.core.ledger import Ledger
from weft.core.plan import Plan
from weft.core.reasons import TEMPLATES, Code, Reason
from weft.core.recording import RECORDERS
from weft.core.scheduler import Scheduler
from weft.core.serialization import KINDS, fact_of, plain, plain_spec, spec_of
from weft.core.sharing import Offer, Sharing, Withdrawal
from weft.core.snapshot import AT_FIRST, SnapshotTexts, restored, snapshot
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.core.view import View
from weft.policies.registry import POLICIES

# ---- plain values

TEXTS = st.text(max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
GENERATIONS = st.integers(0, 10**6)
REASONS = st.builds(
    Reason, st.sampled_from(Code), st.lists(st.one_of(TEXTS, st.integers(), NUMBERS), max_size=3).map(tuple)
)
SIZES = st.integers(0, 2**60)
NODES = st.builds(Node, TEXTS, st.integers(0, 64), TEXTS, st.none() | SIZES)
SPECS = st.builds(
    JobSpec,
    id=TEXTS,
    gang_size=st.integers(1, 64),
    tenant=TEXTS,
    job_class=st.sampled_from(JobClass),
    device_types=st.none() | st.frozensets(TEXTS, max_size=3),
    declared_steps=st.none() | NUMBERS,
    step_rate_hz=st.dictionaries(TEXTS, NUMBERS, max_size=3),
    memory_bytes=st.none() | SIZES,
    may_share=st.booleans(),
    may_migrate=st.booleans(),
    skew=st.none() | NUMBERS,
    min_run_s=NUMBERS,
    model=TEXTS,
)
ALLOCATIONS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2**70)), max_size=3).map(tuple)
TURNS = (st.integers(0, 9), st.integers(-(2**62), 2**62), st.integers(0, 2**31))
SEATINGS = st.builds(Seating, ALLOCATIONS, TURNS[0], st.booleans(), *TURNS[1:], NUMBERS)
FACTS = {
    Submitted: st.builds(Submitted, SPECS),
    Finished: st.builds(Finished, TEXTS, GENERATIONS),
    Failed: st.builds(Failed, TEXTS, GENERATIONS),
    Lost: st.builds(Lost, TEXTS, GENERATIONS),
    Launched: st.builds(Launched, TEXTS, GENERATIONS, NUMBERS),
    Stepped: st.builds(Stepped, TEXTS, GENERATIONS),
    Progressed: st.builds(Progressed, TEXTS, GENERATIONS, NUMBERS),
    Measured: st.builds(
        Measured, TEXTS, GENERATIONS, NUMBERS, NUMBERS, SIZES, SIZES, st.lists(TEXTS, max_size=3).map(tuple)
    ),
    Grown: st.builds(Grown, TEXTS, GENERATIONS, st.integers(0, 2**40), st.integers(0, 2**40)),
    Cancelled: st.builds(Cancelled, TEXTS),
    Held: st.builds(Held, TEXTS, REASONS),
    Released: st.builds(Released, TEXTS, st.sampled_from(Code)),
    NodeJoined: st.builds(NodeJoined, NODES),
    NodeLost: st.builds(NodeLost, TEXTS),
    DevicesBlocked: st.builds(DevicesBlocked, TEXTS, st.integers(0, 2**70)),
    Woken: st.just(Woken()),
    Start: st.builds(Start, TEXTS, GENERATIONS, ALLOCATIONS, REASONS, *TURNS),
    Preempt: st.builds(Preempt, TEXTS, GENERATIONS, REASONS),
    Seat: st.builds(Seat, TEXTS, GENERATIONS, SEATINGS, REASONS),
    Unseat: st.builds(Unseat, TEXTS, GENERATIONS, REASONS),
}


def test_everything_that_can_happen_or_be_decided_has_a_name_in_the_log() -> None:
    assert set(KINDS.values()) == set(FACTS) == set(RECORDERS) | {Start, Preempt, Seat, Unseat}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, derandomize=True, database=None, deadline=None)
def test_a_fact_is_the_same_after_it_was_written_and_read(kind: str, data: st.DataObject) -> None:
    fact = data.draw(FACTS[KINDS[kind]])
    read = fact_of(kind, json.loads(json.dumps(plain(fact))))
    assert read == fact
    assert type(read) is type(fact)


@given(spec=SPECS)
@settings(max_examples=50, derandomize=True, database=None, deadline=None)
def test_a_description_leaves_out_only_what_is_as_by_default(spec: JobSpec) -> None:
    assert spec_of(json.loads(json.dumps(plain_spec(spec)))) == spec
    assert plain_spec(JobSpec("7")) == {"id": "7"}


def test_every_code_can_be_put_into_words() -> None:
    assert set(TEMPLATES) == set(Code)
    assert all(TEMPLATES[code].format(*range(5)) for code in Code)


# ---- decisions from a log


def lively(make: Make) -> Scheduler:
    """Somebody runs, was preempted, waits, is held twice; a node has come and one has gone; a device is blocked."""
    scheduler = make("srtf", Node("n0", 2, "V100"), Node("n1", 3, "K80"))
    scheduler.handle([NodeJoined(Node("n2", 4, "V100")), DevicesBlocked("n1", 0b100)], 0.0)
    rates = {"V100": 2.0, "K80": 0.5}
    scheduler.handle([submitted("long", 4, declared_steps=900.0, step_rate_hz=rates, tenant="x")], 1.0)
    scheduler.handle([submitted("wide", 5, declared_steps=30.0, device_types=frozenset({"V100"}))], 2.5)
    scheduler.handle([submitted("short", 1, declared_steps=2.0), submitted("held", 1), Held("held")], 3.0)
    scheduler.handle([Held("held", Reason(Code.COMES_AFTER, ("short",))), Progressed("long", 1, 40.0)], 4.0)
    scheduler.handle([NodeLost("n0")], 5.0)
    return scheduler


class Host(Script):
    """Says what it is told to about seats as well."""

    sharings: list[Sharing]

    def seat(self, view: View) -> Sharing:
        return self.sharings.pop(0) if self.sharings else Sharing()


def hosting(make: Make) -> Scheduler:
    """One holds a device in a lane; a guest takes turns with it, another has left its seat; two were measured."""
    host = Host(Plan([dataclasses.replace(grant("holder", (0, 1)), lane=1)]))
    guest, other = (
        Offer(name, Seating(((0, 0b1),), lane, lane == 0, speed=0.5), BECAUSE) for name, lane in (("a", 1), ("b", 0))
    )
    host.sharings = [Sharing([guest, other]), Sharing(withdrawals=[Withdrawal("b", BECAUSE)])]
    scheduler = make(host, Node("n0", 2, "any", 100))
    scheduler.handle([submitted(name, memory_bytes=30, tenant=name) for name in ("holder", "a", "b")], 0.0)
    measured = [Measured("holder", 1, 2.0, 0.5, 20, 10), Measured("a", 1, 1.5, 0.5, 20, 10, ("b", "holder"))]
    scheduler.handle([*measured, Progressed("a", 1, 5.0)], 4.0)
    return scheduler


@pytest.mark.parametrize("lived", [lively, hosting])
def test_a_ledger_from_its_snapshot_is_the_ledger(make: Make, lived: Callable[[Make], Scheduler]) -> None:
    ledger = lived(make).ledger
    again = restored(json.loads(json.dumps(snapshot(ledger))))
    again.validate()
    assert snapshot(again) == snapshot(ledger)
    known, same = picture(again), picture(ledger)
    for name in ("version", "changes", "_device_types", "seats"):
        del known[name], same[name]
    assert known == same
    assert sitting(again) == sitting(ledger)


def sitting(ledger: Ledger) -> dict[str, list[str]]:
    """Who sits on each device, in order."""
    return {str(device): [guest.id for guest in guests] for device, guests in ledger.seats.guests.items()}


def test_a_snapshot_of_before_devices_were_shared_can_still_be_read(make: Make) -> None:
    taken = json.loads(json.dumps(snapshot(lively(make).ledger)))
    for job in taken["jobs"]:
        for name in ("lane", "seating", "measured"):
            job.pop(name, None)
    for node, _, _ in taken["nodes"]:
        del node[3:]
    again = restored(taken)
    again.validate()
    assert running(Scheduler(again, POLICIES["fifo"]())) == running(lively(make))


def test_a_snapshot_that_leaves_nothing_out_can_still_be_read(make: Make) -> None:
    taken = json.loads(json.dumps(snapshot(lively(make).ledger)))
    whole = {**taken, "jobs": [{**AT_FIRST, "since_s": job["tie"][0], **job} for job in taken["jobs"]]}
    assert json.loads(json.dumps(snapshot(restored(json.loads(json.dumps(whole)))))) == taken


def test_a_snapshot_as_text_is_the_snapshot(make: Make) -> None:
    texts, scheduler = SnapshotTexts(), lively(make)
    for _ in range(2):  # the second time, what has only waited is known
        assert json.loads(texts.text(scheduler.ledger)) == json.loads(json.dumps(snapshot(scheduler.ledger)))


def test_seats_are_taken_and_left_again_from_the_log(make: Make) -> None:
    host = Host(Plan([grant("holder", (0, 1))]), Plan(), Plan(), Plan([grant("big", (0, 1))]))
    host.sharings = [
        Sharing([Offer("a", Seating(((0, 0b1),), 0, True, speed=0.5), BECAUSE)]),
        Sharing(),
        Sharing([Offer("b", Seating(((0, 0b10),)), BECAUSE)], [Withdrawal("a", BECAUSE)]),
        Sharing([Offer("a", Seating(((0, 0b1),), 2), BECAUSE)]),
    ]
    live, folded = make(host, Node("n0", 2, "any", 100)), make("fifo", Node("n0", 2, "any", 100))
    jobs = [submitted(name, memory_bytes=30) for name in ("holder", "a", "b")]
    facts = [
        (0.0, jobs),
        (1.0, [Measured("a", 1, 4.0, 0.5, 20, 10), Measured("a", 1, 1.0, 0.5, 20, 10, ("holder",))]),
        (2.0, [Measured("holder", 1, 2.0, 0.5, 20, 10, ("a",))]),
        (3.0, [submitted("big", memory_bytes=90)]),  # it is granted the device that b sits on
        (4.0, [Held("a")]),
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
        assert sitting(folded.ledger) == sitting(live.ledger)
    assert seen == ["Start holder", "Seat a", "Unseat a", "Seat b", "Unseat b", "Start big", "Seat a", "Unseat a"]


def test_an_empty_ledger_has_a_snapshot_too() -> None:
    assert snapshot(restored(snapshot(Ledger(Cluster(()))))) == snapshot(Ledger(Cluster(())))


@pytest.mark.parametrize("name", POLICIES)
def test_from_a_snapshot_on_the_policy_decides_as_if_nothing_had_been(make: Make, name: str) -> None:
    def run(is_interrupted: bool) -> list[str]:
        scheduler = make(name, 2, 2)
        scheduler.handle([submitted("a", 3, declared_steps=50.0), submitted("b", 2, declared_steps=20.0)], 0.0)
        scheduler.handle([submitted("c", 1, declared_steps=30.0)], 1.0)
        if is_interrupted:
            scheduler = Scheduler(restored(json.loads(json.dumps(snapshot(scheduler.ledger)))), POLICIES[name]())
        ends = [Finished(job.id, job.generation) for job in scheduler.ledger.running.values()]
        commands = scheduler.handle(ends, 40.0)
        return sorted(str(command) for command in commands if not isinstance(command, WakeAt))

    assert run(is_interrupted=True) == run(is_interrupted=False)


def test_what_was_decided_is_committed_again_from_the_log(make: Make) -> None:
    live = make("srtf", 2)
    facts = [
        (0.0, [submitted("long", 2, declared_steps=100.0)]),
        (3.0, [submitted("short", 1, declared_steps=5.0)]),
        (8.0, [Finished("short", 1)]),
    ]
    folded = make("fifo", 2)  # which would decide otherwise
    for now, events in facts:
        decided = [one for one in live.handle(events, now) if isinstance(one, Start | Preempt)]
        folded.record(events, now)
        for one in decided:
            folded.repeat(one, now)
        folded.ledger.validate()
        assert snapshot(folded.ledger) == snapshot(live.ledger)
    assert running(folded) == {"long"}


def test_devices_that_are_not_free_are_not_given_again(make: Make) -> None:
    scheduler = make("fifo", 2, 2)
    scheduler.handle([submitted("a", 3), submitted("b", 4)], 0.0)
    before = picture(scheduler.ledger)
    with pytest.raises(IllegalEventError, match="n0 has not these devices free"):
        scheduler.ledger.give_again(Start("b", 1, ((1, 0b10), (0, 0b11)), BECAUSE), 1.0)
    assert picture(scheduler.ledger) == before


def test_devices_that_are_blocked_are_not_given_again(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([DevicesBlocked("n0", 0b01)], 0.0)
    scheduler.handle([submitted("a", 2)], 1.0)
    with pytest.raises(IllegalEventError):
        scheduler.ledger.give_again(Start("a", 1, ((0, 0b11),), BECAUSE), 2.0)
