"""When what was measured is told, and what processes use of cores."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from waiting import wait_until
from weft.node.devices import cpu
from weft.node.devices.cpu import core_utilisation, cpu_times_s
from weft.node.devices.device import CoreTime
from weft.node.metrics.rate_reports import AGAIN_S, RateReports, RateStretch
from weft.node.metrics.step_rate import Pace, RateSample
from weft.runtime.page import layout


def watched(
    stretch: RateStretch, from_s: float, to_s: float, rate_hz: float, step: int = 0, **said: object
) -> RateStretch:
    """One look a second at a task that steps so often; weighed when that is due."""
    for now_s in range(int(from_s), int(to_s) + 1):
        look = RateSample(now_s=now_s, step=step + int((now_s - from_s) * rate_hz), stepped_s=now_s)
        stretch = stretch.seen(replace(look, **said))  # type: ignore[arg-type]
        if stretch.is_to_be_weighed:
            stretch = replace(stretch, used=CoreTime(now_s, 0.0))
    return stretch


def test_a_stretch_is_told_once_it_has_settled_and_then_not_for_a_minute() -> None:
    stretch = watched(RateStretch(), 0, 2, rate_hz=20)
    assert stretch.due(2) is None
    stretch = watched(stretch, 3, 10, rate_hz=20, step=60)
    rate = stretch.due(10)
    assert rate is not None
    assert rate.rate_hz == pytest.approx(20)
    told = stretch.after(rate.rate_hz, CoreTime(10, 0.0))
    assert watched(told, 11, 60, rate_hz=20, step=220).due(60) is None


@pytest.mark.parametrize(("rate_hz", "is_told"), [(20.5, False), (22, True), (18, True)])
def test_it_is_told_again_if_the_rate_of_the_last_minute_has_moved(rate_hz: float, is_told: bool) -> None:
    stretch = watched(RateStretch(), 0, 10, rate_hz=20)
    told = stretch.after(20, CoreTime(10, 0.0))
    later = watched(told, 11, 10 + AGAIN_S, rate_hz=rate_hz, step=200 + int(rate_hz))
    rate = later.due(10 + AGAIN_S)
    assert rate is not None
    assert rate.rate_hz == pytest.approx(rate_hz, rel=0.02)
    assert later.has_moved(rate.rate_hz) is is_told
    assert later.after(rate.rate_hz, CoreTime(70, 0.0)).reported_hz == (
        pytest.approx(rate_hz, rel=0.02) if is_told else 20
    )


@pytest.mark.parametrize("change", [{"neighbours": frozenset({"2"})}, {"duty": 50}, {"is_held_back": True}])
def test_any_change_begins_a_new_stretch_that_is_told_anew(change: dict[str, object]) -> None:
    stretch = watched(RateStretch(), 0, 10, rate_hz=20)
    changed = watched(stretch.after(20, CoreTime(10, 0.0)), 11, 11, rate_hz=20, step=220, **change)
    assert (changed.used, changed.reported_hz, changed.due(11)) == (None, None, None)


def test_of_a_guest_that_rests_is_told_what_it_makes_with_its_rests() -> None:
    stretch, step, told = RateStretch(), 0, list[float]()
    for now_s in range(3000):
        is_gated = now_s % 306 >= 6
        step += 0 if is_gated else 10
        look = RateSample(now_s=now_s, step=step, stepped_s=now_s, is_held_back=True, is_gated=is_gated)
        stretch = stretch.seen(look)
        if stretch.is_to_be_weighed:
            stretch = replace(stretch, used=CoreTime(now_s, 0.0))
        elif rate := stretch.due(now_s):
            told += [rate.rate_hz] if stretch.has_moved(rate.rate_hz) else []
            stretch = stretch.after(rate.rate_hz, CoreTime(now_s, 0.0))
    assert told[0] == pytest.approx(10, rel=0.1)
    assert len(told) > 1
    assert all(rate_hz == pytest.approx(60 / 306, rel=0.5) for rate_hz in told[1:])


@pytest.mark.parametrize("is_gated", [False, True])
def test_a_guest_that_makes_no_step_any_more_is_told_of_after_each_ten_minutes(is_gated: bool) -> None:
    stretch = watched(RateStretch(), 0, 10, rate_hz=20, is_held_back=True).after(20, CoreTime(10, 0.0))
    told = []
    for now_s in range(11, 2000):
        said_s = now_s if is_gated else 10
        stretch = stretch.seen(RateSample(now_s, 200, said_s, is_held_back=True, is_gated=is_gated))
        if (rate := stretch.due(now_s)) and stretch.has_moved(rate.rate_hz):
            told.append((rate.steps, round(1 / rate.rate_hz)))
            stretch = stretch.after(rate.rate_hz, CoreTime(now_s, 0.0))
    assert told == [(0, 600), (0, 1200), (0, 1800)]


def test_what_was_measured_under_a_lease_is_told_of_that_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    words = defaultdict[int, int](int)
    rank = SimpleNamespace(look=lambda: SimpleNamespace(words=words, step=words[layout.STEP]))
    task = SimpleNamespace(ranks=[rank], roots=set(), duty=100)
    kind = SimpleNamespace(utilisation=lambda *_: 0.5, held_bytes=lambda *_: 0)
    context = SimpleNamespace(node_attempts=SimpleNamespace(neighbours=lambda _: []), kind=kind, some=list)
    record = SimpleNamespace(key=("1", 1), job="1", attempt=1, generation=1, devices=(0,))
    attempt: Any = SimpleNamespace(
        record=record, context=context, attached=lambda: task, is_settled=True, is_over=False, is_throttled=False
    )
    attempt.is_gated, attempt.is_compared, attempt.pace = False, False, Pace()
    measuring, told = RateReports(), []

    def weighed(roots: dict[tuple[str, int], set[int]]) -> dict[tuple[str, int], float]:
        record.generation += words[layout.STEP] > 20  # it is paused and goes on while it is weighed
        return dict.fromkeys(roots, 0.0)

    async def look() -> None:
        for now_s in range(12):
            words[layout.STEP], words[layout.HEARTBEAT] = 10 * now_s, int(now_s * 1e9)
            told.extend(await measuring.look([attempt], now_s))

    monkeypatch.setattr(cpu, "cpu_times_s", weighed)
    asyncio.run(look())
    assert told[0].generation == 1


def test_what_cores_spend_on_a_family_is_counted_with_those_of_it_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\n"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint(flush=True)\ninput()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: cpu_times_s({"it": [process.pid]})["it"] >= 0.2, "its child's time is its own")
        process.communicate(b"\n")
    assert cpu_times_s({"gone": [process.pid]}) == {"gone": 0.0}


@pytest.mark.parametrize(("cpu_s", "cores", "used"), [(1.0, 1, 0.5), (1.0, 2, 0.25), (9.0, 1, 1.0), (-1.0, 1, 0.0)])
def test_utilisation_is_a_part_of_the_cores_of_the_devices(cpu_s: float, cores: int, used: float) -> None:
    assert core_utilisation(CoreTime(0.0, 0.0), CoreTime(2.0, cpu_s), cores) == pytest.approx(used)
