"""Tables and verdicts in Markdown, and what a section is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    def of(self, jobs: int) -> int:
        return max(40, round(self.paper * jobs))


FULL = Scale("full", jobs=20_000, generated_jobs=5_000, paper=1.0)
QUICK = Scale("quick", jobs=1_000, generated_jobs=200, paper=0.04)


@dataclass(frozen=True)
class Section:
    name: str
    """The word for --section."""
    title: str
    tasks: Sequence[Task]
    text: Callable[[Outcomes], str]


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
