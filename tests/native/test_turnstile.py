"""Members of a lane take turns, whatever becomes of the others. Real processes: native/tests/member.c."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compiled import build
from members import FAIL_POINTS, MEMBER_WORDS, MEMBERS_AT, TURNSTILE, Member, lane_folder, words, write_word

from waiting import wait_until

VERSION, PID_NAMESPACE, OWNER, TURN, BEREAVED = 1, 3, 4, 7, 10
USED = 5
GRACE_MS = 60
AWAY_NS = 3_000_000  # as in turnstile.c


@pytest.fixture
def lane() -> Iterator[Path]:
    with lane_folder() as folder:
        yield folder / "lane"


@pytest.fixture(autouse=True)
def _nobody_outlives_the_test() -> Iterator[None]:
    yield
    Member.end_all()


# ---- turns ----


def test_members_in_one_lane_do_what_they_do_alone(lane: Path) -> None:
    members = [Member(lane, number, 500) for number in range(6)]
    assert all(member.finishes_as_if_alone() for member in members)
    assert not lane.exists(), "the last one removes the page"


def test_the_sanitizers_have_nothing_to_say(lane: Path) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    members = [Member(lane, number, 100, flags=flags, rejoins=3) for number in range(3)]
    for member in members:
        assert member.end() == 0, member.complained
        assert member.complained == ""


def test_a_turn_is_waited_for_until_it_is_released(lane: Path) -> None:
    first, second = Member(lane, 1, None).joined(), Member(lane, 2, None).joined()
    first.ask("take")
    second.tell("take")
    wait_until(lambda: first.ask("waiting") == "1")
    assert first.ask("release") == "released"
    assert int(second.line()) > 0
    assert [first.end(), second.end()] == [0, 0]


def test_a_member_that_alone_wants_the_turn_makes_no_system_call(lane: Path) -> None:
    Member(lane, 1, None).joined()  # and idle
    busy = Member(lane, 2, None).joined()
    busy.ask("take")
    busy.tell("sealed 1000")
    assert busy.end() == 0, "the kernel ends it at the first system call"


def test_a_forked_child_has_nothing_to_do_with_the_lane(lane: Path) -> None:
    parent = Member(lane, 1, None).joined()
    parent.ask("take")
    assert parent.ask("fork") == "0"
    assert parent.ask("release") == "released"
    assert words(lane)[TURN] & 0xFF == 0xFF
    assert parent.end() == 0
    assert not lane.exists()


def test_the_lane_needs_what_the_neediest_living_member_needs(lane: Path) -> None:
    small, large = Member(lane, 1, None).joined(), Member(lane, 2, None).joined()
    assert small.ask("needs 10") == "10"
    assert large.ask("needs 70") == "70"
    assert small.ask("needs 20") == "70"
    large.send(signal.SIGKILL)
    large.end()
    Member(lane, 3, 1).end()  # whoever joins or leaves frees the slots of the dead
    assert small.ask("needs 30") == "30"


def test_a_late_release_of_an_older_generation_does_nothing(lane: Path) -> None:
    late = Member(lane, 1, None).joined()
    late.ask("take")
    newer = (words(lane)[TURN] >> 8) + 7 << 8 | 0xFF
    write_word(lane, TURN, newer)
    assert late.ask("release") == "released"
    assert words(lane)[TURN] == newer
    late.ask("take")
    assert late.end() == 0


def test_a_turn_offered_to_one_that_does_not_want_it_is_anybodys(lane: Path) -> None:
    """As when a member dies, and another comes into its slot, while a third one chooses it."""
    Member(lane, 1, None).joined()
    write_word(lane, TURN, 1000 << 8 | 0)
    assert int(Member(lane, 2, None).joined().ask("take")) > 0


def test_one_whose_turn_it_is_and_who_does_not_come_is_passed(lane: Path) -> None:
    """By its key the next turn is its own, but it loads data, say. When it comes it waits as any other."""
    first, other = Member(lane, 1, None, base=0).joined(), Member(lane, 2, None, base=9).joined()
    first.ask("take")
    first.ask("pass")
    assert int(other.ask("take")) >= AWAY_NS
    assert other.ask("waiting") == "0"
    other.ask("pass")
    first.ask("take")


def test_for_one_that_always_comes_too_late_no_place_is_kept(lane: Path) -> None:
    """One that computes now and then, when it is asked something, would make all others wait after each answer."""
    first, other = Member(lane, 1, None, base=0).joined(), Member(lane, 2, None, base=9).joined()
    first.ask("take")
    for _ in range(3):
        first.ask("pass")
        assert other.ask("waiting") == "1"
        assert int(other.ask("take")) >= AWAY_NS
        other.ask("release")
        first.ask("take")
    first.ask("pass")
    assert other.ask("waiting") == "0"
    other.ask("take")


# ---- whose turn is next ----


def turns_of(lane: Path, *asked: dict[str, int], steps: int, spin_us: int = 0) -> list[tuple[int, int]]:
    """(member, what it had used before) for each turn, once all of them wait. Number n is described by asked[n - 1]."""
    warden = Member(lane, 0, None).joined()
    warden.ask("take")
    members = []
    for number, options in enumerate(asked, 1):  # one after the other: that is the order in which they wait
        members.append(Member(lane, number, steps, spin_us=spin_us, idle=2, **options).joined())
        wait_until(lambda: warden.ask("waiting") == str(len(members)))
    warden.ask("release")
    assert all(member.finishes_as_if_alone() for member in members)
    entries = [entry.split(",") for entry in warden.ask("entries").split()]
    assert warden.end() == 0
    return [(int(number), int(used)) for number, used in entries[1:]]


def order(turns: list[tuple[int, int]]) -> list[int]:
    return [number for number, _ in turns]


def test_equal_keys_go_round(lane: Path) -> None:
    assert order(turns_of(lane, {}, {}, {}, steps=4)) == [1, 2, 3] * 4


def test_fifo_serves_the_one_who_came_first_until_it_is_done(lane: Path) -> None:
    turns = turns_of(lane, {"base": 300}, {"base": 100}, {"base": 200}, steps=4)
    assert order(turns) == [2] * 4 + [3] * 4 + [1] * 4


def test_a_higher_priority_goes_before_fairness(lane: Path) -> None:
    fair = {"base": 0, "weight": 1000}
    turns = turns_of(lane, fair, fair, {"base": -(10**15), "weight": 1000}, steps=3)
    assert order(turns)[:3] == [3] * 3


def test_srtf_serves_the_one_with_least_left(lane: Path) -> None:
    second = 10**9
    longest, shortest, middle = ({"base": n * second, "weight": -1000} for n in (3, 1, 2))
    assert order(turns_of(lane, longest, shortest, middle, steps=4)) == [2] * 4 + [3] * 4 + [1] * 4


def test_keys_do_not_overflow(lane: Path) -> None:
    least, most = {"base": -(2**63), "weight": -(2**63)}, {"base": 2**63 - 1, "weight": 2**63 - 1}
    assert order(turns_of(lane, most, least, steps=3)) == [2] * 3 + [1] * 3


def test_fair_gives_time_by_weight(lane: Path) -> None:
    """Each turn is of the one with the smallest weight × used, as the members themselves counted it.

    But for one that the machine let come too late, and who was passed; in plain turns it would be every third.
    """
    weights = {1: 1000, 2: 2000, 3: 1000}
    turns = turns_of(lane, *({"weight": weight} for weight in weights.values()), steps=40, spin_us=200)
    counted = {number: [used for other, used in turns if other == number] for number in weights}
    all_turns, passed = len(turns), 0
    while all(counted.values()):  # until one has had its last turn
        number, used = turns.pop(0)
        keys = {waiting: weights[waiting] * of[0] // 1000 for waiting, of in counted.items()}
        passed += keys[number] != min(keys.values())
        assert counted[number].pop(0) == used
    assert len(turns) < 80
    assert passed < (all_turns - len(turns)) / 5


def test_a_newcomer_under_fair_begins_where_the_others_are(lane: Path) -> None:
    old = Member(lane, 1, None, weight=1000).joined()
    for _ in range(3):
        old.ask("take")
        old.ask("release")
    Member(lane, 2, None, weight=1000).joined().end()
    other = Member(lane, 3, None, weight=1000).joined()
    page = words(lane)
    used = [page[MEMBERS_AT + MEMBER_WORDS * slot + USED] for slot in (0, 1)]
    assert used[0] == used[1] > 0
    assert [old.end(), other.end()] == [0, 0]


# ---- the dead and the stopped ----


def test_random_kills_and_stops_do_not_hinder_the_others(lane: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    survivors = [Member(lane, number, 0, spin_us=50, grace_ms=GRACE_MS).joined() for number in (1, 2, 3)]
    victims: list[Member] = []
    stopped: list[Member] = []
    for number in range(300):
        victim = Member(lane, 100 + number, 0, spin_us=50, grace_ms=GRACE_MS)
        victims.append(victim)
        if chance.random() < 0.5:
            victim.line()
        else:
            random_moment(chance, 0.003)
        if chance.random() < 0.25:
            victim.send(signal.SIGSTOP)
            stopped.append(victim)
        else:
            victim.send(signal.SIGKILL)
            if chance.random() < 0.5:
                victim.end()  # the others stay zombies for now
        if len(stopped) > chance.randrange(20):
            ask_to_end(stopped.pop(0))
    assert words(lane)[BEREAVED] > 10, "many died in their turn, or when they were offered it"
    going_on = [victim for victim in victims if victim.process.poll() is None]
    for member in (*going_on, *survivors):
        ask_to_end(member)
    assert all(survivor.finishes_as_if_alone() for survivor in survivors)
    assert all(victim.ended_well_or_was_killed() for victim in going_on)
    assert not lane.exists(), "the last one removes the page"


def ask_to_end(member: Member) -> None:
    """After its present step; if it is stopped, once it goes on."""
    member.send(signal.SIGTERM)
    member.send(signal.SIGCONT)


def random_moment(chance: random.Random, most_s: float) -> None:
    """Any length will do: the test is right for each."""
    subprocess.run(["sleep", str(chance.uniform(0, most_s))], check=True)


@pytest.fixture(params=[signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def blow(request: pytest.FixtureRequest) -> signal.Signals:
    return request.param


NEEDS_A_DEATH = {"found-it-dead", "slot-freed"}
ALONE_ONLY = {"draft-written", "page-made", "about-to-unlink", "unlinked"}
AMID_ONLY = {"bell-counted", "about-to-sleep"}


def has_been_struck(victim: Member) -> bool:
    return victim.process.poll() is not None or victim.is_stopped()


def all_others_finish(victim: Member, others: list[Member]) -> None:
    assert all(other.finishes_as_if_alone() for other in others)
    if victim.process.poll() is None:
        victim.send(signal.SIGCONT)
    assert victim.ended_well_or_was_killed()


@pytest.mark.parametrize("point", sorted(set(FAIL_POINTS) - AMID_ONLY - NEEDS_A_DEATH))
def test_whoever_comes_after_one_that_ended_anywhere_goes_on(lane: Path, point: str, blow: signal.Signals) -> None:
    victim = Member(lane, 9, 20, fail=f"{point}:{blow.value}:1", grace_ms=GRACE_MS)
    wait_until(lambda: has_been_struck(victim), point)
    if lane.exists():
        write_word(lane, 8, GRACE_MS * 10**6)  # it may have been struck before it said so
    others = [Member(lane, number, 50, grace_ms=GRACE_MS) for number in (1, 2)]
    all_others_finish(victim, others)
    Member(lane, 3, 1).end()
    assert not lane.exists()


@pytest.mark.parametrize("point", sorted(set(FAIL_POINTS) - ALONE_ONLY - NEEDS_A_DEATH))
def test_those_amid_whom_one_ended_anywhere_go_on(lane: Path, point: str, blow: signal.Signals) -> None:
    others = [Member(lane, number, 0, spin_us=200, grace_ms=GRACE_MS).joined() for number in (1, 2)]
    victim = Member(lane, 9, 30, spin_us=200, fail=f"{point}:{blow.value}:1")
    wait_until(lambda: has_been_struck(victim), point)
    assert Member(lane, 3, 20).finishes_as_if_alone()
    if victim.process.poll() is None:
        victim.send(signal.SIGCONT)  # what it was about to do when the world moved on without it does no harm
    assert victim.ended_well_or_was_killed()
    for other in others:
        other.send(signal.SIGTERM)
    assert all(other.finishes_as_if_alone() for other in others)
    assert not lane.exists()


@pytest.mark.parametrize("point", sorted(NEEDS_A_DEATH))
def test_one_that_ends_while_it_takes_a_dead_ones_turn_leaves_it_to_the_next(
    lane: Path, point: str, blow: signal.Signals
) -> None:
    holder = Member(lane, 8, None, grace_ms=GRACE_MS).joined()
    holder.ask("take")
    victim = Member(lane, 9, 20, fail=f"{point}:{blow.value}:1")
    wait_until(lambda: holder.ask("waiting") == "1")
    holder.send(signal.SIGKILL)
    wait_until(lambda: has_been_struck(victim), point)
    others = [Member(lane, number, 20) for number in (1, 2)]
    all_others_finish(victim, others)


def test_a_holder_that_is_killed_is_counted(lane: Path) -> None:
    holder, waiter = Member(lane, 1, None).joined(), Member(lane, 2, None).joined()
    holder.ask("take")
    waiter.tell("take")
    wait_until(lambda: holder.ask("waiting") == "1")
    holder.send(signal.SIGKILL)
    assert waiter.line()
    assert words(lane)[BEREAVED] == 1
    wait_until(lambda: waiter.ask("members") == "1")


def test_a_stopped_holder_is_ended_after_the_grace_and_not_before(lane: Path) -> None:
    holder, waiter = Member(lane, 1, None, grace_ms=400).joined(), Member(lane, 2, None).joined()
    holder.ask("take")
    waiter.tell("take")
    wait_until(lambda: holder.ask("waiting") == "1")
    holder.send(signal.SIGSTOP)
    assert int(waiter.line()) >= 400e6 * 0.7, "seen between looks, which are 0.1 s apart"
    assert holder.end() == -signal.SIGKILL


def test_a_stopped_waiter_is_passed_over_and_lives(lane: Path) -> None:
    holder, waiter = Member(lane, 1, None, grace_ms=1).joined(), Member(lane, 2, None).joined()
    holder.ask("take")
    waiter.tell("take")
    wait_until(lambda: holder.ask("waiting") == "1")
    waiter.send(signal.SIGSTOP)
    wait_until(waiter.is_stopped)
    assert int(holder.ask("take")) < 5e9
    for _ in range(5):
        holder.ask("take")
    assert waiter.is_stopped()
    holder.ask("release")
    waiter.send(signal.SIGCONT)
    assert int(waiter.line()) > 0
    assert waiter.end() == 0


def test_signals_do_not_keep_a_waiter_from_seeing_that_the_holder_died(lane: Path) -> None:
    holder, waiter = Member(lane, 1, None).joined(), Member(lane, 2, None).joined()
    holder.ask("take")
    assert waiter.ask("alarm") == "alarmed"
    waiter.tell("take")
    wait_until(lambda: holder.ask("waiting") == "1")
    holder.send(signal.SIGKILL)
    assert int(waiter.line()) > 0


def test_a_holder_that_becomes_another_program_has_left(lane: Path) -> None:
    holder, waiter = Member(lane, 1, None).joined(), Member(lane, 2, None).joined()
    holder.ask("take")
    waiter.tell("take")
    wait_until(lambda: holder.ask("waiting") == "1")
    holder.tell("exec 600")
    assert int(waiter.line()) > 0
    assert waiter.end() == 0
    assert not lane.exists()
    assert holder.process.poll() is None


# ---- joining and leaving ----


def test_joining_and_leaving_at_once_never_loses_the_page(lane: Path) -> None:
    members = [Member(lane, number, 2, rejoins=5) for number in range(30)]
    for member in members:
        assert member.end() == 0, member.complained
    assert not lane.exists()


def test_one_that_opened_the_page_just_before_it_was_removed_joins_the_next(lane: Path) -> None:
    first = Member(lane, 1, None).joined()
    late = Member(lane, 2, None, fail=f"page-opened:{signal.SIGSTOP.value}:1")
    wait_until(late.is_stopped)
    assert first.end() == 0
    assert not lane.exists()
    next_one = Member(lane, 3, None).joined()
    late.send(signal.SIGCONT)
    late.joined()
    assert next_one.ask("members") == "2"
    assert [late.end(), next_one.end()] == [0, 0]
    assert not lane.exists()


def test_a_page_with_dead_members_only_is_taken_over(lane: Path) -> None:
    for number in (1, 2, 3):
        member = Member(lane, number, None).joined()
        member.ask("take")
        member.send(signal.SIGKILL)
        member.end()
        assert lane.exists()
    assert Member(lane, 4, 10).finishes_as_if_alone()
    assert not lane.exists()


def test_a_page_is_for_its_owner_alone(lane: Path) -> None:
    member = Member(lane, 1, None).joined()
    assert lane.stat().st_mode & 0o777 == 0o600
    assert member.end() == 0


def refusal(lane: Path) -> str:
    member = Member(lane, 1, 1)
    assert member.end() == 2
    assert member.complained.count("\n") == 1, "one line"
    return member.complained


def a_lane_of_the_dead(lane: Path) -> None:
    member = Member(lane, 1, None).joined()
    member.send(signal.SIGKILL)
    member.end()


def test_a_foreign_file_is_not_touched(lane: Path) -> None:
    lane.write_bytes(b"somebody's thesis".ljust(8192))
    assert "does not begin with WEFTLANE" in refusal(lane)
    lane.write_bytes(b"short")
    assert "5 bytes instead of 8192" in refusal(lane)
    assert lane.read_bytes() == b"short"


def test_what_is_no_file_is_refused(lane: Path) -> None:
    lane.mkdir()
    assert "is a folder" in refusal(lane)
    link = lane.with_name("link")
    link.symlink_to(lane)
    assert "symbolic link" in refusal(link)
    pipe = lane.with_name("pipe")
    os.mkfifo(pipe)
    assert "is no lane's page" in refusal(pipe)
    assert "no folder for the lane's page" in refusal(lane.with_name("missing") / "lane")


@pytest.mark.parametrize(
    ("word", "value", "why"),
    [
        (VERSION, 99, "of another weft (layout 99"),
        (PID_NAMESPACE, 1, "another container"),
        (OWNER, 12345, "another user's"),
    ],
)
def test_a_page_that_is_not_for_us_is_refused(lane: Path, word: int, value: int, why: str) -> None:
    a_lane_of_the_dead(lane)
    write_word(lane, word, value)
    assert why in refusal(lane)
    assert lane.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_page_of_another_user_is_refused(lane: Path) -> None:
    a_lane_of_the_dead(lane)
    os.chown(lane, 12345, 12345)
    assert "another user's" in refusal(lane)


def test_a_full_lane_is_refused_until_a_member_leaves(lane: Path) -> None:
    members = [Member(lane, number, None) for number in range(62)]
    for member in members:
        member.joined()
    assert "is full: it has 62 members" in refusal(lane)
    assert members.pop().end() == 0
    assert Member(lane, 1, 1).end() == 0


@contextmanager
def full_tmpfs(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], check=False).returncode != 0:
        pytest.skip("this root may not mount")
    try:
        (folder / "filler").write_bytes(bytes(12288))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small tmpfs")
def test_a_full_tmpfs_is_said_and_leaves_nothing_behind(lane: Path) -> None:
    with full_tmpfs(lane.with_name("small")) as folder:
        assert "its file system is full" in refusal(folder / "lane")
        assert [path.name for path in folder.iterdir()] == ["filler"]


# ---- the benchmark's tool ----


def test_hand_overs_are_measured(lane: Path) -> None:
    handover = build("handover", "tests/handover.c", *TURNSTILE)
    cores = sorted(os.sched_getaffinity(0))
    for pair in ((cores[0], cores[0]), (cores[0], cores[-1])):
        said = subprocess.run([handover, lane, *map(str, pair), "200"], capture_output=True, text=True, check=True)
        median, p99, most = map(int, said.stdout.split())
        assert 0 < median <= p99 <= most
    said = subprocess.run([handover, lane, str(cores[0]), "-", "1000"], capture_output=True, text=True, check=True)
    assert int(said.stdout) > 0
