"""What a bad file is told: file, line, column, and what was expected there."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.sim.trace import read_trace

HEADER = "id,arrival,duration,gang,class,memory,types,skew"
GOOD = "a,0,60,1,auto,4G,V100,0"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("b,0,-5,1,,,,", 'column duration: "-5" is not a number of seconds ≥ 0'),
        ("b,0,,1,,,,", "column duration: is empty, it takes a number of seconds ≥ 0"),
        ("b,0,nan,1,,,,", 'column duration: "nan" is not a number of seconds ≥ 0'),
        ("b,0,inf,1,,,,", 'column duration: "inf" is not a number of seconds ≥ 0'),
        ("b,0,1h,1,,,,", 'column duration: "1h" is not a number of seconds ≥ 0'),
        ("b,0,60,0,,,,", 'column gang: "0" is not a whole number ≥ 1'),
        ("b,0,60,1.5,,,,", 'column gang: "1.5" is not a whole number ≥ 1'),
        ("b,0,60,99999999999,,,,", 'column gang: "99999999999" is not a number up to 2,147,483,647'),
        ("b,soon,60,1,,,,", 'column arrival: "soon" is not a number of seconds or a time such as'),
        (
            "b,2024-01-01,60,1,,,,",
            'column arrival: "2024-01-01" is not a number of seconds or a time such as',
        ),
        ("b,0,60,1,urgent,,,", 'column class: "urgent" is not a class: auto, guaranteed, opportunistic'),
        ("b,0,60,1,,lots,,", 'column memory: "lots" is not a size such as "4G"'),
        ("b,0,60,1,,,V100|,", 'column types: "V100|" is not device types such as "V100|K80"'),
        ("b,0,60,1,,,,-1", 'column skew: "-1" is not a number ≥ 0'),
        (",0,60,1,,,,", "column id: is empty, it takes a job id"),
        ("a,0,60,1,,,,", 'column id: "a" is already the id of line 2'),
    ],
)
def test_a_bad_cell_names_file_line_and_column(refusal, row, complaint):
    assert str(refusal(f"{HEADER}\n{GOOD}\n\n{row}\n")).startswith(f"jobs.csv, line 4, {complaint}")


def test_a_bad_row_far_down_is_named_by_its_own_line(refusal):
    rows = "0,1,1\n" * 20_000
    assert "jobs.csv, line 20002, column gang:" in str(refusal(f"arrival,duration,gang\n{rows}0,1,x\n"))


def test_a_line_break_in_a_quoted_field_does_not_shift_the_lines(refusal):
    text = 'arrival,duration,gang,model\n0,1,1,"two\nlines"\n0,x,1,m\n'
    assert "jobs.csv, line 4, column duration:" in str(refusal(text))


def test_a_column_is_named_as_the_file_writes_it(refusal):
    assert "line 2, column Num_GPUs:" in str(refusal("Submit_Time,Duration_s,Num_GPUs\n0,1,x\n"))


def test_a_row_that_ends_before_it_starts_names_its_end(refusal):
    text = "job_name,task_name,inst_num,start_time,end_time,plan_gpu\nj,t,1,50,40,100\n"
    assert 'line 2, column end_time: "40" is not a time at or after start_time' in str(refusal(text))


def test_a_job_that_runs_on_no_type_is_refused(refusal):
    complaint = refusal("arrival,gang,duration.V100,duration.K80\n0,1,5,5\n0,1,,\n")
    assert str(complaint).startswith("jobs.csv, line 3, column duration.V100: is empty")


@pytest.mark.parametrize(("row", "fields"), [("0,60", "2 fields"), ("0,60,1,7", "4 fields"), ("0", "1 field")])
def test_too_few_or_too_many_fields_are_refused(refusal, row, fields):
    expected = f"jobs.csv, line 3: {fields}, but the header has 3"
    assert refusal(f"arrival,duration,gang\n0,1,1\n{row}\n").message == expected


def test_a_quote_that_does_not_end_is_refused_where_it_starts(refusal):
    assert "jobs.csv, line 2: not CSV" in str(refusal('arrival,duration,gang\n"0,1,1\n0,1,1\n'))


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_an_empty_file_is_refused(refusal, text):
    assert refusal(text).message == "jobs.csv: the file is empty"


def test_a_header_without_rows_is_refused(refusal):
    assert refusal("arrival,duration,gang\n").message == "jobs.csv: a header but no rows"


def test_a_file_of_which_nothing_is_left_says_why(refusal):
    text = "job_id,vc,gpu_num,submit_time,duration\n1,a,0,2020-04-01 00:00:00,5\n"
    assert refusal(text).message == "jobs.csv: all rows are left out (needs no GPU: 1)"


def test_a_header_that_fits_no_form_lists_the_forms_and_what_plain_needs(refusal):
    error = refusal("when,how_long\n1,2\n")
    assert "jobs.csv: the first line is the header of no form" in str(error)
    assert "philly-json" in error.hint
    assert "columns arrival, duration, gang" in error.hint


@pytest.mark.parametrize(
    ("header", "complaint", "hint"),
    [
        ("arival,duration,gang", "no column arrival", "arival: did you mean arrival? The form plain"),
        ("arrival,duration", "no column gang", "The form plain needs columns arrival, duration, gang."),
        ("submit_time,tenant", "no column duration and no column gang", "The form plain needs"),
    ],
)
@pytest.mark.parametrize("form", [None, "plain"])
def test_a_header_that_is_nearly_plain_is_told_what_it_lacks(refusal, header, complaint, hint, form):
    error = refusal(f"{header}\n1,2,3\n", form=form)
    assert error.message == f"jobs.csv: the header has {complaint}"
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolon"), ("\t", "tab")])
def test_another_separator_is_named(refusal, mark, name):
    error = refusal("arrival,duration,gang\n0,1,1\n".replace(",", mark))
    assert error.message == f"jobs.csv: the columns are separated by {name}s"
    assert "commas" in error.hint


@pytest.mark.parametrize(
    ("column", "meant"), [("tennant", "tenant"), ("Modle", "model"), ("usr", "user"), ("device_type", "device_types")]
)
def test_a_slip_in_an_optional_column_is_refused(refusal, column, meant):
    error = refusal(f"arrival,duration,gang,{column}\n0,1,1,x\n")
    assert error.message == f"jobs.csv, line 1: unknown column {column}"
    assert f"did you mean {meant}?" in error.hint


def test_a_header_that_does_not_fit_the_form_asked_for_says_what_that_needs(refusal):
    error = refusal("arrival,duration,gang\n0,1,1\n", form="tiresias")
    assert error.message == "jobs.csv: the first line does not fit the form tiresias"
    assert "num_gpu" in error.hint


def test_an_unknown_form_lists_the_forms(refusal):
    error = refusal("arrival,duration,gang\n0,1,1\n", form="slurm")
    assert error.message == 'unknown form "slurm"'
    assert "plain, philly" in error.hint


@pytest.mark.parametrize("header", ["arrival,duration,gpus,num_gpus", "arrival,duration,gang,gang"])
def test_two_columns_that_say_the_same_are_refused(refusal, header):
    assert "both give the gang" in str(refusal(f"{header}\n0,1,1,1\n"))


@pytest.mark.parametrize("header", ["duration,duration.V100", "types,duration.V100"])
def test_a_duration_by_type_stands_in_place_of_duration_and_types(refusal, header):
    assert "contradict each other" in str(refusal(f"arrival,gang,{header}\n0,1,1,1\n"))


def test_bytes_that_are_not_utf8_name_their_line(tmp_path: Path):
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"arrival,duration,gang,tenant\n0,1,1,ada\n0,1,1,j\xfcrgen\n")
    with pytest.raises(InputError, match=r"jobs\.csv, line 3: not UTF-8 text"):
        read_trace([path])


def test_a_file_that_is_not_there_and_a_directory_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        read_trace([tmp_path / "absent.csv"])
    with pytest.raises(InputError, match="is a directory"):
        read_trace([tmp_path])
    with pytest.raises(InputError, match="no trace file is named"):
        read_trace([])


@pytest.mark.parametrize(
    "damaged",
    [b"arrival,duration,gang\n", gzip.compress(b"arrival,duration,gang\n0,1,1\n")[:-9]],
    ids=["plain", "short"],
)
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, damaged: bytes):
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="damaged gzip file"):
        read_trace([path])
