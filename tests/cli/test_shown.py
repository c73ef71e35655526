"""Figures as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from weft.cli.render.job_text import device_memory, devices, metrics, share_mark, sharing, status_line
from weft.cli.render.tables import clock, printable, rate, shortened, size
from weft.core.text import duration_text

MEASURED = {"persistent_bytes": 1536, "ephemeral_bytes": 4096, "peak_bytes": 5120, "overflow_bytes": 0}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0:00"), (59.9, "0:59"), (303, "5:03"), (3903, "1:05:03"), (176703, "2-01:05:03"), (-1, "0:00")],
)
def test_a_time_is_written_as_squeue_does(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.25, "2.25 s"),
        (89, "89 s"),
        (299.7, "5 min"),
        (7199, "120 min"),
        (9000, "2.5 h"),
        (604_800, "7 days"),
    ],
)
def test_a_time_in_a_sentence_is_in_the_unit_of_which_there_are_a_few(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_reported_value_that_is_no_number_is_shown_as_such() -> None:
    """It comes as null: JSON has no word for it."""
    assert metrics({"metrics": {"loss": None, "accuracy": 0.51234}}) == ["loss nan", "accuracy 0.5123"]
    assert metrics({}) == []


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "-"),
        (0, "0B"),
        (1023, "1023B"),
        (1536, "1.5K"),
        (11 << 30, "11G"),
        (1 << 40, "1T"),
        (1000 << 40, "1000T"),
    ],
)
def test_a_size_is_written_in_units_that_count_by_1024(size_bytes: int | None, text: str) -> None:
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (None, ""),
        ({"peak_bytes": None, "limit_bytes": None}, ""),
        ({"peak_bytes": None, "limit_bytes": 4 << 30}, "4G allowed"),
        ({**MEASURED, "limit_bytes": None}, "P 1.5K, T 4K, peak 5K, overflow 0B"),
        (
            {**MEASURED, "overflow_bytes": 512, "limit_bytes": 5120},
            "P 1.5K, T 4K, peak 5K of 5K allowed, overflow 512B",
        ),
    ],
)
def test_device_memory_is_what_lasts_what_a_step_has_and_what_may_be_used(
    memory: dict[str, Any] | None, text: str
) -> None:
    assert device_memory({"memory": memory} if memory else {}) == text


@pytest.mark.parametrize(
    ("number_hz", "text"), [(None, "-"), (0, "-"), (0.01234, "0.0123"), (35.21, "35.2"), (1234.5, "1234")]
)
def test_a_rate_has_three_figures(number_hz: float | None, text: str) -> None:
    assert rate(number_hz) == text


@pytest.mark.parametrize(
    ("job", "text"),
    [
        ({"devices": ["a:0", "a:1", "b:3"], "state": "RUNNING"}, "a:0,1 b:3"),
        ({"devices": [], "gpus": 4, "ntasks": 2, "state": "PENDING"}, "(4)"),
        ({"devices": [], "gpus": None, "ntasks": 2, "state": "PENDING"}, "(2)"),
        ({"devices": [], "gpus": 4, "state": "SUCCEEDED"}, "-"),
    ],
)
def test_devices_are_those_held_or_how_many_are_waited_for(job: dict[str, Any], text: str) -> None:
    assert devices(job) == text


@pytest.mark.parametrize(
    ("job", "mark", "text"),
    [
        ({}, "", ""),
        ({"guest": False, "beside": [], "lane": None, "interference_ratio": None}, "", ""),
        ({"guest": True, "beside": []}, "guest", "guest"),
        ({"guaranteed": True, "guest": False, "beside": ["4"]}, "guaranteed beside 4", "guaranteed beside 4"),
        ({"guest": True, "beside": ["17", "9_2"], "lane": 2}, "guest beside 17 9_2", "guest beside 17 9_2, lane 2"),
        (
            {"guest": False, "beside": ["4"], "interference_ratio": 0.874},
            "beside 4",
            "beside 4, at 87% of its rate alone",
        ),
    ],
)
def test_company_is_a_mark_in_the_queue_and_a_line_in_the_status(job: dict[str, Any], mark: str, text: str) -> None:
    assert (share_mark(job), sharing(job)) == (mark, text)


def test_a_guest_shows_its_progress_as_any_other() -> None:
    job = {"id": "7", "state": "RUNNING", "submitted_at": "then", "reason": "", "steps": 3, "step_rate_hz": 2.0}
    assert status_line({**job, "guest": True, "beside": ["4"]}) == "job 7  step 3  2 steps/s"


def test_the_line_about_a_running_job_is_its_progress_until_it_is_being_ended() -> None:
    job = {"id": "7", "state": "RUNNING", "submitted_at": "then", "reason": "", "steps": 1200, "step_rate_hz": 35.21}
    assert status_line(job) == "job 7  step 1,200  35.2 steps/s"
    told = status_line({**job, "reason": "cancelled; its processes are being ended"})
    assert told == "job 7  running  cancelled; its processes are being ended"


def test_a_name_cannot_move_the_cursor() -> None:
    assert printable("a\x1b[2Jb\nc") == "a?[2Jb?c"


def test_a_long_name_is_cut() -> None:
    assert shortened("a" * 30) == "a" * 23 + "…"
