"""A measured figure on a page was written by a command for this code, or is marked as one of an earlier version."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from examples import pages  # noqa: E402

from figures import FOLDER, decisions, read  # noqa: E402
from pages import EARLIER, MARKED, PERFORMANCE, WITH_FIGURES, current, performance, with_figures  # noqa: E402

RESULTS = FOLDER / "make-results.json"
GOAL = re.compile(r"\((?:goal )?[≤≥<>][^)]*\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", flags=re.MULTILINE | re.DOTALL)
QUANTITY = re.compile(
    r"[0-9][0-9.,]*(?:[–-][0-9][0-9.,]*)? ?(?:ns|µs|us|ms|s|min|h|%|×|x|times|MB|GB|GB/s|jobs/s|/s|a second)(?![\w-])"
)
SETTINGS = (
    "after 1, 2, 4 … seconds",
    "a turn is 60 s or 100 steps",
    "not less than 2 s",
    "does not take its turn within 3 ms is passed over",
    "with 95 % confidence",
    "a preemption costs 30 s",
    "import for 8 s each",
    "a training step of 5 ms",
)
"""What weft or a benchmark is set to: quantities that nobody measures."""
QUOTED = re.compile(r'"[^"]*"')
"""What weft says of a job, as an example."""
CHECKED_ELSEWHERE = re.compile(r"^Here jobs share devices.*?\n\n", re.MULTILINE | re.DOTALL)
"""test_examples.py simulates these."""


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells, the head first."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [each for each in found if each]


def untied_cells(text: str) -> list[str]:
    """Cells of measured figures with a number that belongs to no key."""
    cells = []
    for head, _, *rows in tables(text):
        columns = [at for at, name in enumerate(head) if "measured" in name or " over " in name]
        cells += [row[at] for row in rows for at in columns]
    return [cell for cell in cells if re.search(r"\d", GOAL.sub("", MARKED.sub("", cell)))]


def untied_prose(text: str) -> list[str]:
    """Quantities outside tables, code and quotations that belong to no key and are no settings."""
    text = CHECKED_ELSEWHERE.sub("", MARKED.sub("", CODE.sub("", text)))
    text = " ".join(line for line in text.splitlines() if not line.startswith("|"))
    text = QUOTED.sub("", re.sub(r" +", " ", text))
    for setting in SETTINGS:
        text = text.replace(setting, "")
    return QUANTITY.findall(text)


HAND_WRITTEN = [page for page in pages() if page.name not in ("options.md", "programs.md", "robustness.md")]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_FIGURES, ids=named)
def test_every_measured_figure_of_a_table_is_tied_to_a_key(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(tables(text)) > 1
    assert untied_cells(text) == [], "put it between <!--KEY--> and <!--/-->, and run make figures"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=named)
def test_every_quantity_of_the_text_is_tied_to_a_key_or_a_setting(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert untied_prose(text) == [], "tie it to a key, or name it among the SETTINGS of this test"


@pytest.mark.parametrize("page", WITH_FIGURES, ids=named)
def test_every_figure_is_as_a_command_wrote_it_for_this_code_or_marked_as_earlier(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_figures(text, current()) == text, "run make figures"


@pytest.mark.parametrize("page", WITH_FIGURES, ids=named)
def test_what_a_mark_means_is_said(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    marked = [figure for _, figure in MARKED.findall(text) if figure.endswith(EARLIER)]
    assert not marked or "° marks a figure of an earlier version" in text


def test_the_readme_has_six_figures() -> None:
    assert len(MARKED.findall((ROOT / "README.md").read_text(encoding="utf-8"))) == 6


def test_the_page_of_figures_is_what_the_commands_wrote() -> None:
    assert PERFORMANCE.read_text(encoding="utf-8") == performance(), "docs/performance.md is written by make figures"


def test_the_page_of_results_is_as_it_was_written_for_the_decisions_that_are_recorded() -> None:
    if not RESULTS.is_file():
        pytest.skip("make results has not been run since figures are written down")
    written = read(RESULTS)
    page = (ROOT / "docs" / "results.md").read_bytes()
    assert hashlib.sha256(page).hexdigest() == written["page"], "docs/results.md is written by make results alone"
    assert written["decisions"] == decisions(), "policies decide otherwise than when it was written: make results"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("| figure | measured |\n|---|---|\n| speed | 7,800 |\n", ["7,800"]),
        ("| figure | measured |\n|---|---|\n| speed | <!--a-->7,800<!--/--> |\n", []),
        ("| figure | measured | goal |\n|---|---|---|\n| speed | <!--a-->1<!--/--> (≤ 2) | ≤ 2 |\n", []),
    ],
)
def test_a_figure_typed_into_a_table_is_found(text: str, found: list[str]) -> None:
    assert untied_cells(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It simulates 7,800 jobs/s here.", ["7,800 jobs/s"]),
        ("A pause takes 3.5 ms, 12 % less.", ["3.5 ms", "12 %"]),
        ("It is 2–3 times as fast, or 1.5× so.", ["2–3 times", "1.5×"]),
        ("<!--a-->7,800 jobs/s<!--/--> and `--time 2h`", []),
        ('It says "+31% ± 6%, kept".', []),
        ("a turn is 60 s or 100 steps", []),
    ],
)
def test_a_figure_typed_into_the_text_is_found(text: str, found: list[str]) -> None:
    assert untied_prose(text) == found


def test_a_figure_that_no_command_wrote_is_marked() -> None:
    text = "<!--a-->1.2<!--/--> <!--b-->3<!--/-->"
    assert with_figures(text, {"a": "1.3"}) == "<!--a-->1.3<!--/--> <!--b-->3 °<!--/-->"
