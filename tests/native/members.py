"""Small C members of a lane: native/tests/member.c, run as real processes."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Timer
from typing import ClassVar

from compiled import NATIVE, build

from waiting import PATIENCE_S, state_of

TURNSTILE = ("turnstile.c", "membership.c", "lane_page.c", "process.c", "guard.c")
MEMBERS_AT, MEMBER_WORDS = 16, 16
FAIL_POINTS = sorted(
    point
    for source in TURNSTILE
    for point in re.findall(r'weft_fail_point\("([a-z-]+)"\)', (NATIVE / source).read_text())
)


def program(*flags: str) -> Path:
    return build("member", "tests/member.c", *TURNSTILE, flags=flags)


@contextmanager
def lane_folder() -> Iterator[Path]:
    """On a tmpfs, where lanes' pages belong."""
    tmpfs = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="weft-test-", dir=tmpfs if tmpfs.is_dir() else None) as folder:
        yield Path(folder)


class Member:
    living: ClassVar[list[Member]] = []

    def __init__(
        self, lane: Path, number: int, steps: int | None, fail: str = "", flags: tuple[str, ...] = (), **options: int
    ) -> None:
        """`steps` of None: it does what it is told. `fail` is POINT:SIGNAL:TIMES. Options are those of member.c."""
        self.number, self.has_ended = number, False
        flags = (*flags, "-DWEFT_FAIL_POINTS") if fail else flags
        words = [str(number), "-" if steps is None else str(steps), *(f"{n}={v}" for n, v in options.items())]
        self.process = subprocess.Popen(
            [program(*flags), lane, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "WEFT_FAIL": fail},
        )
        self.living.append(self)

    @classmethod
    def end_all(cls) -> None:
        while cls.living:
            process = cls.living.pop().process
            process.kill()
            process.communicate()

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """Empty if it says nothing for too long, which it does not survive."""
        assert self.process.stdout
        patience = Timer(PATIENCE_S, self.process.kill)
        patience.start()
        try:
            return self.process.stdout.readline().strip()
        finally:
            patience.cancel()

    def joined(self) -> Member:
        said = self.line()
        assert said == "joined", (said, self.process.stderr and self.process.stderr.read())
        return self

    def tell(self, words: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def ask(self, words: str) -> str:
        self.tell(words)
        return self.line()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def is_stopped(self) -> bool:
        return state_of(self.pid) == "T"

    def end(self) -> int:
        """Its exit status."""
        if self.has_ended:
            return self.process.returncode
        self.has_ended = True
        out, err = self.process.communicate(timeout=PATIENCE_S)
        self.said = out.splitlines()[-1] if out else ""
        self.complained = err
        return self.process.returncode

    def finishes_as_if_alone(self) -> bool:
        """It ended by itself, and its hash is the one that it has in a lane of its own."""
        status = self.end()
        assert status == 0, (self.number, status, self.complained)
        steps, value, _ = self.said.split()
        assert value == alone(self.number, int(steps))
        return True

    def ended_well_or_was_killed(self) -> bool:
        """Killed also by the signal that asks it to end, if that came before it could understand it."""
        return self.end() in (-signal.SIGKILL, -signal.SIGTERM) or self.finishes_as_if_alone()


@cache
def alone(number: int, steps: int) -> str:
    if steps == 0:
        return "0" * 16  # it was asked to end before its first
    with lane_folder() as folder:
        member = Member(folder / "alone", number, steps)
        assert member.end() == 0, member.complained
        assert not (folder / "alone").exists()
        return str(member.said.split()[1])


def words(lane: Path) -> tuple[int, ...]:
    return struct.unpack("=1024Q", lane.read_bytes())


def write_word(lane: Path, index: int, value: int) -> None:
    with lane.open("r+b") as page:
        page.seek(8 * index)
        page.write(struct.pack("=Q", value))
