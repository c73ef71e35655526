"""The throttle of one device: it looks at holder and guests, lets the controller decide, and does what that says.

Made when the first guest takes its seat beside a holder, `tick`ed from outside, closed when either is gone.

    throttle = Throttle(holder, capacity_bytes)
    throttle.add(Seated("42", guest))
    setting = throttle.tick(time.monotonic())   # ten times a second or so
    throttle.remove("42")                       # it computes at full duty again, bounded by its own limit alone

The memory side acts at each tick, the duty once in a control period. Gating is done by asking the page for a pause,
and the ranks of a gang are sent on at each tick until they meet, as in any pause; so a guest that is to be paused or
resumed otherwise is to be released or removed before that. A guest whose setting says that it has no room is gated
here, and should be paused deeper from outside.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from weft.node.devices import sched_idle
from weft.node.devices.cpu import RunQueue
from weft.node.sharing.throttle_controller import adjust
from weft.node.sharing.throttle_state import (
    ControllerState,
    GuestSample,
    GuestSetting,
    ThrottleSample,
    ThrottleSetting,
)
from weft.node.task.gang_barrier import Gate
from weft.node.task.handle import Task
from weft.node.task.page_snapshot import DamagedPageError
from weft.node.task.rank import Rank
from weft.runtime.page import layout

PROGRESS_S = 1.0
ROOM_FOR_BURSTS = 4.0

log = logging.getLogger(__name__)


class StepDurations:
    """The steps of a task, by its first rank: the ranks of a gang step together."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._claimed: tuple[int, int] | None = None
        self._count = 0

    def new_durations_s(self) -> tuple[float, ...]:
        """Of the steps since the last look, as far as the ring goes back."""
        rank = next(iter(self._task.ranks), None)
        if rank is None:
            return ()
        look = rank.look()
        words = look.words
        claimed, count = (words[layout.CLAIM_PID], words[layout.CLAIM_START]), words[layout.DURATIONS_COUNT]
        if claimed != self._claimed:  # the steps before we came were taken under we know not what
            self._claimed, self._count = claimed, count
        new, self._count = max(0, count - self._count), count
        return tuple(each / 1e9 for each in look.durations_ns[-new:]) if new else ()


class SeatedGuest:
    """A guest as the throttle holds it. `own_bytes`: its own limit, 0 for none, which it never exceeds, and which is
    what it is taken to need until its page says it. `devices`: on which of the holder's it sits, and in which lane."""

    def __init__(
        self, job_id: str, task: Task, own_bytes: int = 0, devices: Iterable[int] = (0,), lane: int = 0
    ) -> None:
        self.job_id, self.task, self._devices, self._lane = job_id, task, frozenset(devices), lane
        self._own_bytes = own_bytes
        self._steps = StepDurations(task)
        self.line = RunQueue()
        self._quickest_s = 0.0
        self._done = 0
        self._counted_s: float | None = None
        self._gate = Gate(task)
        self._seen: frozenset[int] = frozenset()
        self._is_idle = False

    def sample(self, now_s: float) -> GuestSample:
        ranks = self.task.ranks
        needs, progress = self._needs(ranks), self._progress(now_s)
        return GuestSample(
            self.job_id, self._is_quiet(ranks), *needs, self._is_idle, progress, self._devices, self._lane
        )

    def _needs(self, ranks: list[Rank]) -> tuple[int, int | None]:
        persistent_bytes, ephemeral_bytes = _most(ranks, layout.PERSISTENT), _most(ranks, layout.EPHEMERAL)
        if persistent_bytes or ephemeral_bytes:
            return persistent_bytes, ephemeral_bytes
        return self._own_bytes, 0 if self._own_bytes else None

    def _is_quiet(self, ranks: list[Rank]) -> bool:
        is_at_boundary = bool(ranks) and all(rank.is_paused for rank in ranks)
        return is_at_boundary or self.task.is_stopped or self.task.is_over

    def _progress(self, now_s: float) -> float | None:
        """Once a second: between two looks there may be no step, or one that took much longer."""
        durations_s = self._steps.new_durations_s()
        if durations_s:
            self._quickest_s = min(self._quickest_s or durations_s[0], *durations_s)
        self._done += len(durations_s)
        lasted_s = now_s - self._counted_s if self._counted_s is not None else 0.0
        if self._counted_s is not None and lasted_s < PROGRESS_S:
            return None
        done, self._done, self._counted_s = self._done, 0, now_s
        return done * self._quickest_s / lasted_s if lasted_s else None

    def obey(self, setting: GuestSetting) -> None:
        if setting.limit_bytes is not None:
            self.task.set_limit(_lower_limit(setting.limit_bytes, self._own_bytes))
        if setting.duty:
            self.task.set_duty(setting.duty)
            self._gate.open()
        else:
            self._gate.shut()

    def idle(self, but_not: Iterable[int]) -> None:
        """Again when there are processes that none of those in the idle class has begotten. Where that could not be
        undone, their weight is lowered instead, if it counts."""
        roots = frozenset(self.task.roots)
        if roots <= self._seen:
            return
        self._seen |= roots
        why = sched_idle.why_not(roots)
        if not why:
            sched_idle.idle(roots, but_not)
        elif not sched_idle.lighten(roots, but_not):
            log.warning("job %s is throttled by its duty alone: %s", self.job_id, why)
            return
        self._is_idle = True

    def free(self) -> None:
        """As if it had no neighbour. One whose page is damaged is about to be ended."""
        with suppress(DamagedPageError):
            self.task.set_duty(100)
            self.task.set_limit(self._own_bytes)
            if self._is_idle:
                sched_idle.undo(self.task.roots)
            self._gate.open()


class Throttle:
    """One device's holder and its guests. `own_bytes`: the holder's own limit; 0: none. `on_cores`: it is a cpu device,
    so the kernel says how long the holder stood in line, and guests go into its idle class.

    Not if a guest is in a lane with the holder: a throttled guest in its turn would keep the holder waiting.
    """

    def __init__(self, holder: Task, capacity_bytes: int = 0, *, own_bytes: int = 0, on_cores: bool = False) -> None:
        self._holder, self._steps = holder, StepDurations(holder)
        self._capacity_bytes, self._own_bytes, self._on_cores = capacity_bytes, own_bytes, on_cores
        self._seated: dict[str, SeatedGuest] = {}
        self._state = ControllerState()
        self._line = RunQueue()
        self._looked_s: float | None = None

    def add(self, seated: SeatedGuest) -> None:
        self._seated[seated.job_id] = seated

    def remove(self, job_id: str) -> None:
        """It leaves, or becomes the holder of devices itself."""
        self._seated.pop(job_id).free()

    def release_when_paused(self, job_id: str) -> None:
        """It is about to be paused, and stays throttled until then."""
        self._seated.pop(job_id)

    @property
    def is_tight(self) -> bool:
        """Whether the holder's limit is so low that a burst may well exceed it."""
        return 0 < self._state.memory.holder_bytes < ROOM_FOR_BURSTS * self._state.memory.peak.bytes

    @property
    def is_burst_seen(self) -> bool:
        """Whether the holder needs more memory than at any tick until now."""
        return self.is_tight and self._needed_bytes() > self._state.memory.peak.bytes

    def tick(self, now_s: float) -> ThrottleSetting:
        """Look, decide, act. Costs some hundred microseconds; any rate above ten a second is fine."""
        for seated in self._seated.values():
            if self._on_cores:
                seated.idle(self._holder.roots)
        guests = tuple(seated.sample(now_s) for seated in self._seated.values())
        sample = self._sample(guests, now_s)
        self._state, setting = adjust(self._state, sample, now_s, self._capacity_bytes)
        for job_id, seated in self._seated.items():  # guests that shrink before the holder grows
            seated.obey(setting.guests[job_id])
        if setting.holder_limit_bytes is not None:
            self._holder.set_limit(_lower_limit(setting.holder_limit_bytes, self._own_bytes))
        return setting

    def _sample(self, guests: tuple[GuestSample, ...], now_s: float) -> ThrottleSample:
        lasted_s = now_s - self._looked_s if self._looked_s is not None else 0.0
        self._looked_s = now_s
        waited_s = self._waited_s(is_alone=all(guest.is_quiet for guest in guests)) if self._on_cores else None
        return ThrottleSample(self._steps.new_durations_s(), waited_s, lasted_s, self._needed_bytes(), guests)

    def _waited_s(self, *, is_alone: bool) -> float | None:
        """Beside guests not for longer than they computed: for the rest it was others who kept it waiting. How much
        that is at other times shows while it is alone."""
        mine = self._line.spent(self._holder.roots)
        theirs = [seated.line.spent(seated.task.roots) for seated in self._seated.values()]
        if mine is None or is_alone:
            return mine.waited_s if mine else None
        return min(mine.waited_s, sum(spent.computed_s for spent in theirs if spent))

    def _needed_bytes(self) -> int:
        """P and T count what was asked for, wherever it went; so a burst that spilled shows in full."""
        ranks = self._holder.ranks
        return _most(ranks, layout.PERSISTENT) + _most(ranks, layout.EPHEMERAL)

    def close(self) -> None:
        for job_id in list(self._seated):
            self.remove(job_id)
        with suppress(DamagedPageError):
            self._holder.set_limit(self._own_bytes)

    def __enter__(self) -> Throttle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lower_limit(limit_bytes: int, own_bytes: int) -> int:
    """0 is no limit of its own."""
    return min(limit_bytes, own_bytes) if own_bytes else limit_bytes


def _most(ranks: list[Rank], word: int) -> int:
    return max((rank.look().words[word] for rank in ranks), default=0)
