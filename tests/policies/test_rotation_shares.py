"""What everybody gets where jobs take turns: time by weight, whatever the gangs, their rates and when they came."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from sharing_words import GB, Stage

from weft.core.commands import Preempt, Start
from weft.core.errors import InputError
from weft.core.events import Finished, Held, Measured, Released, Submitted
from weft.core.reasons import Code, Reason
from weft.core.values import JobSpec, check_spec
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.policy import Policy

RATES_HZ = (0.5, 2.0, 3.3, 5.1, 7.7, 40.0)


def stage_of(*sizes: int, quantum_s: float = 60.0, quantum_steps: float = 100.0) -> Stage:
    return Stage(Policy(GandivaOrder(quantum_s, quantum_steps)), *sizes)


def run_s(stage: Stage) -> dict[str, float]:
    return {name: one.run_s(stage.now) for name, one in stage.scheduler.ledger.jobs.items()}


def lived(stage: Stage, until_s: float, rates_hz: Mapping[str, float]) -> dict[str, float]:
    """What part of the time until then each had its devices, measured in every lease a few seconds after its start."""
    before, begun_s = run_s(stage), stage.now
    while stage.now < until_s:
        running = stage.scheduler.ledger.running.items()
        measures = [
            Measured(name, job.generation, rates_hz.get(name, 1.0), 0.9, GB, GB)
            for name, job in running
            if stage.now >= job.since_s + 3.0 and (job.measured is None or job.measured.generation != job.generation)
        ]
        stage.tell(min(until_s, stage.now + 3.0), *measures)
    return {name: (had_s - before[name]) / (until_s - begun_s) for name, had_s in run_s(stage).items()}


def fair(specs: Sequence[JobSpec], devices: int) -> dict[str, float]:
    """Max-min by weight: nobody has more than all of the time, and all together no more devices than there are."""
    low, high = 0.0, 1.0 / min(spec.weight for spec in specs)
    for _ in range(60):
        level = (low + high) / 2
        asked = sum(spec.gang_size * min(1.0, spec.weight * level) for spec in specs)
        low, high = (low, level) if asked > devices else (level, high)
    return {spec.id: min(1.0, spec.weight * low) for spec in specs}


@st.composite
def mixes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[JobSpec], dict[str, float]]:
    """A server, singles enough to fill whatever gangs leave over, gangs, in any order, and how fast each steps."""
    sizes = draw(st.sampled_from([(2,), (4,)]))
    widths = [width for width in (2, 4, 8) if width <= sum(sizes)]
    gangs = [
        *[1] * draw(st.integers(2 * sum(sizes), 3 * sum(sizes))),
        *draw(st.lists(st.sampled_from(widths), max_size=3)),
    ]
    weights = draw(st.sampled_from([(1.0,), (1.0, 2.0, 3.0)]))
    specs = [
        JobSpec(f"{gang_size}-{i}", gang_size, weight=draw(st.sampled_from(weights)))
        for i, gang_size in enumerate(draw(st.permutations(gangs)))
    ]
    return sizes, specs, {spec.id: draw(st.sampled_from(RATES_HZ)) for spec in specs}


@given(mixes())
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_everybody_has_its_fair_part_and_no_device_stands_idle(
    mix: tuple[tuple[int, ...], list[JobSpec], dict[str, float]],
) -> None:
    sizes, specs, rates_hz = mix
    wanted = fair(specs, sum(sizes))
    gangs = sum(wanted[spec.id] for spec in specs if spec.gang_size > 1)
    assume(
        gangs + max(wanted[spec.id] for spec in specs if spec.gang_size == 1) < 0.95
    )  # else there is no way to do it
    stage = stage_of(*sizes, quantum_s=20.0)
    for i, spec in enumerate(specs):
        stage.tell(7.0 * i, Submitted(spec))
    lived(stage, 600.0, rates_hz)
    parts = lived(stage, 600.0 + 6000.0, rates_hz)
    assert parts == {name: pytest.approx(part, rel=0.05) for name, part in wanted.items()}
    assert sum(spec.gang_size * parts[spec.id] for spec in specs) > 0.99 * sum(sizes)


def test_jobs_of_different_rates_have_equal_time_though_their_quanta_are_not_equal() -> None:
    stage = stage_of(2)
    stage.submit(0.0, *"abcd")
    parts = lived(stage, 3600.0, dict(zip("abcd", (2.0, 3.3, 5.1, 7.7), strict=True)))
    assert list(parts.values()) == [pytest.approx(0.5, rel=0.04)] * 4


def test_a_gang_among_singles_whose_quanta_never_end_together_has_as_much_time_as_they() -> None:
    stage = stage_of(2)
    stage.submit(0.0, *"abcd")
    stage.submit(40.0, "gang", gang_size=2)
    parts = lived(stage, 3640.0, dict(zip("abcd", (2.0, 3.3, 5.1, 7.7), strict=True)))
    assert list(parts.values()) == [pytest.approx(1 / 3, rel=0.04)] * 5


def test_time_is_shared_by_weight() -> None:
    stage = stage_of(1)
    for name, weight in (("one", 1.0), ("two", 2.0), ("three", 3.0)):
        stage.submit(0.0, name, weight=weight)
    parts = lived(stage, 3600.0, {})
    assert parts == {
        name: pytest.approx(part, abs=0.02) for name, part in zip(parts, (1 / 6, 1 / 3, 1 / 2), strict=True)
    }


def test_a_weight_beyond_one_device_is_worth_one_device_and_the_others_share_the_rest() -> None:
    stage = stage_of(2)
    stage.submit(0.0, "heavy", weight=50.0)
    stage.submit(0.0, *"abc")
    parts = lived(stage, 3600.0, {})
    assert parts["heavy"] > 0.97
    assert [parts[name] for name in "abc"] == [pytest.approx(1 / 3, rel=0.06)] * 3


def test_what_it_never_could_have_used_is_no_credit_of_a_heavy_job() -> None:
    """For hours it has a device to itself; then it is one of many, and has its part of the time and no more."""
    stage = stage_of(2)
    stage.submit(0.0, "heavy", weight=9.0)
    stage.submit(0.0, *"abc")
    lived(stage, 10_000.0, {})
    stage.submit(10_000.0, *(f"new{i}" for i in range(9)))
    parts = lived(stage, 20_000.0, {})
    assert parts["heavy"] == pytest.approx(9 * 2 / 21, rel=0.06)
    assert min(parts.values()) > 0.85 * 2 / 21


def test_who_comes_late_has_no_claim_on_what_was_shared_before() -> None:
    stage = stage_of(1)
    stage.submit(0.0, "a", "b")
    lived(stage, 5000.0, {})
    stage.submit(5000.0, "late")
    parts = lived(stage, 6800.0, {})
    assert list(parts.values()) == [pytest.approx(1 / 3, abs=0.04)] * 3


def test_who_was_on_hold_comes_back_among_equals() -> None:
    stage = stage_of(1)
    stage.submit(0.0, "a", "b", "away")
    lived(stage, 300.0, {})
    while stage.job("away").is_running:
        stage.tell(stage.now + 10.0)
    stage.tell(stage.now, Held("away", Reason(Code.HELD)))
    lived(stage, 5000.0, {})
    stage.tell(5000.0, Released("away", Code.HELD))
    parts = lived(stage, 6800.0, {})
    assert list(parts.values()) == [pytest.approx(1 / 3, abs=0.04)] * 3


def test_gangs_that_cannot_run_beside_each_other_leave_nobody_to_starve_later() -> None:
    """The single runs all the time on the device that two gangs of two leave over; it pays for that with a little."""
    stage = stage_of(3)
    stage.submit(0.0, "p", "q", gang_size=2)
    stage.submit(0.0, "single")
    assert lived(stage, 10_000.0, {})["single"] > 0.99
    stage.submit(10_000.0, "other")
    parts = lived(stage, 12_000.0, {})
    assert min(parts.values()) > 0.3


def test_who_begins_while_a_gang_waits_for_its_turn_makes_way_in_its_quantum_and_no_device_waits_for_the_gang() -> None:
    stage = stage_of(2, quantum_steps=1e9)
    stage.submit(0.0, "a", "b", "c")
    stage.submit(30.0, "gang", gang_size=2)
    stage.tell(2000.0)
    turns = [at_s for at_s, one in stage.log if isinstance(one, Start) and one.job_id == "gang"]
    began_s = {(one.job_id, one.generation): at_s for at_s, one in stage.log if isinstance(one, Start)}
    made_way = [
        at_s - began_s[one.job_id, one.generation]
        for at_s, one in stage.log
        if isinstance(one, Preempt) and at_s in turns[1:]
    ]
    assert min(made_way) < 60.0 - 1.0
    assert max(made_way) > 60.0 - 1.0
    assert run_s(stage)["gang"] == pytest.approx(2000.0 * 2 / 5, rel=0.05)
    assert sum(one.attained(stage.now) for one in stage.scheduler.ledger.jobs.values()) == pytest.approx(4000.0)


def test_while_nobody_goes_without_nobody_is_woken() -> None:
    stage = stage_of(2)
    stage.submit(0.0, "a", "b")
    stage.tell(61.0)
    assert stage.wake_at == math.inf
    stage.submit(70.0, "c")
    stage.tell(90.0)
    assert stage.wake_at < math.inf
    stage.tell(100.0, Finished("c", stage.job("c").generation))
    stage.tell(400.0)
    assert (stage.wake_at, stage.running) == (math.inf, {"a", "b"})


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_that_is_not_above_0_is_refused(weight: float) -> None:
    with pytest.raises(InputError, match="has a weight of"):
        check_spec(JobSpec("a", weight=weight))
