"""Gavel's traces: tabs, no header, work in steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.sim.trace import FORMS, read_trace

PUBLISHED = Path(__file__).parents[3] / "shared" / "traces" / "gavel-makespan.trace"


def line(steps="347387", scale="2", arrival="0", model="ResNet-18 (batch size 32)"):
    command = "python3 main.py --data_dir=%s/cifar10 --batch_size 32"
    return (
        f"{model}\t{command}\timage_classification/cifar10\t--num_steps\t1\t{steps}\t{scale}\t1\t-1.000000\t{arrival}\n"
    )


def test_a_first_line_of_gavel_fits_no_other_form():
    fitting = [name for name, layouts in FORMS.items() if any(layout.fits(line()) for layout in layouts)]
    assert fitting == ["gavel"]


def test_a_job_of_gavel_has_its_steps_its_gang_and_the_very_words_of_its_type(write):
    text = line(arrival="90.5") + "\n" + line("800", "1", "30", "A3C")
    first, second = read_trace([write(text, "jobs.trace")])
    assert (first.spec.id, first.spec.model, first.arrival_s) == ("job-2", "A3C", 0.0)
    assert (second.spec.model, second.arrival_s) == ("ResNet-18 (batch size 32)", 60.5)
    assert (second.spec.gang_size, second.spec.declared_steps) == (2, 347387.0)


def test_a_step_of_gavel_takes_a_second_where_no_rate_is_known(write):
    [job] = read_trace([write(line("800"))])
    assert job.duration_s == job.spec.declared_steps == 800.0
    assert not job.spec.step_rate_hz


def test_lines_may_end_as_on_windows(write):
    [job] = read_trace([write(line(arrival="7").replace("\n", "\r\n"))])
    assert job.arrival_s == 0.0


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (line(scale="0"), 'jobs.csv, line 2, field 7 (scale_factor): "0" is not a whole number ≥ 1'),
        (line(steps="many"), 'jobs.csv, line 2, field 6 (total_steps): "many" is not a whole number ≥ 1'),
        (line(steps=""), "jobs.csv, line 2, field 6 (total_steps): is empty, it takes a whole number ≥ 1"),
        ("A3C\t0\n", "jobs.csv, line 2: 2 fields, but a job of Gavel has 10"),
    ],
)
def test_a_line_that_is_no_job_of_gavel_is_refused_with_its_place(refusal, second, message):
    assert refusal(line() + second).message == message


def test_a_file_of_another_form_is_not_taken_for_one_of_gavel(refusal):
    error = refusal("arrival,duration,gang\n0,1,1\n", form="gavel")
    assert "does not fit the form gavel" in error.message
    assert "10 fields separated by tabs: job_type, command" in error.hint


def test_a_plain_table_with_tabs_is_still_told_to_use_commas(refusal):
    assert "separated by tabs" in refusal("arrival\tduration\tgang\n0\t1\t1\n").message


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published traces are not beside the checkout")
def test_the_published_trace_is_read_whole():
    trace = read_trace(PUBLISHED)
    assert len(trace) == 100
    assert {job.spec.gang_size for job in trace} == {1, 2, 4}
    assert len({job.spec.model for job in trace}) == 25
