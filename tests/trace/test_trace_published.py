"""The published traces, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.sim.trace import read_trace

TRACES = Path(__file__).parents[3] / "shared" / "traces"

pytestmark = pytest.mark.skipif(not TRACES.exists(), reason="the published traces are not beside the checkout")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("philly.csv", 82_247),
        ("helios-venus.csv", 125_303),
        ("pai-2020.csv", 60_105),
        ("tiresias-60.csv", 60),
        ("allox-40.csv", 40),
    ],
)
def test_a_published_trace_has_as_many_jobs_as_rows(name, count):
    trace = read_trace([TRACES / name])
    assert len(trace) == count
    assert sum(1 for _ in trace) == count
    assert not trace.left_out
