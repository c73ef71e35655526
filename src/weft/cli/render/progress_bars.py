"""A bar for each policy, on stderr, gone when the runs are over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from weft.cli.render.simulation import SimulationNotes
from weft.sim.results.summary import short_labels
from weft.sim.trace import Trace

LONGEST_NAME = 24
DRAW_EVERY_S = 0.1


class JobsPerSecond(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} jobs/s" if speed else "", style="dim")


class ProgressBars(SimulationNotes):
    def __init__(self) -> None:
        console = Console(stderr=True)
        console.width -= len("^C")  # which else would wrap, and leave a line behind
        name = Column(no_wrap=True, overflow="ellipsis", max_width=LONGEST_NAME)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=name),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} jobs", justify="right"),
            JobsPerSecond(table_column=Column(no_wrap=True, justify="right")),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            auto_refresh=False,  # a thread that draws would take turns with the simulation
        )
        self._drawn_s = 0.0

    def begins(self, trace: Trace, policies: Sequence[str]) -> None:
        super().begins(trace, policies)
        for label in short_labels(policies):
            self._progress.add_task(label, start=False, total=len(trace))
        self._progress.start()

    def progressed(self, finished: Sequence[int]) -> None:
        now_s = time.monotonic()
        if now_s < self._drawn_s + DRAW_EVERY_S:
            return
        self._drawn_s = now_s
        for task, count in zip(self._progress.tasks, finished, strict=True):
            if count > task.completed:
                if not task.started:
                    self._progress.start_task(task.id)
                self._progress.update(task.id, completed=count)
        self._progress.refresh()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
