"""Philly's own log, which is JSON."""

from __future__ import annotations

import json

import pytest

from weft.sim.trace import read_trace, trace_file


def attempt(start: str | None, end: str | None, *gpus_by_node: int) -> dict[str, object]:
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(n)]} for i, n in enumerate(gpus_by_node)]
    return {"start_time": start, "end_time": end, "detail": detail}


def logged(jobid: str, submitted: str | None, *attempts: dict[str, object]) -> dict[str, object]:
    known = {"status": "Pass", "vc": "ee9e8c", "user": "u"}
    return {**known, "jobid": jobid, "submitted_time": submitted, "attempts": list(attempts)}


LOG = [
    logged(
        "app_1",
        "2017-10-09 07:01:00",
        attempt("2017-10-09 07:02:00", "2017-10-09 07:03:00", 1),
        attempt("2017-10-09 07:04:00", "2017-10-09 07:04:30", 8, 8),
        attempt("2017-10-09 07:05:00", None, 4),
    ),
    logged("app_2", "2017-10-09 07:00:00", attempt("2017-10-09 07:00:01", "2017-10-09 07:00:03", 2)),
    logged("app_3", "2017-10-09 07:00:00", attempt("None", "None", 2)),
    logged("app_4", "2017-10-09 07:00:00"),
    logged("app_5", "2017-11-05 01:40:00", attempt("2017-11-05 01:50:00", "2017-11-05 01:10:00", 2)),
    logged("app_6", "2017-10-09 07:00:00", attempt("2017-10-09 07:00:01", "2017-10-09 07:00:03")),
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("block_characters", [7, 1 << 20])
def test_attempts_add_up_and_jobs_that_never_ran_are_left_out(write, monkeypatch, indent, block_characters):
    monkeypatch.setattr(trace_file, "BLOCK_CHARACTERS", block_characters)
    monkeypatch.setattr(trace_file, "LONGEST_HEADER_CHARACTERS", 50)
    trace = read_trace([write(json.dumps(LOG, indent=indent), "log")])
    assert [(j.spec.id, j.arrival_s, j.duration_s, j.spec.gang_size, j.spec.tenant) for j in trace] == [
        ("app_2", 0.0, 2.0, 2, "ee9e8c"),
        ("app_1", 60.0, 90.0, 16, "ee9e8c"),
    ]
    assert trace.left_out == {"never ran": 2, "ran without a GPU": 1, "an attempt ends before it starts": 1}


def test_a_job_is_found_by_the_line_on_which_it_starts(write):
    trace = read_trace([write("[\n" + ",\n".join(map(json.dumps, LOG[:2])) + "\n]\n", "log.json")])
    assert trace.where(0).endswith("log.json, line 3")


def test_a_time_that_cannot_be_read_names_line_and_field(refusal):
    bad = logged("a", "yesterday", attempt("2017-10-09 07:02:00", "2017-10-09 07:03:00", 1))
    assert str(refusal("[\n" + json.dumps(bad) + "]", "log.json")).startswith(
        'log.json, line 2, field submitted_time: "yesterday" is not a number of seconds or a time'
    )


@pytest.mark.parametrize("entry", ["7", "{}", '{"jobid": "a", "vc": "b", "submitted_time": "c", "attempts": [1]}'])
def test_an_entry_that_is_no_philly_job_names_its_line(refusal, entry):
    assert "log.json, line 2: the entry that starts here is not a job" in str(refusal(f"[\n{entry}\n]", "log.json"))


@pytest.mark.parametrize("text", ['[{"jobid": ', "[nonsense]", "[" + json.dumps(LOG[1]), f"[{json.dumps(LOG[1])} 5]"])
def test_damaged_json_is_refused(refusal, text):
    assert str(refusal(text, "log.json")).startswith("log.json, line 1: ")


def test_an_empty_list_has_no_jobs(refusal):
    assert "no rows" in str(refusal("[]", "log.json"))
