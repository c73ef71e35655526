"""A guaranteed job and an opportunistic one under one daemon, as users submit them, and how fast each of them steps."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import weft
from live import weft_here
from weft.node.devices.cpu import cpu_times_s
from weft.node.task.handle import Task, attach
from weft.runtime.page import layout

JOB = str(Path(__file__).with_name("opportunistic_job.py"))
TENANT = "gold"
CORE = str(max(os.sched_getaffinity(0)))
WARM_UP_S = 0.3
WITHOUT = {
    "nothing": [],
    "idle class": ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"],
    "idle class and weights": ["unshare", "--cgroup", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"],
}
"""How to start a weft that may not put jobs into the kernel's idle class and out again, as most users; or that cannot
tell whether the weights of sessions count, either, as in a container. Only root can give up a right that it has."""


def weft_of_classes(devices: str, without: str = "nothing") -> AbstractContextManager[weft.Client]:
    """A weft on one core, with a quota."""
    quota = f"[tenants.{TENANT}]\nquota = 1\n"
    return weft_here(devices, "antman", CORE, settings=quota, through=WITHOUT[without])


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """A benchmark that waits in vain says for what."""
    until_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.1)


def task_of(client: weft.Client, job_id: str) -> Task:
    """What it says of itself, step by step; the daemon hears of it once a second."""
    return attach(client.home.page(job_id, client.status(job_id)["attempt"], 0))


@dataclass(frozen=True)
class Block:
    """Over a while, warm-up left out: steps a second of both, and which part of the time the guest computed."""

    rate_hz: float
    guest_hz: float
    guest_computed: float


class Pair:
    """The opportunistic job comes first and has the device for itself; then the guaranteed one takes it, and the first
    waits until it may be its guest. `weft hold` makes it stand aside, `weft release` brings it back."""

    def __init__(self, client: weft.Client, holder: list[str], guest: list[str], guest_bytes: int) -> None:
        self._client, self._holder_words = client, holder
        self.guest_id = client.submit([sys.executable, JOB, *guest], job_class="opportunistic", gpu_mem=guest_bytes)
        self.guest = self._task(self.guest_id)
        self.guest_step_s = 1 / self._rates_hz([self.guest], 2.0)[0]
        self._hold()

    def _hold(self) -> None:
        words = [sys.executable, JOB, *self._holder_words]
        self.holder_id = self._client.submit(words, tenant=TENANT, job_class="guaranteed")
        self._client.hold(self.guest_id)
        self.holder = self._task(self.holder_id)
        wait_until(self._is_measured, "the guaranteed job is measured alone")

    def hold_anew(self) -> None:
        """Another guaranteed job, of which nothing is known yet. The guest stands aside."""
        self._client.cancel(self.holder_id)
        self._client.wait(self.holder_id)
        self._hold()

    def _task(self, job_id: str) -> Task:
        wait_until(lambda: bool(self._client.status(job_id)["steps"]), f"job {job_id} makes steps")
        return task_of(self._client, job_id)

    def _is_measured(self) -> bool:
        said = [event["text"] for event in self._client.events(self.holder_id) if event["what"] == "Measured"]
        return any(text.endswith("alone") for text in said)

    def part(self) -> None:
        """The guest gives up its seat, and stands aside where it was: in memory, at a step boundary."""
        self._client.hold(self.guest_id)
        wait_until(lambda: all(rank.is_paused for rank in self.guest.ranks), "the guest stands still")

    def seat(self, policy: str) -> None:
        """A policy that is chosen anew looks for seats at once. Returns when the guest computes."""
        self.part()
        self._client.policy(policy)
        step = self.guest.step
        self._client.release(self.guest_id)
        wait_until(lambda: self.guest.step > step, "the guest computes")
        assert self._client.status(self.guest_id)["guest"], "it computes, but not as a guest"

    def alone(self, seconds: float) -> Block:
        """The guest keeps its seat, and is gated for so long; it is the node's again when it is let go on."""
        self.guest.pause()
        return self.block(seconds)

    def beside(self, seconds: float) -> Block:
        self.guest.resume()
        return self.block(seconds)

    def block(self, seconds: float) -> Block:
        time.sleep(WARM_UP_S)
        before_s, begun_s = self._guest_computed_s(), time.monotonic()
        rates_hz = self._rates_hz([self.holder, self.guest], seconds)
        return Block(*rates_hz, (self._guest_computed_s() - before_s) / (time.monotonic() - begun_s))

    def _guest_computed_s(self) -> float:
        return cpu_times_s({0: self.guest.roots})[0]

    def _rates_hz(self, tasks: list[Task], seconds: float) -> list[float]:
        """From step to step, which is exact; of who makes few of them, by the time that passes."""
        before, begun_s = [_seen(task) for task in tasks], time.monotonic()
        time.sleep(seconds)
        passed_s, after = time.monotonic() - begun_s, [_seen(task) for task in tasks]
        both = zip(before, after, strict=True)
        return [(b[0] - a[0]) / (b[1] - a[1] if b[0] - a[0] > 20 else passed_s) for a, b in both]


def _seen(task: Task) -> tuple[int, float]:
    """Its steps, and when the last of them ended."""
    words = task.firsts[0].words
    return words[layout.STEP], words[layout.HEARTBEAT] / 1e9
