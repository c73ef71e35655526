"""A guest beside a holder on one core: what the holder loses, and what the guest makes of the time that is left.

`python bench/opportunistic.py` prints all of it. AntMan's experiments A3 (computing) and A1 (memory), on a cpu device.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from figures import Figure, show
from weft.node import idling
from weft.node.bounds import FOLDERS_ON_DISK
from weft.node.gauge import Gauge, Look, watch
from weft.node.task import Task, attach
from weft.node.throttling import Steps, Throttle
from weft.runtime import layout
from weft.runtime.native import library_path

JOB = Path(__file__).parent / "opportunistic_job.py"
EXEC = [sys.executable, "-m", "weft.cli.main", "exec"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
CORE = max(os.sched_getaffinity(0))
WIDTH, WAIT_MS, GUEST_WIDTH = 24, 16.0, 32
TICK_S, BLOCK_S, ROUNDS = 0.05, 3.0, 3
CONVERGE_S = {True: 4.0, False: 12.0}
ON_DISK = ("--overflow", FOLDERS_ON_DISK[0])
MB = 1 << 20
GOAL = 0.03
ANTMAN = "AntMan (recorded): packing slows ESPnet 5.23 x; with its controller as if alone"


@contextmanager
def job(*words: object) -> Iterator[Task]:
    """A task under weft exec; ended with its standard input."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/dev/shm") as folder:
        page = Path(folder) / "page"
        command = [*EXEC, "--page", str(page), *ON_DISK, "--", sys.executable, str(JOB), str(CORE), *map(str, words)]
        process = subprocess.Popen(command, env=ENV, stdin=subprocess.PIPE)
        while not page.exists():
            time.sleep(0.01)
        with attach(page) as task:
            while process.poll() is None and task.step < 5:
                time.sleep(0.01)
            yield task
            task.resume()
            _, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a job has failed with {process.returncode}")


def look(task: Task, neighbours: frozenset[str]) -> Look:
    words = task.firsts[0].words
    return Look(time.monotonic(), words[layout.STEP], words[layout.HEARTBEAT] / 1e9, neighbours)


Tick = Callable[[], object]


@dataclass(frozen=True)
class Block:
    """Steps a second of both over a block, warm-up left out."""

    rate_hz: float
    guest_hz: float


def block(holder: Task, guest: Task, tick: Tick, name: str, lasts_s: float = BLOCK_S) -> Block:
    mine, its = Gauge(), Gauge()
    until_s = time.monotonic() + lasts_s
    while time.monotonic() < until_s:
        tick()
        mine, its = watch(mine, look(holder, frozenset({name}))), watch(its, look(guest, frozenset({name})))
        time.sleep(TICK_S)
    return Block(mine.rate.rate_hz if mine.rate else 0.0, its.rate.rate_hz if its.rate else 0.0)


@dataclass(frozen=True)
class Seen:
    """By how much the holder is slower, each time; the guest's share of time; how the blocks alone differ."""

    slower: list[float]
    share: float
    noise: float


class Rounds:
    """Alone, beside, alone: what a block beside is held against is what is around it."""

    def __init__(self, holder: Task, guest: Task, guest_s: float) -> None:
        self._holder, self._guest, self._guest_s = holder, guest, guest_s

    def compared(self, tick: Tick, rounds: int = ROUNDS) -> Seen:
        alone, slower, shares = [self._alone(tick).rate_hz], [], []
        for _ in range(rounds):
            beside = block(self._holder, self._guest, tick, "beside")
            alone.append(self._alone(tick).rate_hz)
            slower.append((alone[-2] + alone[-1]) / 2 / beside.rate_hz - 1)
            shares.append(beside.guest_hz * self._guest_s)
        noise = max(abs(one / two - 1) for one, two in pairwise(alone))
        return Seen(slower, statistics.mean(shares), noise)

    def _alone(self, tick: Tick) -> Block:
        while tick() == "learning":  # it has gated the guest itself
            time.sleep(TICK_S)
        self._guest.pause(grace_s=60)
        alone = block(self._holder, self._guest, tick, "alone")
        self._guest.resume()
        return alone


def rows(name: str, seen: Seen, idle: float, *, is_goal: bool) -> list[Figure]:
    middle = statistics.median(seen.slower)
    each = ", ".join(f"{100 * one:.1f}" for one in seen.slower)
    goal, is_met = ("<= 3 %", middle <= GOAL) if is_goal else ("", None)
    figures = [
        Figure(f"{name}: holder slower by", f"{100 * middle:.1f} % ({each})", goal, is_met),
        Figure("    alone against alone differs by at most", f"{100 * seen.noise:.1f} %"),
    ]
    if not idle:
        return [*figures, Figure("    the guest computes for", f"{100 * seen.share:.1f} % of the time")]
    used = seen.share / idle
    goal, is_met = (">= 50 %", used >= 0.5) if is_goal else ("", None)
    return [*figures, Figure("    the guest uses, of the time left idle", f"{100 * used:.0f} %", goal, is_met)]


def computing(guest: Task, guest_s: float) -> list[Figure]:
    """A holder that waits for input two fifths of its time, and a guest that computes all the time it gets."""
    guest.pause(grace_s=60)
    with job(WIDTH, WAIT_MS) as holder:
        alone_hz = block(holder, guest, _nothing, "alone").rate_hz
        guest.resume()
        rounds, idle = Rounds(holder, guest, guest_s), alone_hz * WAIT_MS / 1e3
        figures = [Figure("the holder waits for its input", f"{100 * idle:.0f} % of the time", peers=ANTMAN)]
        figures += rows("packed", rounds.compared(_nothing, 1), idle, is_goal=False)
        idling.idle(guest.roots, holder.roots)
        figures += rows("in the idle class alone", rounds.compared(_nothing, 2), idle, is_goal=False)
        idling.undo(guest.roots)
        for idles in (False, True):
            name = f"controller {'and' if idles else 'without'} idle class"
            seen, trail = controlled(holder, guest, rounds, idles=idles)
            figures += [*rows(name, seen, idle, is_goal=idles), Figure("    duty over time", trail)]
        return figures


def computing_all_the_time(guest: Task, guest_s: float) -> list[Figure]:
    """A holder that leaves nothing idle."""
    with job(WIDTH, 0) as holder:
        seen, _ = controlled(holder, guest, Rounds(holder, guest, guest_s), idles=True)
    return rows("controller and idle class", seen, 0.0, is_goal=True)


BURSTS = (40, 110, 111, 112, 113, 160)
CAPACITY = 128 * MB


def bursting(guest: Task) -> list[Figure]:
    """Some steps of the holder need four times the memory, on a device that is full; the first burst has no limit."""
    durations_s: list[float] = []
    guest.pause(grace_s=60)
    with job(WIDTH, WAIT_MS, *BURSTS) as holder:
        steps = Steps(holder, from_the_first=True)
        while holder.step < BURSTS[1] - 25:  # what the library remembers of the first burst is gone
            durations_s += steps.new_durations_s()
            time.sleep(TICK_S)
        guest.resume()
        with Throttle(holder, CAPACITY, on_cores=True) as throttle:
            throttle.add("guest", guest)
            limits = set[int | None]()
            while holder.step < max(BURSTS) + 20:
                setting = throttle.tick(time.monotonic())
                limits.add(setting.guests["guest"].limit_bytes)
                durations_s += steps.new_durations_s()
                time.sleep(0.01)
        words = holder.firsts[0].words
        unmeasured = words[layout.STEP] - words[layout.DURATIONS_COUNT]
        before = guest.step
        time.sleep(1)
        has_gone_on = guest.step > before
    free_s, *bursts_s = (durations_s[each - unmeasured] for each in BURSTS)
    slow = sum(each > 1.25 * free_s for each in bursts_s)
    shown = ", ".join(f"{1e3 * each:.0f}" for each in bursts_s)
    sizes = " to ".join(f"{each / MB:.0f}" for each in (max(filter(None, limits)), min(filter(None, limits))))
    return [
        Figure("a step with a burst, alone and without limit", f"{1e3 * free_s:.0f} ms"),
        Figure("four bursts in a row, and one later", f"{shown} ms"),
        Figure("    of these slowed down by more than a quarter", str(slow), "<= 1", slow <= 1),
        Figure("the guest's limit goes from", f"{sizes} MB"),
        Figure("the guest goes on", "yes" if has_gone_on else "no", "yes", has_gone_on),
    ]


def controlled(holder: Task, guest: Task, rounds: Rounds, *, idles: bool) -> tuple[Seen, str]:
    trail: list[int] = []
    with Throttle(holder, on_cores=True, idles=idles) as throttle:
        throttle.add("guest", guest)

        def tick() -> str:
            setting = throttle.tick(time.monotonic())
            duty = setting.guests["guest"].duty
            if duty and (not trail or trail[-1] != duty):
                trail.append(duty)
            return setting.reason

        until_s = time.monotonic() + CONVERGE_S[idles]
        while time.monotonic() < until_s or tick() != "sharing":
            tick()
            time.sleep(TICK_S)
        seen = rounds.compared(tick, ROUNDS if idles else 2)
    return seen, " ".join(map(str, trail[-12:]))


def _nothing() -> None:
    pass


def main() -> int:
    """In a session of its own, which the kernel schedules as a group: strangers can be kept from it, if we may."""
    if sys.argv[1:] != ["inside"]:
        return subprocess.run([sys.executable, __file__, "inside"], start_new_session=True).returncode
    if library_path() is None:
        print("No native library (weft doctor says why): nothing was measured.")
        return 0
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")
    with job(GUEST_WIDTH, 0) as guest:
        guest_s = 1 / block(guest, guest, _nothing, "alone").rate_hz
        all_met = show("A guest beside a holder that waits for input, one core (A3)", computing(guest, guest_s))
        title = "A guest beside a holder that always computes, one core"
        all_met &= show(title, computing_all_the_time(guest, guest_s))
        all_met &= show("A holder with bursts of memory beside a guest (A1)", bursting(guest))
    print("\nAll goals met." if all_met else "\nSome goals were missed: see above.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
