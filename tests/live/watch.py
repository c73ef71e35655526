"""Looks at a weft some four times a second, from outside, and keeps what must not be."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.client import Client
from weft.core.errors import WeftError
from weft.core.sharing import Memory, needed_bytes
from weft.node.devices import sched_idle
from weft.node.devices.cpu import SYSTEM, TICKS_HZ, USER
from weft.node.task.handle import Task, attach
from weft.runtime import procfs
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth
from weft.system import processes
from weft.system.home import Home

LOOK_S = 0.25
OVER_S = 10.0
"""For so long devices may hold more than they have: a job that grows has to be measured first."""
STUCK_S = 15.0
"""A job that is alone on its devices makes a step within so much time."""
FREED_S = 6.0
"""And after so much it is not held back any more."""
FOREIGN = 0.15
"""The machine is overloaded if others than this weft use more than this part of its cores."""
BEFORE_S = 8.0
"""What is measured is of about so much time."""

Job = dict[str, Any]


@dataclass
class Load:
    """Which part of the cores others use than these processes."""

    roots: Callable[[], Collection[int]]
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    seen: list[tuple[float, float]] = field(default_factory=list)
    """When, as clocks on the wall say it, and which part."""
    _before: tuple[float, float, dict[int, float]] | None = None

    def look(self, now_s: float) -> None:
        """Once a second or so. Process by process: what one that has ended had used must not count against us."""
        if self._before and now_s - self._before[0] < 1.0:
            return
        busy_s = _busy_s()
        used_s = {pid: _used_s(pid) for pid in processes.family(self.roots())}
        if self._before:
            at_s, busy_before_s, before_s = self._before
            ours_s = sum(max(0.0, each_s - before_s.get(pid, 0.0)) for pid, each_s in used_s.items())
            foreign_s = max(0.0, busy_s - busy_before_s - ours_s)
            self.seen.append((time.time(), foreign_s / (now_s - at_s) / self.cores))
        self._before = (now_s, busy_s, used_s)

    def was_high(self, at: float, lasted_s: float = BEFORE_S) -> bool:
        """In the stretch that ended then."""
        lately = [part for seen_at, part in self.seen if at - lasted_s < seen_at <= at + 1.0]
        return not lately or sum(lately) / len(lately) > FOREIGN


def _used_s(pid: int) -> float:
    """By itself alone."""
    fields = procfs.fields(pid)
    return sum(int(fields[each]) for each in (USER, SYSTEM)) / TICKS_HZ if fields else 0.0


def _busy_s() -> float:
    """Of all cores since the machine came up, time stolen by others on its host included."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, stolen = numbers[:8]
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


class Watcher:
    def __init__(self, home: Home, device_bytes: int, roots: Callable[[], Collection[int]]) -> None:
        self.home, self.device_bytes = home, device_bytes
        self.load = Load(roots)
        self.wrongs: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.harmed: list[float] = []
        """When processes of this weft were, as clocks on the wall say it: they may have to be replaced first."""
        self.disturbed_s = 0.0
        """When the last was."""
        self._over: dict[str, float] = {}
        self._moved: dict[str, tuple[int, int, float]] = {}
        self._alone: dict[str, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            now_s = time.monotonic()
            with suppress(FileNotFoundError, ProcessLookupError):
                self.load.look(now_s)
            try:
                with Client(self.home, timeout_s=1.0) as client:
                    jobs = client.queue()
            except WeftError:
                self._over.clear()
                self._moved.clear()
                self._alone.clear()
                continue
            self.look([job for job in jobs if job["state"] == "RUNNING"], now_s)

    def look(self, running: list[Job], now_s: float) -> None:
        self.counts["looks"] += 1
        on: dict[str, list[Job]] = defaultdict(list)
        for job in running:
            for device in job["devices"]:
                on[device].append(job)
        for device, jobs in on.items():
            self._look_at(device, jobs, now_s)
        for gone in self._over.keys() - on.keys():
            del self._over[gone]
        for job in running:
            self._look_for_steps(job, now_s)
            self._look_for_bounds(job, now_s)
        for kept in (self._moved, self._alone):
            for job_id in kept.keys() - {job["id"] for job in running}:
                del kept[job_id]

    def _look_at(self, device: str, jobs: list[Job], now_s: float) -> None:
        holders = [job["id"] for job in jobs if not job["guest"]]
        if len(holders) > 1:
            self.wrong("two holders", f"{holders} hold {device} together")
        self.counts["looks at guests"] += len(jobs) > len(holders)
        self.counts["looks at lanes"] += any(job["lane"] for job in jobs) and len(jobs) > 1
        needed = needed_bytes((_memory(job), job["lane"] or 0) for job in jobs)
        if len(jobs) < 2 or needed <= self.device_bytes:
            self._over.pop(device, None)
            return
        self.counts["looks at more than fits"] += 1
        since_s = max(self._over.setdefault(device, now_s), self.disturbed_s)
        if now_s - since_s > OVER_S:
            told = [(job["id"], job["guest"], job["lane"], job["memory"]) for job in jobs]
            self.wrong(
                "too much on a device", f"{device} has {self.device_bytes}, and for {OVER_S:g} s {needed}: {told}"
            )

    def _look_for_steps(self, job: Job, now_s: float) -> None:
        """Of those that are alone: nobody holds them up."""
        generation = (job["attempt"], job["steps"] or 0)
        before = self._moved.get(job["id"])
        is_left_alone = not job["beside"] and job["pids"]
        if not is_left_alone or before is None or before[:2] != generation:
            self._moved[job["id"]] = (*generation, now_s)
        elif now_s - max(before[2], self.disturbed_s) > STUCK_S:
            self.wrong(f"stuck {job['id']}", f"no step for {STUCK_S:g} s: {self._described(job)}")

    def _look_for_bounds(self, job: Job, now_s: float) -> None:
        """Nothing is left of what was set for the sake of others, once they are gone."""
        if job["beside"] or not job["pids"]:
            self._alone.pop(job["id"], None)
            return
        since_s = max(self._alone.setdefault(job["id"], now_s), self.disturbed_s)
        if now_s - since_s > FREED_S:
            self.counts["looks at freed ones"] += 1
            with suppress(WeftError, OSError):
                for rank in range(job["ntasks"]):
                    with attach(self.home.page(job["id"], job["attempt"], rank)) as task:
                        self._look_at_page(job, task)

    def _look_at_page(self, job: Job, task: Task) -> None:
        classes = {os.sched_getscheduler(thread) for thread in sched_idle.threads(processes.family(task.roots))}
        limit_bytes = {rank.words[layout.LIMIT] for rank in task.ranks}
        own_bytes = (job["memory"]["limit_bytes"] or 0) // job["ntasks"]
        is_free = task.duty == 100 and classes <= {os.SCHED_OTHER} and limit_bytes <= {own_bytes}
        if not is_free or task.wanted != Depth.RUN:
            self.wrong(f"held back {job['id']}", f"{limit_bytes}, not {own_bytes}; {self._described(job)}")

    def _described(self, job: Job) -> str:
        with suppress(WeftError, OSError), attach(self.home.page(job["id"], job["attempt"], 0)) as task:
            classes = {pid: os.sched_getscheduler(pid) for pid in task.roots}
            return f"wanted {task.wanted}, duty {task.duty}, {task.status()}, {classes}: {job}"
        return str(job)

    def harm(self) -> None:
        self.harmed.append(time.time())
        self.disturbed_s = time.monotonic()

    def was_disturbed(self, at: float) -> bool:
        """Whether what was measured then says nothing of guests: something was killed meanwhile, or the machine was
        overloaded by others."""
        return any(at - BEFORE_S < harmed_at <= at for harmed_at in self.harmed) or self.load.was_high(at)

    def wrong(self, what: str, story: str) -> None:
        self.wrongs.setdefault(what, story)


def _memory(job: Job) -> Memory:
    """As measured last, else as declared. What has gone to the next tier is not on the device."""
    said = job["memory"]
    if said["persistent_bytes"] is None:
        return Memory((said["limit_bytes"] or 0) // job["gpus"], 0)
    overflow = said["overflow_bytes"]
    persistent = max(0, said["persistent_bytes"] - overflow)
    ephemeral = max(0, said["ephemeral_bytes"] - max(0, overflow - said["persistent_bytes"]))
    return Memory(persistent // job["gpus"], ephemeral // job["gpus"])
