"""A measured figure in the README was written by a command for this code, or is marked as one of earlier code."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from figures import FOLDER, decisions, read  # noqa: E402
from readme import EARLIER, MARKED, current, rendered  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = FOLDER / "make-results.json"
GOAL = re.compile(r"\((?:goal )?[≤≥<>][^)]*\)")


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells, the head first."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [each for each in found if each]


def measured_cells(text: str) -> list[str]:
    cells = []
    for head, _, *rows in tables(text):
        columns = [at for at, name in enumerate(head) if "measured" in name or " over " in name]
        cells += [row[at] for row in rows for at in columns]
    return cells


def untied(text: str) -> list[str]:
    """Cells of measured figures with a number that belongs to no name."""
    return [cell for cell in measured_cells(text) if re.search(r"\d", GOAL.sub("", MARKED.sub("", cell)))]


def test_every_measured_figure_is_tied_to_a_name() -> None:
    assert measured_cells(README)
    assert untied(README) == [], "put it between <!--f NAME--> and <!--/f-->, and run make figures"


def test_every_figure_is_as_a_command_wrote_it_for_this_code_or_marked_as_earlier() -> None:
    assert rendered(README, current()) == README, "run make figures; then make results or make bench for those with °"


def test_what_a_mark_means_is_said() -> None:
    marked = [text for _, text in MARKED.findall(README) if text.endswith(EARLIER)]
    assert not marked or "° measured with earlier code" in README


def test_a_typed_in_figure_is_found() -> None:
    assert untied("| figure | measured |\n|---|---|\n| speed | 7,800 |\n") == ["7,800"]


def test_a_figure_that_no_command_wrote_is_marked() -> None:
    text = "<!--f a-->1.2<!--/f--> <!--f b-->3<!--/f-->"
    assert rendered(text, {"a": "1.3"}) == "<!--f a-->1.3<!--/f--> <!--f b-->3 °<!--/f-->"


def test_the_page_of_results_is_as_it_was_written_for_the_decisions_that_are_recorded() -> None:
    if not RESULTS.is_file():
        pytest.skip("make results has not been run since figures are written down")
    written = read(RESULTS)
    page = (ROOT / "docs" / "results.md").read_bytes()
    assert hashlib.sha256(page).hexdigest() == written["page"], "docs/results.md is written by make results alone"
    assert written["decisions"] == decisions(), "policies decide otherwise than when it was written: make results"
