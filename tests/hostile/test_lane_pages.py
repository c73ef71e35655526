"""A member of a lane that writes to the lane's page, or to its memory. The others neither crash nor hang.

What they compute may suffer: members of a lane share tensors, and no check keeps a member from writing there.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from box import BYSTANDER, NOWHERE, Attack

sys.path.insert(0, str(Path(__file__).parents[1] / "native"))
from compiled import folder_for_programs
from members import Member, alone, lane_folder

from extent import sample
from underweft import bare
from waiting import PATIENCE_S, state_of, wait_until
from weft.node.exec.command_limits import the_library
from weft.runtime.page import lane_page

ALL_ONES = (1 << 64) - 1
STEPS = 2000
Damage = Callable[[Path], None]


@pytest.fixture(scope="module", autouse=True)
def _programs() -> Iterator[None]:
    with folder_for_programs():
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    with lane_folder() as folder:
        yield folder
        Member.end_all()


def write(page: Path, word: int, number: int) -> None:
    with page.open("r+b") as file:
        file.seek(8 * word)
        file.write(struct.pack("=Q", number))


def words(*numbers: tuple[int, int]) -> Damage:
    def damage(page: Path) -> None:
        for word, number in numbers:
            write(page, word, number)

    return damage


def of_all_members(word: int, number: int) -> Damage:
    return words(
        *((lane_page.MEMBERS + slot * lane_page.MEMBER_WORDS + word, number) for slot in range(lane_page.LANE_MEMBERS))
    )


def noise(seed: int) -> Damage:
    def damage(page: Path) -> None:
        with page.open("r+b") as file:
            file.write(random.Random(seed).randbytes(lane_page.LANE_BYTES))

    return damage


def truncated(*sizes: int) -> Damage:
    def damage(page: Path) -> None:
        for size in sizes:
            os.truncate(page, size)

    return damage


def strangers(page: Path) -> None:
    """All slots are said to be of a process that is in no lane."""
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    of_all_members(lane_page.Member.PID, os.getpid())(page)
    of_all_members(lane_page.Member.START, start)(page)


DAMAGES: dict[str, Damage] = {
    "truncated to nothing": truncated(0),
    "truncated to half": truncated(4096),
    "truncated by a byte": truncated(8191),
    "truncated and grown again": truncated(0, lane_page.LANE_BYTES),
    "grown": truncated(1 << 20),
    "zeros": lambda page: truncated(0, lane_page.LANE_BYTES)(page),
    "noise": noise(1),
    "other noise": noise(2),
    "no magic": words((lane_page.MAGIC, 0)),
    "another version": words((lane_page.VERSION, 99)),
    "a turn of a slot that does not exist": words((lane_page.TURN, 3 << 8 | 200)),
    "a turn of an empty slot, accepted": words((lane_page.TURN, 0x1001 << 8 | 61)),
    "a turn of all ones": words((lane_page.TURN, ALL_ONES)),
    "a turn of nobody": words((lane_page.TURN, lane_page.NO_MEMBER)),
    "capacity and reserved of all ones": words((lane_page.CAPACITY, ALL_ONES), (lane_page.RESERVED, ALL_ONES)),
    "no capacity": words((lane_page.CAPACITY, 0)),
    "no grace for the stopped": words((lane_page.STOPPED_GRACE, 0)),
    "another memory": words((11, ALL_ONES), (12, ALL_ONES)),
    "pids of all ones": of_all_members(lane_page.Member.PID, ALL_ONES),
    "pids of nobody": of_all_members(lane_page.Member.PID, 0),
    "the pid of a stranger in all slots": strangers,
    "memory of all ones": of_all_members(lane_page.Member.MEMORY, ALL_ONES),
    "used and weights of all ones": lambda page: [
        of_all_members(word, ALL_ONES)(page)
        for word in (lane_page.Member.USED, lane_page.Member.WEIGHT, lane_page.Member.BASE)
    ].clear(),
    "everybody waits since ever": of_all_members(lane_page.Member.WAITS_SINCE, 1),
    "nobody waits": of_all_members(lane_page.Member.WAITS_SINCE, 0),
    "everybody is away": of_all_members(lane_page.Member.AWAY, 1),
    "bells of all ones": of_all_members(lane_page.Member.BELL, ALL_ONES),
    "needs of all ones": of_all_members(lane_page.Member.NEEDS, ALL_ONES),
}


@pytest.mark.parametrize("name", sample(list(DAMAGES), every=3))
def test_members_of_a_damaged_lane_end_by_themselves(folder: Path, attack: Attack, name: str) -> None:
    with attack(f"lane pages: {name}"):
        lane = folder / "lane"
        members = [Member(lane, number, STEPS, spin_us=50).joined() for number in (1, 2)]
        DAMAGES[name](lane)
        for member in members:
            status = member.end()
            assert status in (0, 1, 2), (status, member.complained)  # by itself: neither killed nor hanging


def test_noise_all_the_time_ends_nobody(folder: Path, attack: Attack) -> None:
    with attack("lane pages: noise in the words of turns and members, a thousand times"):
        lane = folder / "lane"
        members = [Member(lane, number, STEPS, spin_us=50).joined() for number in (1, 2, 3)]
        chance = random.Random(5)
        for _ in range(1000):
            word = chance.choice(
                [lane_page.TURN, *range(lane_page.MEMBERS, lane_page.MEMBERS + 4 * lane_page.MEMBER_WORDS)]
            )
            if lane.exists():
                write(lane, word, chance.choice([0, 1, ALL_ONES, chance.getrandbits(64)]))
        for member in members:
            assert member.end() in (0, 1, 2), member.complained


def test_a_stranger_that_is_stopped_is_not_killed(folder: Path, attack: Attack) -> None:
    """Members end one that is stopped in its turn; a page can name any process as that."""
    with attack("lane pages: a stopped stranger has the turn"):
        lane = folder / "lane"
        stranger = subprocess.Popen(["sleep", "1000"])
        try:
            stranger.send_signal(signal.SIGSTOP)
            wait_until(lambda: state_of(stranger.pid) == "T", "it is stopped")
            member = Member(lane, 1, None).joined()
            start = int(Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19])
            at = lane_page.MEMBERS + 5 * lane_page.MEMBER_WORDS
            words(
                (at + lane_page.Member.START, start), (at + lane_page.Member.MEMORY, 3), (lane_page.STOPPED_GRACE, 1)
            )(lane)
            words((at + lane_page.Member.PID, stranger.pid), (lane_page.TURN, 0x1001 << 8 | 5))(lane)
            assert member.ask("take").split()[0] != "", "it gets the turn, or leaves the lane"
            assert state_of(stranger.pid) == "T"
        finally:
            stranger.kill()
            stranger.wait()


def test_the_memory_of_a_lane_cannot_be_truncated(folder: Path, attack: Attack) -> None:
    with attack("lane pages: the memory is truncated by a member"):
        lane = folder / "lane"
        members = [Member(lane, number, STEPS, spin_us=50).joined() for number in (1, 2)]
        at = lane_page.MEMBERS + lane_page.Member.MEMORY
        fd = struct.unpack_from("=Q", lane.read_bytes(), 8 * at)[0]
        memory = f"/proc/{members[0].pid}/fd/{fd}"
        with pytest.raises(OSError, match="Operation not permitted"):
            os.truncate(memory, 0)
        for number, member in enumerate(members, 1):
            assert member.end() == 0, member.complained
            assert member.said.split()[1] == alone(number, STEPS)


def test_a_file_of_the_user_is_not_taken_for_a_lanes_memory(folder: Path, attack: Attack) -> None:
    with attack("lane pages: a file of the user is named as the lane's memory"):
        lane, precious = folder / "lane", folder / "precious"
        precious.write_bytes(b"precious" * 512)
        first = Member(lane, 1, None).joined()
        with precious.open("r+b") as file:
            found = os.fstat(file.fileno())
            at = lane_page.MEMBERS + 3 * lane_page.MEMBER_WORDS
            start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
            words((11, found.st_dev), (12, found.st_ino), (at + lane_page.Member.MEMORY, file.fileno()))(lane)
            words((at + lane_page.Member.START, start), (at + lane_page.Member.PID, os.getpid()))(lane)
            second = Member(lane, 2, 5)
            second.end()
        assert precious.read_bytes() == b"precious" * 512
        first.send(signal.SIGKILL)


def test_training_goes_on_bit_for_bit_when_its_lane_is_truncated(folder: Path, attack: Attack) -> None:
    library, why_not = the_library()
    if not library:
        pytest.skip(why_not)
    with attack("lane pages: truncated under two jobs that train"):
        lane, steps = folder / "lane", 60
        command = [sys.executable, "-m", "weft.cli.main", "exec", "--lane", str(lane), "--", sys.executable]
        script = [str(BYSTANDER), NOWHERE, "0.05", str(steps)]
        outputs = [folder / f"{number}.txt" for number in range(2)]
        jobs = []
        for output in outputs:
            with output.open("w") as file, output.with_suffix(".err").open("w") as errors:
                jobs.append(subprocess.Popen([*command, *script], stdout=file, stderr=errors))
        try:
            wait_until(lambda: all(len(path.read_text().splitlines()) > 5 for path in outputs), "both train")
            os.truncate(lane, 0)
            assert [job.wait(PATIENCE_S) for job in jobs] == [0, 0]
        finally:
            for job in jobs:
                job.kill()
                job.wait()
        said = outputs[0].with_suffix(".err").read_text() + outputs[1].with_suffix(".err").read_text()
        assert "the lane cannot be used any more" in said
        alone_said = bare(BYSTANDER, NOWHERE, "0", str(steps))
        assert [path.read_text() for path in outputs] == [alone_said, alone_said]
