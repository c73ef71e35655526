"""The plain form: what each column means, and that writing and reading agree."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.core.values import JobClass
from weft.sim.trace import TraceJob, read_trace


def test_three_columns_are_a_trace(write):
    [job] = read_trace([write("arrival,duration,gang\n0,60,4\n")])
    assert (job.arrival_s, job.duration_s, job.spec.gang_size) == (0.0, 60.0, 4)
    assert job.spec.declared_steps == 60.0
    assert job.spec.step_rate_hz == {}
    assert (job.spec.id, job.spec.tenant, job.spec.job_class) == ("job-1", "default", JobClass.AUTO)
    assert (job.spec.device_types, job.spec.memory_bytes, job.spec.model) == (None, None, "")


def test_every_optional_column_reaches_the_job(write):
    header = "id,arrival,duration,gang,tenant,class,model,memory,skew,min_run,types"
    row = "a1,0,60,2,ada,guaranteed,bert,4G,0.5,30,V100|K80"
    [job] = read_trace([write(f"{header}\n{row}\n")])
    spec = job.spec
    assert (spec.id, spec.tenant, spec.job_class, spec.model) == ("a1", "ada", JobClass.GUARANTEED, "bert")
    assert (spec.memory_bytes, spec.skew, spec.min_run_s) == (4 * 2**30, 0.5, 30.0)
    assert spec.device_types == {"V100", "K80"}


def test_an_empty_optional_cell_is_the_default(write):
    header = "arrival,duration,gang,tenant,class,model,memory,skew,min_run,types"
    [job] = read_trace([write(f"{header}\n0,60,1,,,,,,,\n")])
    assert job.spec == next(iter(read_trace([write("arrival,duration,gang\n0,60,1\n", "bare.csv")]))).spec


def test_durations_by_type_become_step_rates(write):
    trace = read_trace([write("arrival,gang,duration.V100,duration.K80\n0,1,100,400\n1,1,,300\n")])
    fast, slow = trace
    assert (fast.duration_s, fast.spec.declared_steps) == (100.0, 100.0)
    assert fast.spec.step_rate_hz == {"V100": 1.0, "K80": 0.25}
    assert fast.spec.device_types == {"V100", "K80"}
    assert (slow.duration_s, slow.spec.step_rate_hz, slow.spec.device_types) == (300.0, {"K80": 1.0}, {"K80"})
    assert trace.device_types == {"V100", "K80"}


@pytest.mark.parametrize(
    ("written", "size"),
    [("4G", 4 << 30), ("512m", 512 << 20), ("1.5 GiB", 3 << 29), ("2KB", 2048), ("77", 77)],
)
def test_memory_may_have_a_unit(write, written, size):
    [job] = read_trace([write(f"arrival,duration,gang,memory\n0,1,1,{written}\n")])
    assert job.spec.memory_bytes == size


@pytest.mark.parametrize(
    "header",
    [
        "arrival_s,duration_s,gang_size,user",
        "Submit_Time, DURATION ,gpus,Tenant",
        "arrival,duration,num_gpus,tenant",
    ],
)
def test_columns_have_synonyms_and_no_case(write, header):
    [job] = read_trace([write(f"{header}\n0,60,2,ada\n")])
    assert (job.duration_s, job.spec.gang_size, job.spec.tenant) == (60.0, 2, "ada")


def test_a_column_of_the_exact_name_wins_over_a_synonym(write):
    [job] = read_trace([write("arrival,duration,gang,user,tenant\n0,60,2,ada,lab\n")])
    assert job.spec.tenant == "lab"


def test_columns_that_mean_nothing_are_kept_in_mind(write):
    trace = read_trace([write("arrival,duration,gang,tenant,Tenants,colour,\n0,60,2,ada,x,red,\n")])
    assert trace.ignored_columns == ("Tenants", "colour")
    assert trace.first(1).ignored_columns == trace.ignored_columns


def test_arrivals_may_be_dates_and_without_a_zone_they_are_utc(write):
    rows = "2024-03-31 01:30:00,1,1\n2024-03-31T02:30:00Z,1,1\n2024-03-31T05:30:00+02:00,1,1\n"
    trace = read_trace([write("arrival,duration,gang\n" + rows)])
    assert [job.arrival_s for job in trace] == [0.0, 3600.0, 7200.0]


def test_a_whole_gang_may_be_written_as_a_decimal(write):
    assert read_trace([write("arrival,duration,gang\n0,60,4.0\n")]).largest_gang == 4


def test_a_duration_of_zero_is_a_duration(write):
    [job] = read_trace([write("arrival,duration,gang\n0,0,1\n")])
    assert job.duration_s == 0.0


def test_blank_lines_windows_line_ends_and_a_byte_order_mark_do_no_harm(write):
    trace = read_trace([write("\ufeff\r\narrival,duration,gang\r\n\r\n0,1,1\r\n   \r\n5,1,1\r\n\r\n")])
    assert [job.arrival_s for job in trace] == [0.0, 5.0]
    assert trace.where(1).endswith("jobs.csv, line 6")


name = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
seconds = st.floats(0, 1e9, allow_nan=False)
row = st.tuples(name, seconds, seconds, st.integers(1, 512), name, st.sampled_from(JobClass), name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(row, min_size=1, max_size=30, unique_by=lambda row: row[0]))
def test_what_is_written_is_read_in_order_of_arrival(tmp_path: Path, rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["id", "arrival", "duration", "gang", "tenant", "class", "model"], *rows])
    path = tmp_path / "jobs.csv"
    path.write_bytes(text.getvalue().encode())
    rows = sorted(rows, key=lambda row: row[1])
    assert [in_words(job) for job in read_trace([path])] == [
        (i, arrival - rows[0][1], *rest) for i, arrival, *rest in rows
    ]


def in_words(job: TraceJob) -> tuple[object, ...]:
    spec = job.spec
    return (spec.id, job.arrival_s, job.duration_s, spec.gang_size, spec.tenant, spec.job_class, spec.model)
