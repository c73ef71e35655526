"""Arrays and lengths of time as people write them, and how they are refused."""

from __future__ import annotations

import pytest

from weft.core.errors import InputError
from weft.system.units import parse_array, parsed_seconds


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("7", [7], None),
        ("1-4", [1, 2, 3, 4], None),
        ("1-4%2", [1, 2, 3, 4], 2),
        ("0-10:5", [0, 5, 10], None),
        ("9,1-2", [1, 2, 9], None),
        ("1, 3", [1, 3], None),
        ("0-9999", list(range(10_000)), None),
    ],
)
def test_an_array_is_a_list_of_indices_and_perhaps_a_limit(text: str, indices: list[int], limit: int | None) -> None:
    assert parse_array(text) == (indices, limit)


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("", "has no elements", "1-10"),
        ("%4", "has no elements", "1-10"),
        ("1-x", 'at character 1: "1-x" is neither a number nor a range', "1-10%4"),
        ("1,2,b", 'at character 5: "b" is neither', "1-10%4"),
        ("1,,2", 'at character 3: "" is neither', "1-10%4"),
        ("-3", 'at character 1: "-3" is neither', "1-10%4"),
        ("٣", "is neither a number nor a range", "1-10%4"),
        ("5-1", 'at character 1: "5-1" ends before it begins', "did you mean 1-5?"),
        ("1-9:0", "has a stride of 0", "1-9:2"),
        ("1,1", 'at character 3: "1" names 1 a second time', "once"),
        ("1-10%0", 'at character 6: "0" lets no element run', "%1"),
        ("1-10%", 'at character 6: "" is no number', "1-10%4"),
        ("1-10%-1", '"-1" is no number', "1-10%4"),
        ("1-10%2%3", '"2%3" is no number', "1-10%4"),
        ("0-10000", "10,001 elements", "several arrays"),
        ("1-9999999", "elements", "several arrays"),
        ("0-6000,7000-12000", "elements", "several arrays"),
        ("1-99999999999999999999", "goes beyond 9,999,999", "count from 0 or 1"),
    ],
)
def test_a_malformed_array_is_refused_with_the_place_and_a_hint(text: str, error: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_array(text)
    assert error in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1.5 H", 5400),
        ("1d", 86400),
        ("5:30", 330),
        ("90:00", 5400),
        ("1:30:00", 5400),
        ("100:00:00", 360_000),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("2-12:30:05", 217_805),
    ],
)
def test_a_length_of_time_is_read_as_slurm_reads_it_or_with_a_unit(text: str, seconds: float) -> None:
    assert parsed_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "x", "2w", "-5", "1:2:3:4", "1:60:00", "1-24:00", "1:5:99", "2-", "nan", "1e3", "٣h"]
)
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a length of time") as caught:
        parsed_seconds(text)
    assert "D-HH:MM:SS" in caught.value.hint


@pytest.mark.parametrize(("text", "error"), [("0", "not positive"), ("0:00", "not positive"), ("99999d", "ten years")])
def test_a_time_that_makes_no_sense_is_refused(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        parsed_seconds(text)
