"""How fast attempts step beside which jobs, as measured over stretches in which nothing changed.

A stretch that has settled is told once, and again after each further minute in which the rate has moved; of a guest
that stood still for its holder meanwhile after ten, so that its rests count as much as its work. What memory a job
needs is told every second, whatever its rate does: others may sit beside it only because it was smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.devices.cpu import cpu_times_s
from weft.node.devices.device import CoreTime
from weft.node.devices.occupancy import Key
from weft.node.handles.children import in_thread
from weft.node.metrics.step_rate import Gauge, Rate, RateSample, with_sample
from weft.node.sharing.pair_comparison import MOST_PHASE_S, ComparisonResult
from weft.node.task.rank import furthest_behind
from weft.protocol import MeasuredRate
from weft.runtime.page import layout
from weft.system import processes

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt

AGAIN_S, LONG_S = 60.0, 600.0
"""The longer one is enough for two of the longest rests."""
MOVED = 0.05


@value
class RateStretch:
    """Since the last change; `used` is from where on the use of the devices counts: since it counts or was told."""

    gauge: Gauge = Gauge()
    used: CoreTime | None = None
    reported_hz: float | None = None

    def seen(self, look: RateSample) -> RateStretch:
        gauge = with_sample(self.gauge, look)
        return replace(self, gauge=gauge) if gauge.changed is self.gauge.changed else RateStretch(gauge)

    @property
    def is_to_be_weighed(self) -> bool:
        """It has just begun to count."""
        return self.gauge.counted is not None and self.used is None

    def set_aside(self, look: RateSample) -> RateStretch:
        """It is compared: nothing counts until that is over, and what was told holds until then."""
        return RateStretch(Gauge(look, None, look), self.used, self.reported_hz)

    def due(self, now_s: float) -> Rate | None:
        """What there is to tell now, or to find unchanged."""
        rate = self.gauge.rate
        if rate is None or self.used is None:
            return None
        waited_s = now_s - self.used.at_s
        is_time = waited_s >= (0.0, AGAIN_S, LONG_S)[(self.reported_hz is not None) + self.gauge.has_stood]
        return rate if is_time and (rate.is_settled or waited_s >= LONG_S) else None

    def has_moved(self, rate_hz: float) -> bool:
        return self.reported_hz is None or abs(rate_hz / self.reported_hz - 1) > MOVED

    def after(self, rate_hz: float, used: CoreTime) -> RateStretch:
        """Told; what comes is measured from here on. Without a step, the time without one goes on."""
        counted, newest = self.gauge.counted, self.gauge.newest
        assert counted is not None
        assert newest is not None
        begun = replace(
            self.gauge, counted=newest if newest.step > counted.step else counted, has_stood=newest.is_gated
        )
        return RateStretch(begun, used, rate_hz if self.has_moved(rate_hz) else self.reported_hz)


class RateReports:
    """Looks at all that run whenever it is told to, once a second or so."""

    def __init__(self) -> None:
        self._stretches: dict[Key, RateStretch] = {}

    async def look(
        self, attempts: Iterable[Attempt], now_s: float, compared: Iterable[ComparisonResult] = ()
    ) -> list[MeasuredRate]:
        """What is to be told; `compared` is what came of comparing packed pairs since the last look."""
        seen = {each.record.key: each for each in attempts if each.is_settled}
        looks = {key: look for key, attempt in seen.items() if (look := _look(attempt, now_s))}
        results = {each.key: each for each in compared if _is_of_now(seen.get(each.key), each)}
        self._stretches = {
            key: stretch.set_aside(look) if seen[key].is_compared or key in results else stretch.seen(look)
            for key, look, stretch in (
                (key, look, self._stretches.get(key, RateStretch())) for key, look in looks.items()
            )
        }
        for key, look in looks.items():
            seen[key].pace = seen[key].pace.seen(look)
        rates = {key: rate for key, each in self._stretches.items() if (rate := each.due(now_s))}
        weighed = [
            key for key, each in self._stretches.items() if key in rates or key in results or each.is_to_be_weighed
        ]
        roots = {key: found for key in weighed if (found := _roots(seen[key])) is not None}
        times_s = await in_thread(cpu_times_s, roots) if roots else {}
        told = []
        for key, cpu_s in times_s.items():
            stretch, used = self._stretches[key], CoreTime(now_s, cpu_s)
            if key in results:
                with suppress(WeftError):
                    told.append(_compared(seen[key], results[key], stretch.used, used))
                self._stretches[key] = replace(stretch, used=used, reported_hz=results[key].compared.rate_hz or None)
                continue
            if key not in rates:
                self._stretches[key] = replace(stretch, used=used)
                continue
            if stretch.has_moved(rates[key].rate_hz) and not seen[key].is_over:
                with suppress(WeftError):  # its page is damaged
                    told.append(_measured(seen[key], rates[key], stretch.used, used))
            self._stretches[key] = stretch.after(rates[key].rate_hz, used)
        return told

    def needs_bytes(self, attempt: Attempt) -> tuple[int, int] | None:
        """P and T by now; None while that is not known. A job on its way into a lane is not outside for good."""
        stretch = self._stretches.get(attempt.record.key)
        is_on_its_way = stretch is None or (stretch.gauge.counted is None and _is_outside(attempt))
        return None if is_on_its_way else _memory(attempt)


def _look(attempt: Attempt, now_s: float) -> RateSample | None:
    """By the rank that is furthest behind; None before there is a step."""
    with suppress(WeftError):  # its page was removed
        task = attempt.attached()
        ranks = task.ranks
        if ranks:
            slowest = furthest_behind(ranks)
            return RateSample(
                now_s=now_s,
                step=slowest.step,
                stepped_s=min(now_s, slowest.words[layout.HEARTBEAT] / 1e9),  # no step has ended yet to come
                neighbours=frozenset(attempt.context.node_attempts.neighbours(attempt)),
                duty=task.duty,
                generation=attempt.record.generation,
                is_held_back=attempt.is_throttled,
                is_gated=attempt.is_gated,
            )
    return None


def _roots(attempt: Attempt) -> set[int] | None:
    try:
        return attempt.attached().roots
    except WeftError:  # its page is damaged
        return None


def _measured(attempt: Attempt, rate: Rate, before: CoreTime | None, now: CoreTime) -> MeasuredRate:
    record, context = attempt.record, attempt.context
    persistent_bytes, ephemeral_bytes = _memory(attempt) or _held(attempt)
    return MeasuredRate(
        record.job,
        record.attempt,
        rate.generation,  # it may have another lease by now
        rate.rate_hz,
        context.kind.utilisation(context.some(record.devices), before or now, now),
        persistent_bytes,
        ephemeral_bytes,
        sorted(rate.neighbours),
        rate.steps,
    )


def _compared(attempt: Attempt, result: ComparisonResult, before: CoreTime | None, now: CoreTime) -> MeasuredRate:
    """One that made too few steps for a rate makes no more than if the step it is in ended now."""
    compared = result.compared
    rate_hz = compared.rate_hz or attempt.pace.rate_hz or 1 / MOST_PHASE_S
    rate = Rate(rate_hz, compared.steps, 0.0, frozenset({result.beside}), result.generation)
    against = {"alone_hz": compared.alone_hz, "error": compared.share.half_width, "window": result.window}
    return structs.replace(_measured(attempt, rate, before, now), **against)


def _is_of_now(attempt: Attempt | None, result: ComparisonResult) -> bool:
    return attempt is not None and not attempt.is_over and attempt.record.generation == result.generation


def _memory(attempt: Attempt) -> tuple[int, int] | None:
    """P and T on the device with the most; None where the library that sees them is not under the job.

    A job that could not join the lane of its seat shares nothing there.
    """
    words = [rank.look().words for rank in attempt.attached().ranks]
    if not all(rank[layout.NATIVE] for rank in words):
        return None
    each = max(1, int(attempt.record.launch["devices_per_task"]))
    persistent, ephemeral = (
        max((rank[word] for rank in words), default=0) // each for word in (layout.PERSISTENT, layout.EPHEMERAL)
    )
    return (persistent + ephemeral, 0) if _is_outside(attempt) else (persistent, ephemeral)


def _is_outside(attempt: Attempt) -> bool:
    ranks = attempt.attached().ranks
    is_in_lane = all(rank.look().has(layout.IN_LANE) for rank in ranks)
    return bool(attempt.record.seat.lane) and not is_in_lane


def _held(attempt: Attempt) -> tuple[int, int] | tuple[None, None]:
    """As the system sees it: all that it holds counts as lasting."""
    context, indexes = attempt.context, attempt.record.devices
    held_bytes = context.kind.held_bytes(processes.family(attempt.attached().roots), context.some(indexes))
    return (held_bytes // len(indexes), 0) if held_bytes else (None, None)
