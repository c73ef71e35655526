"""The coordinator: one a machine. It carries out what the daemon orders, and outlives it.

python -m weft.node.coordinator --devices cpu=4
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft import protocol
from weft.core.errors import WeftError
from weft.node.attempt.adoption import Adoption
from weft.node.attempt.attempt import Attempt
from weft.node.attempt.context import Graces, NodeContext, contained
from weft.node.attempt.machine import run_attempt
from weft.node.attempt.order import AttemptOrder, AttemptSeat, AttemptState, Wanted, checked_launch
from weft.node.attempt.records import AttemptRecord
from weft.node.devices import discovery
from weft.node.devices.device import Device, DeviceKind
from weft.node.devices.nvml import load_nvml
from weft.node.devices.occupancy import Key, NodeAttempts
from weft.node.devices.preload import service_at
from weft.node.fence import process_tree
from weft.node.fence.cgroups import Fences, find_fences
from weft.node.handles.children import Reaper, Strays, end_leftover_cgroups, in_thread
from weft.node.handles.shepherd_handle import ShepherdHandle
from weft.node.link import Link
from weft.node.metrics.rate_reports import RateReports
from weft.node.sharing import node_lanes
from weft.node.sharing.throttled_guests import ThrottledGuests
from weft.runtime.failpoints import reach
from weft.system import descriptors
from weft.system.files import replace_file
from weft.system.home import Home
from weft.system.json_lines import Message
from weft.system.lockfile import taken_lock
from weft.system.process_log import configure_log
from weft.system.settings import FENCES
from weft.system.supervisor import Supervisor

FAIL_POINTS = (
    "coordinator-ordered",  # and nothing is done yet
    "coordinator-record-written",
    "coordinator-launch-written",
    "coordinator-shepherd-spawned",
    "coordinator-pausing",
    "coordinator-paused",
    "coordinator-resuming",
    "coordinator-resumed",
    "coordinator-stopping",
    "coordinator-status-written",  # of a task whose shepherd was killed, under its temporary name
    "coordinator-status-named",
    "coordinator-tree-gone",
    "coordinator-reported",
    "coordinator-acked",
)
TICK_S = 1.0
DEVICES_TICKS = 5
LOCK_WAIT_S = 3.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FINAL = ("ended", "lost", "left")
WANTED = {protocol.RunOrder: Wanted.RUN, protocol.PauseOrder: Wanted.PAUSE, protocol.StopOrder: Wanted.STOP}
SEEN = (AttemptState.RUNNING, AttemptState.PAUSING, AttemptState.PAUSED)  # they have pages to read

log = logging.getLogger(__name__)


class Coordinator:
    def __init__(self, home: Home, kind: DeviceKind, found: Sequence[Device], fences: Fences) -> None:
        self._node_attempts = NodeAttempts()
        self._attempts = self._node_attempts.attempts
        self._throttled_guests = ThrottledGuests(self._node_attempts)
        self._rate_reports = RateReports()
        self._lives: set[asyncio.Task[None]] = set()
        self._generations: dict[str, int] = {}
        self._named: set[Key] = set()
        self._link = Link(home.node_socket, self._hello, self._receive, self._refuse)
        self._supervisor = Supervisor()
        self._reaper = Reaper(self._child_ended)
        self._is_leaving = asyncio.Event()
        self._context = NodeContext(
            home=home,
            run=home.run,
            boot_id=BOOT_ID.read_text().strip(),
            kind=kind,
            devices={device.index: device for device in found},
            report=self._report,
            node_attempts=self._node_attempts,
            throttled_guests=self._throttled_guests,
            strays=Strays(home, self._tasks),
            fences=fences,
        )
        self._adoption = Adoption(self._context, self._begin)

    async def run(self) -> None:
        """Until told to leave. All jobs stay as they are then."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._is_leaving.set)
        self._reaper.begin()
        await self._adoption.adopt_all()
        lasting = {"link": self._link.run, "tick": self._tick, "guests": self._watch_guests}
        kept = [self._supervisor.start(name, work) for name, work in lasting.items()]
        await self._is_leaving.wait()
        for task in kept:
            task.cancel()
        self._throttled_guests.comparisons.close()  # gated jobs are to compute without us
        self._context.fences.remove()

    def _tasks(self) -> list[ShepherdHandle]:
        return [task for attempt in self._node_attempts for task in attempt.tasks]

    def _begin(self, attempt: Attempt) -> None:
        self._attempts[attempt.record.key] = attempt
        life = asyncio.create_task(run_attempt(attempt))
        self._lives.add(life)
        life.add_done_callback(lambda life: self._has_lived(attempt, life))

    def _has_lived(self, attempt: Attempt, life: asyncio.Task[None]) -> None:
        self._lives.discard(life)
        if not life.cancelled() and (error := life.exception()):
            log.error("job %s: looking again at how it stands", attempt.record.job, exc_info=error)
            attempt.give_up(WeftError(f"weft failed on it: {error!r}"))
            asyncio.get_running_loop().call_later(TICK_S, self._begin, attempt)
        elif attempt.is_fenced:
            self._forget(attempt)

    def _hello(self) -> protocol.Hello:
        self._named.clear()
        damaged = self._adoption.damaged
        known = [
            protocol.KnownAttempt(job, number, each.order.generation, each.state.value, ended=each.has_ended_unseen)
            for (job, number), each in self._attempts.items()
        ]
        known += [
            protocol.KnownAttempt(*key, state=AttemptState.LAUNCHING.value, ended=key in damaged)
            for key in self._adoption.unadopted | damaged.keys()
        ]
        return protocol.Hello(
            protocol.VERSION,
            socket.gethostname(),
            self._context.boot_id,
            self._devices(),
            known,
            os.getpid(),
            len(os.sched_getaffinity(0)),
        )

    def _devices(self) -> list[protocol.DeviceReport]:
        return [protocol.DeviceReport(**device.to_json()) for device in self._context.devices.values()]

    def _receive(self, message: protocol.FromDaemon) -> None:
        match message:
            case protocol.RunOrder() | protocol.PauseOrder() | protocol.StopOrder():
                self._order(message)
            case protocol.Synced():
                self._context.graces = Graces(message.stop_grace_s, message.pause_grace_s)
                for key in set(self._attempts) - self._named:
                    log.info("job %s, attempt %d: the daemon does not know it; it is ended", *key)
                    self._fence(self._attempts[key])
                for key in self._adoption.damaged.keys() - self._named:
                    self._spawn(self._adoption.fence_damaged(key))
            case protocol.Ack():
                self._acknowledged(message.serial)
            case protocol.Leave():
                self._is_leaving.set()
            case protocol.Refused():
                log.error("the daemon refuses this coordinator: %s", message.message)

    def _order(self, message: protocol.RunOrder | protocol.PauseOrder | protocol.StopOrder) -> None:
        key = job, number = message.job, message.attempt
        order = AttemptOrder(wanted=WANTED[type(message)], generation=message.generation)
        if isinstance(message, protocol.RunOrder):
            order = replace(
                order, devices=tuple(message.devices), seat=AttemptSeat.from_json(protocol.plain(message.seat))
            )
        elif isinstance(message, protocol.PauseOrder):
            needs_bytes = None if message.needs_bytes is None else int(message.needs_bytes)
            order = replace(order, needs_bytes=needs_bytes, incoming=frozenset(message.incoming))
        self._named.add(key)
        if order.generation < self._generations.get(job, 0):
            return
        self._generations[job] = order.generation
        reach("coordinator-ordered")
        if key not in self._attempts and key not in self._adoption.damaged and self._adoption.has_record(key):
            self._adoption.adopt(*key)
        if key in self._attempts:
            self._take(self._attempts[key], order)
        elif key in self._adoption.damaged:
            self._spawn(self._adoption.lose_damaged(key, order.generation))
        elif isinstance(message, protocol.RunOrder):
            asked, fences = checked_launch(protocol.plain(message.launch)), self._context.fences
            record = AttemptRecord(
                *(job, number, order.generation, order.devices, self._context.boot_id, 0, asked),
                cgroups=fences.folder,
                needs_cgroup=fences.is_required,
            )
            self._fence_older(job, number)
            self._begin(Attempt(self._context, record, order))
        else:
            about = {"job": job, "attempt": number, "generation": order.generation}
            self._report({**about, "what": "lost", "message": "nothing of it is on this node", "never": True})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._lives.add(task)
        task.add_done_callback(self._lives.discard)

    def _refuse(self, message: Message, why: str) -> None:
        """An order that cannot be followed fails its job: the daemon would send the same one again."""
        job, number = message.get("job"), message.get("attempt")
        if message["type"] == "run" and isinstance(job, str) and isinstance(number, int):
            self._named.add((job, number))
            if (job, number) not in self._attempts:
                self._report({"job": job, "attempt": number, "generation": 0, "what": "refused", "message": why[:1000]})

    def _take(self, attempt: Attempt, order: AttemptOrder) -> None:
        if order != attempt.order:
            attempt.take(order)
            self._node_attempts.wake_incoming()  # it may be welcome where it is
            with contained("its place in its lane is not said", attempt):
                attempt.set_lane_order()
        else:
            attempt.wake()

    def _fence_older(self, job: str, number: int) -> None:
        for key, attempt in list(self._attempts.items()):
            if key[0] == job and key[1] < number:
                self._fence(attempt)

    def _report(self, body: Message) -> None:
        self._link.report(body)
        reach("coordinator-reported")

    def _acknowledged(self, serial: int) -> None:
        report = self._link.acknowledged(serial)
        if report is None or report.what not in FINAL:
            return
        reach("coordinator-acked")
        key = (report.job, report.attempt)
        attempt = self._attempts.get(key)
        if attempt is not None:
            self._forget(attempt)
        elif key in self._adoption.damaged:
            self._adoption.forget_damaged(key)

    def _child_ended(self, pid: int, exit_code: int) -> None:
        for attempt in self._attempts.values():
            for task in attempt.tasks:
                task.child_ended(pid, exit_code)

    def _fence(self, attempt: Attempt) -> None:
        if attempt.state is AttemptState.ENDED:
            self._forget(attempt)
        else:
            attempt.fence()

    def _forget(self, attempt: Attempt) -> None:
        job, _ = attempt.record.key
        self._attempts.pop(attempt.record.key, None)
        if not any(key[0] == job for key in self._attempts):
            self._generations.pop(job, None)
        attempt.forget()
        if attempt.record.lane:
            self._remove_lanes()
        self._node_attempts.wake_all()

    async def _watch_guests(self) -> None:
        while True:
            await asyncio.sleep(self._throttled_guests.rest_s)
            with contained("guests are not throttled"):
                self._throttled_guests.glance(asyncio.get_running_loop().time())

    async def _tick(self) -> None:
        for count in itertools.count():
            await asyncio.sleep(TICK_S)
            with contained("ends of processes are not noted"):
                self._reaper.reap()  # what could not be recorded before
            for attempt in self._node_attempts:
                with contained("its shepherd is not woken", attempt):
                    for task in attempt.tasks:
                        task.wake_shepherd()
            with contained("nothing is measured"):
                await self._measure()
            with contained("no progress is told"):
                if not self._link.is_choked:
                    self._link.send(protocol.ProgressUpdate(self._progress(), self._warnings()))
            if count % DEVICES_TICKS == 0:
                with contained("nothing is tidied"):
                    self._tidy()
                with contained("devices are not looked at"):
                    await self._look_at_devices()

    async def _measure(self) -> None:
        for attempt in self._node_attempts:
            if attempt.is_settled:
                with contained("its place in its lane is not said", attempt):
                    attempt.set_lane_order()
        compared = self._throttled_guests.comparisons.taken()
        for told in await self._rate_reports.look(self._node_attempts, asyncio.get_running_loop().time(), compared):
            self._link.send(told)

    def _remove_lanes(self) -> None:
        """Remove lanes without members. An attempt that is not adopted yet may be one."""
        if not self._adoption.unadopted:
            node_lanes.remove_unused(self._context.run, self._node_attempts.lane_pages(self._context.run))

    def _tidy(self) -> None:
        """Remove what is left of forgotten attempts, and adopt attempts that have records but are not known."""
        self._adoption.adopt_further(self._attempts)
        self._remove_lanes()
        if left_over := self._context.fences.left_over({*self._attempts, *self._adoption.unadopted}):
            in_thread(end_leftover_cgroups, left_over)

    def _progress(self) -> dict[str, protocol.JobProgress]:
        said = {}
        for attempt in self._attempts.values():
            if attempt.state in SEEN:
                with contained("its progress is not told", attempt):
                    said[attempt.record.job] = protocol.job_progress(attempt.progress() | self._needs(attempt))
        return said

    def _warnings(self) -> list[str]:
        found = [f"coordinator: {each}" for each in self._supervisor.warnings()]
        if descriptors.are_scarce():
            left = f"of {descriptors.limit()} open files few are left"
            found.append(f"coordinator: {left}; no job is started (ulimit -n)")
        return found

    def _needs(self, attempt: Attempt) -> dict[str, Any]:
        return {"generation": attempt.record.generation, "needs_bytes": self._rate_reports.needs_bytes(attempt)}

    async def _look_at_devices(self) -> None:
        context = self._context
        trees = []
        for attempt in self._node_attempts:
            with contained("its processes are not known", attempt):
                trees.append(attempt.tree())

        def ours() -> set[int]:
            return {each.pid for tree in trees for each in process_tree.members(tree)}

        found = await in_thread(context.kind.looked_at, list(context.devices.values()), ours)
        if found != list(context.devices.values()):
            context.devices = {device.index: device for device in found}
            self._link.send(protocol.DevicesChanged(self._devices()))
            self._node_attempts.wake_all()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m weft.node.coordinator", description="Runs jobs on this machine.")
    parser.add_argument("--devices", default="", metavar="KIND[=N]", help=discovery.HINT)
    parser.add_argument("--fence", default="auto", choices=FENCES, help="how a job is kept together")
    options = parser.parse_args(arguments)
    descriptors.raise_limit()
    try:
        home = Home.find()
        home.make()
        configure_log(home.node_log)
        with taken_lock(home.node_lock, "coordinator", LOCK_WAIT_S):
            nvml = load_nvml() if options.devices.strip() in ("", "cuda") else None
            found = discovery.discover(options.devices, nvml)
            fences = find_fences(options.fence, home.root)
            log.info("fencing: %s", fences.says)
            with suppress(OSError):  # a full disk; it is for people to read
                replace_file(home.fencing, fences.says.encode("utf-8", "replace") + b"\n")
            asyncio.run(_serve(home, discovery.kind_of(found, nvml, service_at(home)), found, fences))
    except WeftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(home: Home, kind: DeviceKind, found: Sequence[Device], fences: Fences) -> None:
    await Coordinator(home, kind, found, fences).run()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # threads that pause a job do not delay the exit
