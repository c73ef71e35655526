from __future__ import annotations

import io

import pytest
from make_runs import job_table, make_run, synthetic_run
from rich.console import Console

from weft.sim.results.report.rows import duration, groups
from weft.sim.results.summary import PolicyRun, short_labels, summarise
from weft.sim.results.text_table import render_table

NAMES = [
    "fifo",
    "backfill",
    "srsf",
    "tiresias-l",
    "tiresias-g",
    "gandiva",
    "las",
    "max-min",
    "dlas-gittins",
    "fifo",
]


def runs(count: int) -> list[PolicyRun]:
    return [synthetic_run(name, slowness=9.0 / (1 + at) ** 3) for at, name in enumerate(NAMES[:count])]


def text_of(shown: list[PolicyRun], width: int = 80) -> str:
    text = io.StringIO()
    render_table(shown, Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("count", [1, 3, 6, 10])
def test_every_heading_and_number_is_whole(count: int, width: int) -> None:
    shown = runs(count)
    text = text_of(shown, width)
    summaries = [summarise(run) for run in shown]
    for group in groups(summaries, short_labels([run.policy for run in shown])):
        for heading in (part for column in group.columns for part in column.heading.split("\n")):
            assert heading in text
        for row in group.rows(summaries):
            assert any(row == _cells(line, row) for line in text.splitlines()), row
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def _cells(line: str, row: list[str]) -> list[str]:
    """The last cells of a printed line, as many as the row has."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()][-len(row) :]


def test_each_policys_mean_is_compared_with_the_first() -> None:
    def took(policy: str, seconds: float) -> PolicyRun:
        return make_run(job_table([0.0], [seconds], [seconds]), policy)

    lines = text_of([took("fifo", 390.0), took("srsf", 100.0), took("slow", 400.0)]).splitlines()
    first = lines.index("Completion time and fairness") + 3
    shown = {line.split()[0]: line for line in lines[first : first + 3]}
    assert " 1× " in shown["fifo"]
    assert " 3.9× " in shown["srsf"]
    assert " 0.97× " in shown["slow"]


def test_every_parameter_is_printed_beside_the_result() -> None:
    run = make_run(job_table([0.0], [5.0], [5.0]), parameters={"queues": [3250, 1e4], "place": "pack", "depth": None})
    assert "queues=[3250, 10000.0], place=pack, depth=none" in text_of([run])


def test_names_that_look_like_markup_are_printed_as_they_are() -> None:
    assert "[bold]x[/bold] :gear:" in text_of([make_run(job_table([0.0], [5.0], [5.0]), "[bold]x[/bold] :gear:")], 120)


def test_a_long_name_folds_and_the_numbers_stay() -> None:
    text = text_of([synthetic_run("a-policy-with-a-name-longer-than-any-table-has-room-for")])
    assert max(map(len, text.splitlines())) <= 80
    assert "Preemptions" in text


def test_long_policies_are_short_in_the_tables_and_in_full_beside_their_parameters() -> None:
    asked = ["small_first.py:small_first:patience_s=600", "tiresias-g:history=a/rather/long/path.csv", "tiresias-g"]
    lines = text_of([synthetic_run(policy) for policy in asked]).splitlines()
    parameters = lines.index("Parameters")
    for label in ("small_first", "tiresias-g #1", "tiresias-g #2"):
        assert len([line for line in lines[:parameters] if line.startswith(f"{label} ")]) == 3
    assert [line for line in lines if "patience_s=600" in line] == [f"small_first    {asked[0]}"]
    assert [line for line in lines if "history=" in line] == [f"tiresias-g #1  {asked[1]}"]
    assert all(line == line.rstrip() for line in lines[parameters:])


def test_one_job_is_one_job() -> None:
    text = text_of([make_run(job_table([0.0], [5.0], [5.0]))])
    assert "1 job " in text
    assert "1 jobs" not in text


def test_a_piped_table_has_no_escape_codes() -> None:
    assert "\x1b" not in text_of(runs(3))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.25, "0.2 s"),
        (42.0, "42 s"),
        (804.0, "13.4 min"),
        (18_720.0, "5.2 h"),
        (267_840.0, "3.1 d"),
        (86_400.0 * 1234, "1,234 d"),
    ],
)
def test_durations_are_short_and_carry_their_unit(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
