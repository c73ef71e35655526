"""Tables and verdicts in Markdown, and what a section is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from task import Outcome, Task

Outcomes = Mapping[Task, Outcome]
DAY_S = 86_400.0


@dataclass(frozen=True)
class Scale:
    """How much is simulated: all of it, or as much as a test can wait for."""

    name: str
    jobs: int
    generated_jobs: int
    paper: float
    """What part of a paper's jobs."""
    seeds: tuple[int, ...]
    """Of what is drawn: each table is made with each of them."""

    def of(self, jobs: int) -> int:
        return max(40, round(self.paper * jobs))


FULL = Scale("full", jobs=20_000, generated_jobs=5_000, paper=1.0, seeds=(1, 2, 3, 4, 5))
QUICK = Scale("quick", jobs=1_000, generated_jobs=200, paper=0.04, seeds=(1,))


@dataclass(frozen=True)
class Section:
    name: str
    """The word for --section."""
    title: str
    tasks: Sequence[Task]
    text: Callable[[Outcomes], str]
    goals: Callable[[Outcomes], Sequence[Sequence[Goal]]] = lambda outcomes: ()
    """Of each seed, for the README."""


@dataclass(frozen=True)
class Goal:
    """Measured, wanted, and whether that was met: what is measured counts as it is printed, to a thousandth."""

    what: str
    measured: float
    limit: float

    @property
    def is_met(self) -> bool:
        return round(self.measured, 3) <= self.limit

    @property
    def cells(self) -> tuple[str, ...]:
        return self.what, f"{self.measured:.3f}", f"≤ {self.limit:g}", "met" if self.is_met else "**MISSED**"


def over_seeds(make: Callable[[Scale, int], Section], scale: Scale) -> Section:
    """A section made with every seed: in its tables the medians, with the least and the largest."""
    each = [make(scale, seed) for seed in scale.seeds]
    tasks = [task for section in each for task in section.tasks]
    return Section(each[0].name, each[0].title, tasks, lambda outcomes: spread([one.text(outcomes) for one in each]))


NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def spread(texts: Sequence[str]) -> str:
    """Texts that differ in the numbers of their tables, as one: each number is the median (least to largest)."""
    lines = list(zip(*(text.split("\n") for text in texts), strict=True))
    return "\n".join(line[0] if len(set(line)) == 1 else _spread_row(line) for line in lines)


def _spread_row(rows: Sequence[str]) -> str:
    cells = zip(*(row.split("|") for row in rows), strict=True)
    return "|".join(_spread_cell([cell.strip() for cell in each]) for each in cells)


def _spread_cell(cells: Sequence[str]) -> str:
    if len(set(cells)) == 1:
        return f" {cells[0]} " if cells[0] else ""
    shapes = {NUMBER.sub("#", cell) for cell in cells}
    if set(cells) <= {"met", "**MISSED**"}:
        return f" met with {cells.count('met')} of {len(cells)} seeds "
    if len(shapes) > 1:
        return f" {' / '.join(dict.fromkeys(cells))} "
    told = iter([over_all(numbers) for numbers in zip(*map(NUMBER.findall, cells), strict=True)])
    return f" {NUMBER.sub(lambda _: next(told), cells[0])} "


def over_all(numbers: Sequence[str]) -> str:
    """The median (least to largest), with as many decimals as each has."""
    if len(set(numbers)) == 1:
        return numbers[0]
    decimals = len(numbers[0].partition(".")[2])
    values = sorted(float(number.replace(",", "")) for number in numbers)
    least, middle, largest = (f"{value:,.{decimals}f}" for value in (values[0], median(values), values[-1]))
    return f"{middle} ({least} to {largest})"


def goals(rows: Iterable[Goal]) -> str:
    return table(("goal", "measured", "goal", "met?"), [goal.cells for goal in rows])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def days(value: float) -> str:
    return f"{value / DAY_S:.2f}"
