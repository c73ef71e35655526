"""One attempt on this node, from the order to run it until none of its processes is left.

Nothing here waits for one particular event. Whenever something may have changed (an order, the end of a process, a free
device) the attempt looks at its state and takes the one step that comes next (machine.py). So repeated wake-ups do no
harm, and an attempt that was found after a restart is treated like any other.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from weft.core.errors import WeftError
from weft.node.attempt import records
from weft.node.attempt.context import NodeContext
from weft.node.attempt.ending import AttemptEnding, ending_of, explained, never_started
from weft.node.attempt.order import AttemptOrder, AttemptState, Wanted
from weft.node.attempt.records import AttemptRecord, TaskExit
from weft.node.fence import process_tree
from weft.node.fence.ownership import KnownProcesses
from weft.node.fence.process_tree import Tree
from weft.node.handles.children import in_thread
from weft.node.handles.shepherd_handle import OVER, ShepherdHandle, ShepherdState
from weft.node.handles.spawn import limits_of
from weft.node.metrics.step_rate import Pace
from weft.node.sharing import node_lanes
from weft.node.task.control_page import step_of_leaving
from weft.node.task.gang_barrier import Pause
from weft.node.task.handle import Task, attach
from weft.runtime.checkpoint.rank_store import last_saved_step
from weft.runtime.failpoints import reach
from weft.system import processes

log = logging.getLogger(__name__)


class Attempt:
    def __init__(self, context: NodeContext, record: AttemptRecord, order: AttemptOrder) -> None:
        self.context = context
        self.record = record
        self.order = order
        self.state = AttemptState.WAITING
        self.tasks = [
            ShepherdHandle(context.home, context.run, context.boot_id, record, rank, self.wake)
            for rank in range(record.tasks)
        ]
        self.pause: Pause | None = None
        self.incoming: frozenset[str] = frozenset()  # jobs for which it made room in its last pause
        self.held_bytes = 0  # of its devices' memory, while it pauses
        self.pausing: asyncio.Future[tuple[Pause, int]] | None = None
        self.failures = 0
        self.superseded = 0
        self.is_leaving = False  # to be launched elsewhere
        self.stays = (0, "")  # the order after which it is where it was though it should move, and why
        self.is_throttled = False
        self.was_throttled = False  # and that is not undone yet
        self.is_compared = False  # and may stand for a second now and then
        self.pace = Pace()
        self.kill_at_s: float | None = None
        self.kills = 0
        self.killing: asyncio.Future[None] | None = None
        self.look_s = 0.0
        self.answered = (0, Wanted.NOTHING)  # the last order that was: a lease's orders have one generation
        self.why_given_up = ""
        self.is_fenced = False
        self.is_adopted = False
        self.has_ended_unseen = False  # while no coordinator was there
        self.news = asyncio.Event()
        self._task: Task | None = None

    @property
    def is_over(self) -> bool:
        return self.state is AttemptState.ENDED

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def is_answered(self) -> bool:
        is_seated = self.order.wanted is not Wanted.RUN or self.order.seat == self.record.seat
        return is_seated and self.answered == (self.order.generation, self.order.wanted)

    @property
    def is_settled(self) -> bool:
        """It runs as it was last ordered to."""
        return self.state is AttemptState.RUNNING and self.order.wanted is Wanted.RUN and self.is_answered

    @property
    def is_incoming(self) -> bool:
        return self.order.wanted is Wanted.RUN and self.state in (AttemptState.WAITING, AttemptState.PAUSED)

    @property
    def is_computing(self) -> bool:
        """It runs, and does not stand still for others just now; on its way to a pause or to its end it still does."""
        return self.state in (AttemptState.RUNNING, AttemptState.PAUSING, AttemptState.STOPPING) and not self.is_gated

    @property
    def is_gated(self) -> bool:
        """It stands at a boundary for the holder of its devices. One that was only asked to is still inside a step."""
        if not self.is_throttled:
            return False
        try:
            ranks = self.attached().ranks
            return bool(ranks) and all(rank.is_paused for rank in ranks)
        except WeftError:  # its page is damaged, which is not to affect its neighbours
            return False

    @property
    def can_move(self) -> bool:
        """Whether it can go on on other devices."""
        return self.context.kind.can_move

    @property
    def wants_to_move(self) -> bool:
        return bool(self.order.devices) and self.order.devices != self.record.devices

    @property
    def seated(self) -> AttemptRecord:
        """As it is once its order is carried out, as far as it can be."""
        devices = self.order.devices if self.can_move and self.wants_to_move else self.record.devices
        return node_lanes.record_in_seat(self.record, self.order, devices, self.context.kind)

    def admits(self, device: int, *, beside_guest: bool) -> bool:
        """Whether an incoming attempt may join it on a device: it was ordered to run there, and of the two at most one
        holds the device. An attempt that cannot move away is put up with.
        """
        if self.is_fenced or self.order.wanted is not Wanted.RUN:
            return False
        if device not in self.order.devices:
            return self.is_settled
        return beside_guest or self.order.seat.is_guest

    def wake(self) -> None:
        """Something may have changed."""
        self.news.set()

    def wake_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.wake)

    def take(self, order: AttemptOrder) -> None:
        self.order = order
        self.wake()

    def fence(self) -> None:
        """It is not wanted any more: it is killed at once, without a report."""
        self.is_fenced = True
        self.wake()

    def give_up(self, error: WeftError) -> None:
        """Its page or its records cannot be read: it can neither be paused nor watched, and will be ended as lost."""
        if not self.why_given_up:
            log.warning("job %s, attempt %d is given up: %s", *self.record.key, error.message)
            self.why_given_up = error.message
        self.wake()

    def adopt(self) -> bool:
        """Take up where an earlier coordinator left off; False if nothing of it was ever started, nor will be."""
        if all(task.look() is ShepherdState.ABSENT for task in self.tasks):
            were_barred = [task.bar() for task in self.tasks]
            if all(were_barred):
                process_tree.end_tree(self.tree())  # shepherds on their way
                return False
        shepherd_states = [task.look() for task in self.tasks]
        self.has_ended_unseen = ShepherdState.LOST in shepherd_states or all(state in OVER for state in shepherd_states)
        self.state, self.is_adopted = AttemptState.LAUNCHING, True
        try:
            self._find_state()
        except WeftError as error:
            self.give_up(error)
        if self.state is not AttemptState.PAUSED:
            self.context.node_attempts.occupancy.keep(self.record.key, self.record.devices)
        if self.state is AttemptState.RUNNING and not self.has_ended_unseen:
            self.say_started()
        return True

    def _find_state(self) -> None:
        if self.record.boot_id == self.context.boot_id:
            for task in self.tasks:
                task.open_page(self.record, self.context.kind)
            if all(task.is_started for task in self.tasks):
                self.state = self._state_by_page()
                self.was_throttled = self.record.seat.is_throttled
                if not self.was_throttled:
                    self.set_own_limit()
        if self.state is AttemptState.PAUSED:
            family = processes.family(self.attached().roots)
            self.held_bytes = self.context.kind.held_bytes(family, self.context.some(self.record.devices))

    def _state_by_page(self) -> AttemptState:
        task = self.attached()
        if task.is_stopped:
            task.stop()  # an earlier coordinator may have been killed halfway
        return AttemptState.PAUSED if task.status().state == "paused" else AttemptState.RUNNING

    @property
    def pages(self) -> tuple[Path, ...]:
        return tuple(task.page_path for task in self.tasks)

    def has_page(self, path: str) -> bool:
        """Whether this is one of its pages, or of its further ranks'."""
        return any(path == str(page) or path.startswith(f"{page}.") for page in self.pages)

    @property
    def known(self) -> KnownProcesses:
        """Of its processes, whatever its pages say."""
        shepherds = frozenset(pid for task in self.tasks for pid in task.shepherd_pids)
        leaders = [task.leader for task in self.tasks]
        return KnownProcesses(shepherds, frozenset((each.pid, each.start) for each in leaders if each))

    def attached(self) -> Task:
        """Its pages, for this thread; a thread that pauses it attaches anew."""
        if self._task is None:
            self._task = attach(*self.pages)
        self._task.known = self.known
        return self._task

    def tree(self, *, with_shepherds: bool = True) -> Tree:
        return reduce(or_, (task.tree(with_shepherd=with_shepherds) for task in self.tasks))

    def note(self, record: AttemptRecord) -> None:
        """Keep what a coordinator that comes after us has to know."""
        if record != self.record:
            records.write_record(self.context.home, record)
            self.record = record

    def say(self, what: str, generation: int, **body: Any) -> None:
        job, attempt = self.record.key
        self.context.report({"job": job, "attempt": attempt, "generation": generation, "what": what, **body})

    def say_started(self) -> None:
        pids = [task.named_pid for task in self.tasks]
        self.say("started", self.record.generation, pids=pids, lane=self.record.lane)

    def say_resumed(self) -> None:
        """With why it is not where it was to go, if so."""
        generation, why = self.stays
        said = {"reason": why} if generation == self.record.generation else {}
        self.say("resumed", self.record.generation, devices=list(self.record.devices), lane=self.record.lane, **said)

    @property
    def own_limit_bytes(self) -> int:
        """Of its device memory, as its order says, whatever others need; 0: none."""
        return limits_of(self.record, self.context.kind).device_bytes

    def set_own_limit(self) -> None:
        self.attached().set_limit(self.own_limit_bytes)

    def set_lane_order(self) -> None:
        """Its place in the queue for turns is as was last ordered."""
        path = node_lanes.page_of(self.context.run, self.record)
        if path and self.order.wanted is Wanted.RUN:
            task = self.attached()
            task.set_lane_order(self.order.seat.base, self.order.seat.weight)
            node_lanes.set_order(path, {rank.pid for rank in task.ranks}, self.order.seat)

    def leave_devices(self) -> None:
        """It is throttled no more, nor are guests for it, and its devices are free."""
        with suppress(WeftError):  # its page cannot be read
            self.context.throttled_guests.release(self)
        self.context.node_attempts.occupancy.let_go(self.record.key)

    async def end(self) -> None:
        """All tasks are over; make sure of everything they started, and say how it ended.

        A shepherd that ended as it should has made sure itself. That there is a status does not say so.
        """
        is_told = all(task.is_seen_through for task in self.tasks)
        has_processes = any(task.has_processes for task in self.tasks) or bool(self.context.strays.pids())
        if self.is_adopted or not is_told or has_processes:
            await self._end_processes()
        for task in self.tasks:
            task.end_shepherd()
        reach("coordinator-tree-gone")
        self._conclude(
            ending_of(
                statuses=[self._explained(task) for task in self.tasks],
                why_lost=next((task.why_lost for task in self.tasks if task.why_lost and not task.status), ""),
                left_at_step=self._left_at_step(),
                waited_s=self.pause.waited_s if self.pause else 0.0,
                is_stop_wanted=self.order.wanted is Wanted.STOP,
                job=self.record.job,
            )
        )

    def _explained(self, task: ShepherdHandle) -> TaskExit | None:
        if task.status is None:
            return None
        process_bytes = limits_of(self.record, self.context.kind).process_bytes
        return explained(task.status, self.record, process_bytes, task.outputs)

    def end_unstarted(self) -> None:
        self._conclude(never_started())

    def _left_at_step(self) -> int | None:
        steps = [step_of_leaving(task.page_path) for task in self.tasks]
        known = [step for step in steps if step is not None]
        return max(known) if len(known) == len(steps) else None

    def _conclude(self, how: AttemptEnding) -> None:
        self.state = AttemptState.ENDED
        self.leave_devices()
        saved = last_saved_step(str(self.context.home.checkpoints(self.record.job)))
        body = {**how.body, "checkpoint_step": saved} if saved and how.what in ("ended", "lost") else how.body
        unseen = {"unseen": True} if self.has_ended_unseen else {}
        self.say(how.what, self.order.generation, **body, **unseen, progress=self._last_progress())

    def _last_progress(self) -> dict[str, Any]:
        """How far it came; nothing where no page tells."""
        try:
            return self.progress()
        except WeftError:
            return {}

    async def be_fenced(self) -> None:
        await self._end_tree()
        self.state = AttemptState.ENDED
        self.leave_devices()

    async def be_lost(self) -> None:
        await self._end_tree()
        self._conclude(AttemptEnding("lost", {"message": self.why_given_up}))

    async def _end_tree(self) -> None:
        if self.state is not AttemptState.WAITING:
            for task in self.tasks:
                task.bar()
            await self._end_processes()

    async def _end_processes(self) -> None:
        """Among strays may be processes of this attempt."""
        await in_thread(process_tree.end_tree, self.tree())
        await in_thread(self.context.strays.end)

    def forget(self) -> None:
        """Remove all that is kept of it, but for what it printed. What cannot be removed is left."""
        if self._task is not None:
            self._task.close()
            self._task = None
        for task in self.tasks:
            with suppress(OSError):
                task.forget()
        with suppress(OSError):  # something was saved there
            self.context.home.checkpoints(self.record.job).rmdir()
        try:
            records.remove(self.context.home, *self.record.key)
        except OSError as error:
            log.warning("the records of job %s, attempt %d cannot be removed: %s", *self.record.key, error)

    @property
    def occupied_bytes(self) -> int:
        """What it has of its devices' memory, and may keep: while it pauses, or is about to, or if it runs and goes on
        to. So of two that are to pause at once the second makes the room that the first does not."""
        if self.state is AttemptState.PAUSED:
            return self.held_bytes
        goes_on = self.state is AttemptState.RUNNING and self.order.wanted is Wanted.RUN
        pauses = self.state is AttemptState.PAUSING and self.order.wanted is not Wanted.STOP and not self.is_leaving
        if not goes_on and not pauses:
            return 0
        try:
            return sum(rank.host_bytes for rank in self.attached().status().ranks if rank.state != "ended")
        except WeftError:
            return 0

    def progress(self) -> dict[str, Any]:
        task = self.attached()
        status = task.status()
        ranks = status.ranks
        metrics = next((rank.metrics for rank in ranks if rank.metrics), {})
        return {
            "attempt": self.record.attempt,
            "state": self.state.value,
            "step": status.step,
            "step_rate_hz": self.pace.rate_hz or status.step_rate_hz,
            "metrics": metrics,
            "host_bytes": sum(rank.host_bytes for rank in ranks),
            "persistent_bytes": sum(rank.persistent_bytes for rank in ranks),
            "ephemeral_bytes": sum(rank.ephemeral_bytes for rank in ranks),
            "overflow_bytes": sum(rank.overflow_bytes for rank in ranks),
            "peak_bytes": sum(rank.peak_bytes for rank in ranks),
            "can_checkpoint": bool(ranks) and all(rank.can_checkpoint for rank in ranks),
            "can_swap": bool(ranks) and all(rank.can_swap for rank in ranks),
            "duty": 0 if self.is_gated else task.duty,
            "neighbours": self.context.node_attempts.neighbours(self),
        }
