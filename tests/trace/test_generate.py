"""Synthetic traces: like the published ones, at the load asked for, and the same again for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.errors import InputError
from weft.sim.generate import LIKES, Drawn, LoadSpec, generate, longest_span_s, plain_csv
from weft.sim.trace import read_trace
from weft.sim.trace.overview import overview

LEVELS = (0.25, 0.50, 0.75, 0.90, 0.99)
PUBLISHED_S = {
    "philly": (115, 1144, 2932, 11265, 254758),
    "helios": (72, 204, 1285, 18201, 172800),
    "pai": (131, 618, 3699, 12201, 66192),
}
"""Quantiles of duration at those levels: all rows of the published tables."""
ONE_DEVICE_SHARE = {"philly": 0.932, "helios": 0.518, "pai": 0.770}
WITHIN = 1.25
MANY = LoadSpec("philly", jobs=50_000, load=0.9, devices=1024, seed=7)
DAY_S = 86_400

names = st.sampled_from(sorted(LIKES))


def busy_at(drawn: Drawn, times_s):
    """How many devices run something at each of the times, if no job waits."""
    by_end = np.argsort(drawn.arrival_s + drawn.duration_s)
    begun = np.concatenate([[0], np.cumsum(drawn.gang_size)])
    ended = np.concatenate([[0], np.cumsum(drawn.gang_size[by_end])])
    end_s = (drawn.arrival_s + drawn.duration_s)[by_end]
    return begun[np.searchsorted(drawn.arrival_s, times_s, "right")] - ended[np.searchsorted(end_s, times_s, "right")]


def load_while_jobs_come(drawn: Drawn, devices: int) -> float:
    times_s = (np.arange(100_000) + 0.5) * drawn.arrival_s[-1] / 100_000
    return busy_at(drawn, times_s).mean() / devices


@pytest.mark.parametrize("like", LIKES)
def test_durations_are_spread_as_published(like):
    drawn_s = np.quantile(generate(replace(MANY, like=like)).duration_s, LEVELS)
    ratios = drawn_s / np.array(PUBLISHED_S[like])
    assert ratios.max() < WITHIN, ratios
    assert ratios.min() > 1 / WITHIN, ratios


@pytest.mark.parametrize("like", LIKES)
def test_gangs_are_as_frequent_as_published(like):
    gang_size = generate(replace(MANY, like=like)).gang_size
    assert np.mean(gang_size == 1) == pytest.approx(ONE_DEVICE_SHARE[like], abs=0.01)
    assert set(gang_size.tolist()) <= set(LIKES[like].gangs)


def test_large_gangs_of_philly_run_longer_than_single_devices():
    drawn = generate(MANY)
    assert np.median(drawn.duration_s[drawn.gang_size == 8]) > 5 * np.median(drawn.duration_s[drawn.gang_size == 1])


@pytest.mark.parametrize("like", LIKES)
def test_arrivals_go_by_hour_and_weekday(like):
    arrival_s = generate(replace(MANY, like=like)).arrival_s
    whole_weeks_s = arrival_s[arrival_s < arrival_s[-1] // (7 * DAY_S) * 7 * DAY_S]
    hours = np.bincount((whole_weeks_s // 3600 % 24).astype(int), minlength=24)
    days = np.bincount((whole_weeks_s // DAY_S % 7).astype(int), minlength=7)
    assert hours / hours.mean() == pytest.approx(np.array(LIKES[like].by_hour), abs=0.15)
    assert days / days.mean() == pytest.approx(np.array(LIKES[like].by_weekday), abs=0.1)


@settings(max_examples=30, deadline=None)
@given(
    like=names,
    jobs=st.integers(1000, 2000),
    load=st.floats(0.05, 1.5),
    devices=st.integers(1, 256),
    seed=st.integers(0, 2**64),
)
def test_while_jobs_come_they_keep_the_share_busy_that_was_asked_for(like, jobs, load, devices, seed):
    drawn = generate(LoadSpec(like, jobs, load, devices, seed))
    assert len(drawn.arrival_s) == jobs
    assert load_while_jobs_come(drawn, devices) == pytest.approx(load, rel=0.02)
    assert drawn.gang_size.max() <= devices


def test_what_long_jobs_do_after_the_last_arrival_is_no_part_of_the_load():
    """The longest of them runs for weeks, the others come within days: most of its work is done when they are gone."""
    drawn = generate(LoadSpec("philly", 5000, 0.9, 512, seed=1))
    assert drawn.duration_s.max() > 5 * drawn.arrival_s[-1]
    assert load_while_jobs_come(drawn, 512) == pytest.approx(0.9, rel=0.02)
    assert (drawn.duration_s * drawn.gang_size).sum() > 1.2 * 0.9 * 512 * drawn.arrival_s[-1]


def test_a_written_trace_has_the_load_that_was_drawn(tmp_path):
    drawn = generate(LoadSpec("pai", 2000, 0.9, 64))
    path = tmp_path / "jobs.csv"
    path.write_text(plain_csv(drawn))
    found = overview(read_trace(path))
    assert found.span_s == pytest.approx(drawn.arrival_s[-1], abs=0.001)
    assert found.device_s["mean"] == pytest.approx((drawn.duration_s * drawn.gang_size).mean())


def test_of_several_spans_with_the_same_load_the_longest_is_taken():
    """By the hours of the day, the load may go down and up again as the span gets shorter."""
    spans_s, busy = (1.0, 4.0, 8.0, 16.0, 32.0), (9.0, 3.0, 1.0, 2.0, 0.5)
    assert longest_span_s(lambda span_s: float(np.interp(span_s, spans_s, busy)), 2.0, 32.0) == pytest.approx(16.0)


@settings(max_examples=20, deadline=None)
@given(
    like=names, jobs=st.integers(99, 300), devices=st.integers(1, 16), seed=st.integers(0, 99), other=st.integers(0, 99)
)
def test_a_seed_gives_the_same_bytes_and_another_seed_others(like, jobs, devices, seed, other):
    spec = LoadSpec(like, jobs, 0.9, devices, seed, tenants=3)
    text = plain_csv(generate(spec))
    assert plain_csv(generate(spec)) == text
    assert (plain_csv(generate(replace(spec, seed=other))) == text) == (other == seed)


@settings(max_examples=20, deadline=None)
@given(like=names, jobs=st.integers(2, 300), seed=st.integers(0, 99))
def test_jobs_come_in_order_and_each_takes_some_time(like, jobs, seed):
    drawn = generate(LoadSpec(like, jobs, 0.9, max(1, jobs // 10), seed))
    assert drawn.arrival_s[0] == 0.0
    assert (np.diff(drawn.arrival_s) >= 0).all()
    assert drawn.duration_s.min() >= 1
    assert drawn.duration_s.max() <= LIKES[like].longest_s


def test_load_and_tenants_change_neither_durations_nor_gangs():
    first = generate(replace(MANY, jobs=500, devices=32))
    second = generate(replace(MANY, jobs=500, devices=32, load=0.3, tenants=5))
    assert (first.duration_s == second.duration_s).all()
    assert (first.gang_size == second.gang_size).all()
    assert second.arrival_s[-1] > 3 * first.arrival_s[-1]  # of long jobs, more is done within a longer span


def test_the_bytes_of_a_seed_stay_what_they_are():
    """Whoever names a seed in a paper means these jobs, in each later version too."""
    assert plain_csv(generate(LoadSpec("helios", 6, 0.4, 8, 1, tenants=2))) == RECORDED


def test_the_first_tenant_has_the_most_jobs():
    counts = np.bincount(generate(replace(MANY, tenants=4)).tenant)[1:]
    assert sorted(counts, reverse=True) == counts.tolist()
    assert counts[0] / counts.sum() == pytest.approx(1 / (1 + 2**-1.4 + 3**-1.4 + 4**-1.4), abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"like": "phily"}, 'unknown cluster "phily"'),
        ({"jobs": 1}, "a load needs a first and a last arrival"),
        ({"load": 0.0}, "a load of 0 cannot"),
        ({"load": float("nan")}, "a load of nan cannot"),
        ({"load": float("inf")}, "a load of inf cannot"),
        ({"load": 1e308}, "50,000 jobs are too few for a load of 1e+308"),
        ({"jobs": 2, "devices": 9}, "2 jobs are too few for a load of 0.9: if they all came within a second, 1 of 9"),
        ({"devices": 0}, "0 devices are none"),
        ({"tenants": -1}, "-1 tenants are none"),
        ({"seed": -1}, "the seed -1 is below 0"),
    ],
)
def test_what_cannot_be_generated_is_refused(wrong, message):
    with pytest.raises(InputError) as caught:
        generate(replace(MANY, **wrong))
    assert message in caught.value.message
    assert caught.value.hint


RECORDED = """\
arrival,duration,gang,tenant
0.000,22533,4,tenant-1
646.412,80,1,tenant-2
3205.392,114,4,tenant-1
6563.445,247,1,tenant-1
13374.942,219,1,tenant-2
28479.375,65,8,tenant-1
"""
