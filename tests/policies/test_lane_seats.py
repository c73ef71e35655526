"""Salus's lanes: who joins which, in which order its members take turns, and who must wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from policy_helpers import by_id, cluster, job, run
from sharing_words import GB, Stage

from weft.core.commands import Seat, Seating, Start
from weft.core.errors import InputError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Finished,
    Held,
    Lost,
    Measured,
    Progressed,
    Released,
    Submitted,
)
from weft.core.job import Job
from weft.core.scheduler import Scheduler
from weft.core.sharing import Memory, Offer, Sharing, needed_bytes
from weft.core.values import Cluster, JobSpec, Node
from weft.core.view import View
from weft.policies.base import QueueOrder
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import Fifo, Las
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.lanes import LaneRoom, Lanes
from weft.sim.colocation import Fitted
from weft.sim.world import World


def choose_lane(capacity_bytes: int, lanes: dict[int, list[Memory]], job: Memory) -> int | None:
    return LaneRoom(capacity_bytes, [(memory, lane) for lane, some in lanes.items() for memory in some]).choose_lane(
        job
    )


def test_the_golden_vector_with_its_third_job_rejected() -> None:
    """16 in all; (P, T) = (1, 10), (1, 4), (1, 9). The third would fit a lane of 9, but the lane holds a T of 10."""
    first, second, third = Memory(1, 10), Memory(1, 4), Memory(1, 9)
    assert choose_lane(16, {}, first) == 1
    assert choose_lane(16, {1: [first]}, second) == 2
    assert choose_lane(16, {1: [first], 2: [second]}, third) is None
    assert choose_lane(17, {1: [first], 2: [second]}, third) == 1


def test_a_new_lane_is_opened_while_there_is_room_for_one() -> None:
    assert choose_lane(100, {1: [Memory(10, 20)]}, Memory(10, 20)) == 2


def test_the_tightest_lane_that_is_large_enough_is_joined() -> None:
    lanes = {1: [Memory(1, 50)], 2: [Memory(1, 20)], 3: [Memory(1, 25)]}
    assert choose_lane(103, lanes, Memory(1, 21)) == 3


def test_else_the_smallest_lane_that_may_grow_is_joined() -> None:
    assert choose_lane(100, {1: [Memory(1, 30)], 2: [Memory(1, 20)]}, Memory(1, 60)) == 2


def test_a_lane_that_is_gone_leaves_its_number() -> None:
    assert choose_lane(100, {2: [Memory(1, 1)]}, Memory(1, 1)) == 1


def test_who_takes_turns_with_nobody_counts_in_full_and_is_not_joined() -> None:
    assert choose_lane(50, {0: [Memory(1, 30)]}, Memory(1, 18)) == 1
    assert choose_lane(49, {0: [Memory(1, 30)]}, Memory(1, 18)) is None


MEMORIES = st.builds(Memory, st.integers(0, 20), st.integers(0, 60))


@given(jobs=st.lists(MEMORIES, max_size=12), capacity_bytes=st.integers(1, 150))
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_whoever_is_let_in_the_device_is_large_enough_and_who_is_not_would_fit_nowhere(
    jobs: list[Memory], capacity_bytes: int
) -> None:
    lanes: dict[int, list[Memory]] = {}
    for memory in jobs:
        members = [(one, lane) for lane, some in lanes.items() for one in some]
        lane = choose_lane(capacity_bytes, lanes, memory)
        if lane is None:
            places = [*lanes, max(lanes, default=0) + 1]
            assert all(needed_bytes([*members, (memory, where)]) > capacity_bytes for where in places)
        else:
            lanes.setdefault(lane, []).append(memory)
            assert needed_bytes([*members, (memory, lane)]) <= capacity_bytes


def chosen_plainly(capacity_bytes: int, members: list[tuple[Memory, int]], job: Memory, most: int) -> int | None:
    """The rules as they are written down: each lane in its turn, and the whole device counted for each."""
    lanes: dict[int, list[int]] = {}
    for memory, lane in members:
        lanes.setdefault(lane, []).append(memory.ephemeral_bytes)
    new = next(lane for lane in range(1, len(lanes) + 2) if lane not in lanes)
    sizes = sorted((max(some), lane) for lane, some in lanes.items() if lane)
    large_enough = [lane for size, lane in sizes if size >= job.ephemeral_bytes]
    to_grow = [lane for size, lane in sizes if size < job.ephemeral_bytes]
    tried = [*([new] if len(sizes) < most else []), *large_enough, *to_grow]
    return next((lane for lane in tried if needed_bytes([*members, (job, lane)]) <= capacity_bytes), None)


@given(
    members=st.lists(st.tuples(MEMORIES, st.integers(0, 4)), max_size=12),
    capacity_bytes=st.integers(1, 400),
    job=MEMORIES,
    most=st.integers(1, 6),
)
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_a_lane_is_chosen_as_if_the_whole_device_were_counted_for_each(
    members: list[tuple[Memory, int]], capacity_bytes: int, job: Memory, most: int
) -> None:
    room = LaneRoom(capacity_bytes, members)
    assert room.choose_lane(job, most) == chosen_plainly(capacity_bytes, members, job, most)


@given(jobs=st.lists(MEMORIES, max_size=12), capacity_bytes=st.integers(1, 150), most=st.integers(1, 4), late=MEMORIES)
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_who_finds_no_lane_finds_none_when_others_have_come(
    jobs: list[Memory], capacity_bytes: int, most: int, late: Memory
) -> None:
    """Nor does who needs more; though a lane that somebody has made larger has a place for a larger T."""
    room, found = LaneRoom(capacity_bytes), []
    for memory in jobs:
        found.append(room.choose_lane(late, most))
        lane = room.choose_lane(memory, most)
        if lane is not None:
            room.add(memory, lane)
    assert found == sorted(found, key=lambda lane: lane is None)
    if None in found:
        larger = Memory(late.persistent_bytes + 1, late.ephemeral_bytes)
        assert room.choose_lane(larger, most) is None


# ---- the whole policy


def seat_of(stage: Stage, name: str) -> Seat:
    return next(one for _, one in stage.log if isinstance(one, Seat) and one.job_id == name)


def test_jobs_of_known_memory_sit_beside_the_holder_in_lanes() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 1)
    stage.submit(0.0, "a", "b", "c", memory_bytes=4 * GB)
    assert stage.running == {"a"}
    assert {name: seating.lane for name, seating in stage.seated.items()} == {"b": 2, "c": 3}
    assert stage.lines[-2:] == ["seat b: opens lane 2 beside a", "seat c: opens lane 3 beside a, b"]


def test_when_no_lane_can_be_opened_a_member_joins_one_and_has_half_of_it() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 1)
    stage.submit(0.0, "a")
    stage.submit(1.0, "b")
    stage.measure(20.0, "a", memory_bytes=(GB, 12 * GB))
    stage.submit(21.0, "c", memory_bytes=2 * GB)
    assert stage.lines[-1] == "seat c: opens lane 2 beside a"
    stage.tell(22.0, Finished("c", stage.job("c").generation))
    assert "b" not in stage.seated  # of its memory nothing is known


def test_a_member_of_the_holders_lane_takes_turns_with_it() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 2)
    stage.submit(0.0, "a", "b")
    stage.submit(1.0, "c", memory_bytes=GB)
    stage.measure(20.0, "a", memory_bytes=(GB, 14 * GB))
    stage.measure(21.0, "b", memory_bytes=(GB, 14 * GB + 1))
    seating = seat_of(stage, "c").seating
    assert (seating.lane, seating.speed, seating.allocation) == (2, 1.0, ((0, 0b01),))


def test_guests_go_to_the_device_with_the_fewest_members() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 2)
    stage.submit(0.0, "a", "b", "c", "d", memory_bytes=GB)
    assert [stage.seated[name].allocation for name in "cd"] == [((0, 0b01),), ((0, 0b10),)]


def test_no_more_members_than_are_allowed_share_a_device() -> None:
    stage = Stage(POLICIES["salus"](members=2, lanes=8), 1)
    stage.submit(0.0, "a", "b", "c", memory_bytes=GB)
    assert set(stage.seated) == {"b"}
    stage.tell(5.0, Finished("a", 1))
    assert (stage.running, set(stage.seated)) == ({"b"}, {"c"})


def test_gangs_and_those_that_do_not_share_take_no_part() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 2)
    stage.submit(0.0, "gang", gang_size=2, memory_bytes=2 * GB)
    stage.submit(1.0, "pair", gang_size=2, memory_bytes=2 * GB)
    stage.submit(2.0, "selfish", memory_bytes=GB, may_share=False)
    assert not stage.seated
    start = next(one for _, one in stage.log if isinstance(one, Start))
    assert (start.job_id, start.lane) == ("gang", 0)


@pytest.mark.parametrize("sizes", [(2,), (1, 1)])
def test_nobody_moves_to_a_device_where_another_sits_already(sizes: tuple[int, ...]) -> None:
    stage = Stage(POLICIES["salus"](lanes=8), *sizes)
    stage.submit(0.0, "h0", "h1", "a", "b", memory_bytes=GB)
    seats = {name: stage.seated[name].allocation for name in "ab"}
    assert [seats["a"], seats["b"]] == [stage.job("h0").allocation, stage.job("h1").allocation]
    stage.tell(10.0, Finished("h1", 1))
    assert stage.running == {"h0", "b"}
    assert (stage.seated["a"].allocation, stage.job("b").allocation) == (seats["a"], seats["b"])


def test_a_guest_moves_to_a_device_that_nobody_else_is_on() -> None:
    stage = Stage(POLICIES["salus"](lanes=8), 1, 1)
    stage.submit(0.0, "h0", "h1", "a", "b", "c", memory_bytes=GB)
    stage.tell(5.0, Finished("b", stage.job("b").generation))
    stage.tell(10.0, Finished("h1", 1))
    assert stage.job("a").allocation == ((1, 1),)


@pytest.mark.parametrize(
    ("in_lane", "turns"),
    [
        ("fair", [(0, 1), (0, 1)]),
        ("pack", [(0, 0), (0, 0)]),
        ("fifo", [(1, 0), (2, 0)]),
        ("srtf", [(50_000_000, -1), (7_000_000, -1)]),
    ],
)
def test_whose_turn_it_is_depends_on_the_way_they_are_taken(in_lane: str, turns: list[tuple[int, int]]) -> None:
    stage = Stage(POLICIES["salus"](in_lane=in_lane, lanes=8), 1)
    stage.submit(0.0, "a", memory_bytes=GB, declared_steps=50.0)
    stage.submit(0.0, "b", memory_bytes=GB, declared_steps=7.0)
    start = next(one for _, one in stage.log if isinstance(one, Start))
    seating = seat_of(stage, "b").seating
    assert [(start.base, start.weight), (seating.base, seating.weight)] == turns
    assert start.lane == 1


def turn_key(base: int, weight: int, used_s: float) -> int:
    """As native/turnstile.c has it: the least is next; `used` is in nanoseconds."""
    return base + weight * int(used_s * 1e9) // 1000


def test_who_is_nearly_done_goes_before_a_newcomer_though_it_was_the_longer_one_when_it_joined() -> None:
    stage = Stage(POLICIES["salus"](in_lane="srtf", lanes=1), 1)
    stage.submit(0.0, "a", memory_bytes=GB, declared_steps=100.0)
    stage.submit(90.0, "b", memory_bytes=GB, declared_steps=50.0)
    start = next(one for _, one in stage.log if isinstance(one, Start))
    seating = seat_of(stage, "b").seating
    assert seating.lane == start.lane
    assert turn_key(start.base, start.weight, 90.0) == 10_000_000
    assert turn_key(start.base, start.weight, 90.0) < turn_key(seating.base, seating.weight, 0.0)
    assert turn_key(start.base, start.weight, 45.0) > turn_key(seating.base, seating.weight, 0.0)


def test_who_does_not_say_how_long_it_takes_comes_last_and_its_place_fits_a_signed_word() -> None:
    stage = Stage(POLICIES["salus"](in_lane="srtf"), 1)
    stage.submit(0.0, "a", memory_bytes=GB)
    start = next(one for _, one in stage.log if isinstance(one, Start))
    assert 10**15 < start.base < 2**63


ONE_LANE = World(
    "one lane",
    counts_only=False,
    preemption_s=0.0,
    speed={"any": 1.0},
    memory={"any": 100},
    unknown_memory=((1, 1),),
    unknown_utilisation=((1.0, 1.0),),
    interference=Fitted(0.0),
)


def test_simulated_turns_go_to_the_least_remaining_time_too() -> None:
    """a has 10 s left when b comes, which takes 50 s; c takes 5 s and comes when a has 8 s left."""
    jobs = [
        replace(one, spec=replace(one.spec, memory_bytes=1))
        for one in (job("a", 0, 100), job("b", 90, 50), job("c", 92, 5))
    ]
    policy = POLICIES["salus"](in_lane="srtf", lanes=1)
    finish_s = by_id(run(jobs, cluster((1, 1, "any")), policy, ONE_LANE), "finish_s")
    assert finish_s == pytest.approx({"c": 97.0, "a": 105.0, "b": 155.0}, abs=0.1)


def test_guests_that_another_policy_held_back_leave_and_come_back_in_lanes() -> None:
    stage = Stage(POLICIES["antman"](), 1)
    stage.submit(0.0, "holder", "guest", memory_bytes=GB)
    stage.measure(20.0, "holder")
    stage.tell(60.0)
    assert stage.seated["guest"].is_throttled
    stage.scheduler.change_policy(POLICIES["salus"]())
    stage.tell(70.0)
    assert stage.lines[-1] == "unseat guest: placed by another policy, under a rule that this one does not have"
    stage.tell(72.0)
    assert (stage.seated["guest"].lane, stage.seated["guest"].is_throttled) == (1, False)


# ---- it looks only when there is something to see, and sees what it would see at every look


class Plainly(Lanes):
    """Each who waits is tried on each device at each decision, and what was offered must be the same."""

    def seat(self, view: View) -> Sharing:
        sharing = super().seat(view)
        assert [(offer.job_id, offer.seating) for offer in sharing.offers] == self.plainly(view)
        return sharing

    def plainly(self, view: View) -> list[tuple[str, Seating]]:
        held, found = view.holders(), []
        usable = [
            (node, at)
            for node, there in enumerate(view.nodes)
            for at in range(there.device_count)
            if view.is_present[node] and not view.blocked_masks[node] >> at & 1
        ]
        devices = {device: view.members_on(device, held) for device in usable}
        for waiting in view.jobs.values():
            may_sit = waiting.is_waiting and waiting.seating is None and waiting.gang_size == 1
            for device in sorted(devices, key=lambda one: (len(devices[one]), one)) if may_sit else ():
                lane = self.lane_on(view.nodes[device[0]], devices[device], waiting)
                if lane is not None:
                    beside = sum(there == lane for _, there in devices[device])
                    devices[device].append((waiting, lane))
                    found.append((waiting.id, Seating(((device[0], 1 << device[1]),), lane, speed=1 / (beside + 1))))
                    break
        return found

    def lane_on(self, node: Node, members: list[tuple[Job, int]], job: Job) -> int | None:
        known = [(one.memory, lane) for one, lane in members if one.memory and one.spec.may_share]
        together = [(memory, lane) for memory, lane in known if memory]
        is_open = node.memory_bytes and len(together) == len(members) < self.members
        if not is_open or not job.memory or not job.spec.may_share or not job.spec.allows(node.device_type):
            return None
        return chosen_plainly(node.memory_bytes or 0, together, job.memory, self.lanes)


ORDERS: list[Callable[[], QueueOrder]] = [
    lambda: Fifo(strict=False),
    lambda: Las(2.0),
    lambda: GandivaOrder(3.0, 50.0),
]
HAPPENINGS = (
    *("submit", "submit", "measure", "measure", "measure", "finish", "finish", "lose", "lose"),
    *("hold", "release", "cancel", "block", "wait"),
)
MIXED = Cluster((Node("n0", 2, "V100", 60), Node("n1", 2, "K80", 40), Node("n2", 1, "V100")))


class Anything:
    """What is told to happen to a scheduler happens to whoever is next in number."""

    def __init__(self, order: QueueOrder, lanes: int, members: int) -> None:
        policy = Policy(order, share=Plainly(lanes=lanes, members=members))
        self.stage = Stage(policy)
        self.stage.scheduler = Scheduler(MIXED, policy)
        self.ledger = self.stage.scheduler.ledger
        self.named = 0

    def happen(self, what: str, number: int, pause_s: float) -> None:
        now = self.stage.now + pause_s
        self.stage.tell(now)  # so that it is known who computes then
        computing = [job for job in self.ledger.jobs.values() if job.is_computing]
        told = [Progressed(job.id, job.generation, 1.0) for job in computing[: number % 3]]
        self.stage.tell(now, *self.events(what, number, computing), *told)

    def events(self, what: str, number: int, computing: list[Job]) -> list[Event]:
        if what == "submit":
            return [self.submitted(number + at) for at in range(1 + number % 7)]
        if what == "block":
            return [DevicesBlocked("n0", number % 4)]
        if what == "wait":
            return []
        some = list(self.ledger.jobs.values()) if what in ("cancel", "hold", "release") else computing
        if not some:
            return []
        job = some[number % len(some)]
        match what:
            case "measure":
                return [Measured(job.id, job.generation, 1.0, 0.5, number % 13, number % 37)]
            case "finish":
                return [Finished(job.id, job.generation)]
            case "lose":
                return [Lost(job.id, job.generation)]
            case "cancel":
                return [Cancelled(job.id)]
            case "hold":
                return [] if job.is_running else [Held(job.id)]
        return [Released(job.id)] if job.holds else []

    def submitted(self, number: int) -> Submitted:
        self.named += 1
        kind = (None, None, frozenset({"V100"}), frozenset({"K80"}))[number % 4]
        memory_bytes = (None, 1, 7, 20, 35)[number % 5]
        may_share = number % 11 != 0
        name = f"j{self.named}"
        return Submitted(JobSpec(name, device_types=kind, memory_bytes=memory_bytes, may_share=may_share))


@given(
    order=st.sampled_from(ORDERS),
    lanes=st.integers(1, 4),
    members=st.sampled_from((2, 5, 62)),
    story=st.lists(
        st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 10_000), st.sampled_from((0.0, 0.5, 4.0))),
        min_size=10,
        max_size=50,
    ),
)
@settings(max_examples=200, derandomize=True, database=None, deadline=None, phases=(Phase.generate,))
def test_nobody_is_overlooked_whatever_happens(
    order: Callable[[], QueueOrder], lanes: int, members: int, story: list[tuple[str, int, float]]
) -> None:
    anything = Anything(order(), lanes, members)
    for what, number, pause_s in story:
        anything.happen(what, number, pause_s)


class Watched(Lanes):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.looked_at_s: list[float] = []

    def _offers(self, view: View) -> list[Offer]:
        self.looked_at_s.append(view.now)
        return super()._offers(view)


def test_those_who_wait_are_looked_at_only_when_something_has_changed_for_them() -> None:
    share = Watched()
    stage = Stage(Policy(Fifo(strict=False), share=share), 1)
    stage.submit(0.0, "a", "b", memory_bytes=10 * GB)
    stage.tell(1.0)
    stage.tell(2.0, Progressed("a", 1, 7.0))
    assert share.looked_at_s == [0.0]
    stage.measure(3.0, "a")
    assert share.looked_at_s == [0.0, 3.0]
    assert set(stage.seated) == {"b"}


def test_what_changed_at_a_decision_that_failed_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = POLICIES["salus"]()
    stage = Stage(policy, 1)
    stage.submit(0.0, "a", "b", memory_bytes=10 * GB)
    with monkeypatch.context() as patch:
        patch.setattr(policy, "decide", lambda view: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stage.measure(1.0, "a")
    stage.tell(2.0)
    assert set(stage.seated) == {"b"}


@pytest.mark.parametrize("parameters", [{"in_lane": "lottery"}, {"members": 1}])
def test_values_that_make_no_sense_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(InputError):
        POLICIES["salus"](**parameters)
