"""What is said of a trace is what one would count by hand."""

from __future__ import annotations

import pytest

from weft.sim.trace import read_trace
from weft.sim.trace.overview import overview

ROWS = "arrival,duration,gang,tenant,model\n100,10,1,a,vgg\n200,20,2,b,vgg\n300,30,4,a,\n7400,40,1,a,bert\n"


def test_the_offered_load_is_of_the_device_seconds_before_the_last_arrival(write):
    found = overview(read_trace(write(ROWS)))
    assert (found.trace, found.jobs, found.span_s) == ("jobs", 4, 7300.0)
    assert found.busy_devices == pytest.approx((10 + 40 + 120) / 7300)


def test_quantiles_are_of_durations_and_of_durations_times_gangs(write):
    found = overview(read_trace(write(ROWS)))
    assert (found.duration_s["mean"], found.duration_s["p50"], found.duration_s["max"]) == (25.0, 25.0, 40.0)
    assert (found.device_s["mean"], found.device_s["p50"], found.device_s["max"]) == (52.5, 40.0, 120.0)
    assert list(found.duration_s) == ["mean", "p10", "p25", "p50", "p75", "p90", "p99", "max"]


def test_arrivals_are_counted_by_the_hour_since_the_first(write):
    found = overview(read_trace(write(ROWS)))
    assert found.arrivals_per_hour == {"mean": pytest.approx(4 / 3), "peak": 3.0}


def test_gangs_come_by_size_tenants_and_models_by_their_jobs(write):
    found = overview(read_trace(write(ROWS)))
    assert list(found.gangs.items()) == [(1, 2), (2, 1), (4, 1)]
    assert list(found.tenants.items()) == [("a", 3), ("b", 1)]
    assert list(found.models.items()) == [("vgg", 2), ("bert", 1)]


def test_jobs_that_arrive_at_once_have_no_load_but_an_hour(write):
    found = overview(read_trace(write("arrival,duration,gang\n5,10,1\n5,20,2\n")))
    assert (found.span_s, found.busy_devices) == (0.0, None)
    assert found.arrivals_per_hour == {"mean": 2.0, "peak": 2.0}


def test_only_the_first_jobs_count_if_asked(write):
    assert overview(read_trace(write(ROWS), first=2)).busy_devices == pytest.approx(10 / 100)
