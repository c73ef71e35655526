"""A trace as a whole: its order, its first jobs, several files in one, and jobs from memory."""

from __future__ import annotations

import gzip
import math
import pickle
from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.core.values import JobSpec
from weft.sim.trace import Trace, TraceJob, read_trace

HEADER = "id,arrival,duration,gang,tenant\n"


def test_jobs_come_in_order_of_arrival_and_ties_in_order_of_the_file(write):
    trace = read_trace([write(HEADER + "c,20,1,1,x\na,10,1,1,y\nd,20,1,1,x\nb,10,1,1,y\n")])
    assert [job.spec.id for job in trace] == ["a", "b", "c", "d"]
    assert [job.arrival_s for job in trace] == [0.0, 0.0, 10.0, 10.0]
    assert trace.tenants == ("y", "x")


def test_a_trace_can_be_iterated_again_and_looked_up_by_position(write):
    trace = read_trace([write(HEADER + "b,9,1,4,x\na,5,1,2,y\n")])
    assert list(trace) == list(trace)
    assert len(trace) == 2
    assert (list(trace.ids), trace.ids[-1], list(trace.ids[:1])) == (["a", "b"], "b", ["a"])
    assert list(trace.tenants_by_job) == ["y", "x"]
    assert trace.where(0).endswith("jobs.csv, line 3")
    assert (trace.largest_gang, trace.name) == (4, "jobs")
    with pytest.raises(IndexError):
        trace.ids[2]


def test_a_trace_and_its_lookups_can_be_sent_to_another_process(write):
    trace = read_trace([write(HEADER + "b,9,1,4,x\na,5,1,2,y\n")])
    copy, ids = pickle.loads(pickle.dumps((trace, trace.ids)))  # noqa: S301
    assert list(copy) == list(trace)
    assert list(ids) == ["a", "b"]


def test_the_first_jobs_are_the_first_by_arrival_and_all_else_is_forgotten(write):
    path = write(HEADER + "c,30,1,8,z\na,10,1,1,x\nb,20,1,2,y\n")
    trace = read_trace([path], first=2)
    assert list(trace) == list(read_trace([path]).first(2))
    assert list(trace.ids) == ["a", "b"]
    assert (trace.largest_gang, trace.tenants) == (2, ("x", "y"))
    assert len(trace.first(9)) == 2
    with pytest.raises(InputError, match="the first 0 jobs"):
        read_trace([path], first=0)


def test_several_files_are_merged_by_their_own_clock_and_ties_by_the_order_of_files(write):
    one = write(HEADER + "a,100,1,1,x\nc,130,1,1,x\n", "one.csv")
    two = write("arrival,duration,gang,model\n130,1,2,bert\n110,1,2,gpt2\n", "two.csv")
    trace = read_trace([one, two])
    assert [(job.spec.id, job.arrival_s) for job in trace] == [
        ("a", 0.0),
        ("job-4", 10.0),
        ("c", 30.0),
        ("job-3", 30.0),
    ]
    assert [job.spec.model for job in trace] == ["", "gpt2", "", "bert"]
    assert [Path(trace.where(i)).name for i in range(4)] == [
        "one.csv, line 2",
        "two.csv, line 3",
        "one.csv, line 3",
        "two.csv, line 2",
    ]
    assert trace.name == "one + two"


def test_files_with_and_without_durations_by_type_can_be_merged(write):
    typed = write("arrival,gang,duration.V100\n0,1,50\n", "typed.csv")
    untyped = write("arrival,duration,gang\n1,50,1\n", "untyped.csv")
    assert [job.spec.step_rate_hz for job in read_trace([typed, untyped])] == [{"V100": 1.0}, {}]


def test_ids_that_several_files_use_are_told_apart_by_the_file(write):
    one, two = (
        write(HEADER + "7,0,1,1,x\n", "venus.csv"),
        write(HEADER + "7,1,1,1,x\n8,2,1,1,x\n", "earth.csv"),
    )
    assert list(read_trace([one, two]).ids) == ["venus/7", "earth/7", "earth/8"]
    assert list(read_trace([two, two]).ids) == ["1/7", "2/7", "1/8", "2/8"]


def test_files_that_tell_dates_and_files_that_tell_seconds_cannot_be_merged(write):
    dated = write("arrival,duration,gang\n2024-01-01,1,1\n", "dated.csv")
    counted = write("arrival,duration,gang\n0,1,1\n", "counted.csv")
    with pytest.raises(InputError, match="no clock in common"):
        read_trace([dated, counted])


def test_a_file_may_be_compressed(tmp_path: Path):
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(b"arrival,duration,gang\n0,60,4\n"))
    assert (len(read_trace(path)), read_trace(path).name) == (1, "jobs")


def test_the_sample_overloads_sixteen_devices_for_a_day_at_work():
    trace = read_trace(["sample"])
    jobs = list(trace)
    span_s = jobs[-1].arrival_s
    work_device_s = sum(job.duration_s * job.spec.gang_size for job in jobs)
    assert (trace.name, len(trace), trace.largest_gang, len(trace.tenants)) == ("sample", 200, 8, 4)
    assert 7 * 3600 < span_s < 8 * 3600
    assert 1.05 < work_device_s / (16 * span_s) < 1.15


def test_a_file_named_sample_is_that_file(write, monkeypatch):
    path = write("arrival,duration,gang\n0,1,1\n", "sample")
    monkeypatch.chdir(path.parent)
    assert len(read_trace(["sample"])) == 1


def test_a_trace_can_be_made_of_jobs_in_memory():
    late = TraceJob(JobSpec("late", gang_size=2, tenant="x", declared_steps=500.0), 30.0, 5.0)
    early = TraceJob(JobSpec("early", device_types=frozenset({"V100"})), 10.0, 7.0)
    tied = TraceJob(JobSpec("tied"), 10.0, 0.0)
    trace = Trace.of([late, early, tied], name="mine")
    assert [(job.spec.id, job.arrival_s) for job in trace] == [("early", 0.0), ("tied", 0.0), ("late", 20.0)]
    assert list(trace)[2].spec is late.spec
    assert (trace.device_types, trace.largest_gang, trace.tenants) == ({"V100"}, 2, ("default", "x"))
    assert trace.where(2) == "mine, job 1"


def test_a_trace_may_be_made_of_nothing():
    trace = Trace.of([])
    assert (list(trace), len(trace), trace.largest_gang, trace.tenants) == ([], 0, 0, ())


@pytest.mark.parametrize(
    ("job", "complaint"),
    [
        (TraceJob(JobSpec("a"), 0.0, 1.0), 'job 2: another job has the id "a" already'),
        (TraceJob(JobSpec("b"), 0.0, math.nan), "job 2: arrival and duration are finite"),
        (TraceJob(JobSpec("b"), math.inf, 1.0), "job 2: arrival and duration are finite"),
        (TraceJob(JobSpec("b", gang_size=0), 0.0, 1.0), "job 2: gang size 0"),
    ],
)
def test_jobs_in_memory_are_checked_like_those_of_a_file(job, complaint):
    with pytest.raises(InputError, match=complaint):
        Trace.of([TraceJob(JobSpec("a"), 0.0, 1.0), job])
