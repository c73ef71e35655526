"""A real job to measure with: started by `weft exec`, held at the gate until its turn to be measured comes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weft.core.errors import InputError, WeftError
from weft.node.task.handle import Task, attach
from weft.node.task.rank import RankStatus

LOOK_EVERY_S = 0.0003
PATIENCE_S = 120.0
WARM_STEPS = 10


@contextmanager
def _kept_to(cores: Iterable[int]) -> Iterator[None]:
    """What is started meanwhile begins on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class TrainingJob:
    """One model, training on some cores. What it needs on disk is in `folder`, its page in `pages`."""

    def __init__(self, model: str, cores: Sequence[int], folder: Path, pages: Path, name: str = "") -> None:
        self.model = model
        self.cores = tuple(cores)
        self._name = name or model
        self._folder = folder
        self._pages = pages
        self._attempt = 0
        self._start(os.sched_getaffinity(0))

    def _start(self, loading_on: Iterable[int]) -> None:
        """It computes on its own cores only. It may load on others: when many start, that is sooner over."""
        self._attempt += 1
        page = self._pages / f"{self._name}.{self._attempt}.page"
        self._errors = self._folder / f"{self._name}.err"
        script = [sys.executable, "-P", "-m", "weft.calibration.training_script", self.model, *map(str, self.cores)]
        under = [sys.executable, "-P", "-m", "weft.cli.main", "exec", "--page", str(page)]
        env = {**os.environ, "OMP_NUM_THREADS": str(len(self.cores)), "OMP_WAIT_POLICY": "passive"}
        with self._errors.open("wb") as errors, _kept_to(loading_on):
            self._process = subprocess.Popen(  # noqa: S603 - our own script, by our own interpreter
                [*under, "--checkpoints", str(self._folder / self._name), "--", *script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=env,
            )
        self._task: Task | None = None
        self._page = page

    @property
    def task(self) -> Task:
        """Once `weft exec` has made its page."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._task is None:
            self._check(deadline_s, "its control page is not made")
            try:
                self._task = attach(self._page)
            except InputError:
                time.sleep(0.01)
        return self._task

    def _check(self, deadline_s: float, what: str) -> None:
        """Raise if it has ended by itself or makes no progress."""
        if self._process.poll() is not None:
            said = self._errors.read_text(errors="replace").strip().splitlines()
            raise WeftError(
                f"the job {self.model} ended by itself: {said[-1] if said else 'it says nothing'}",
                "is torch here, and memory?",
            )
        if time.monotonic() > deadline_s:
            raise WeftError(f"the job {self.model} makes no progress: {what}", "is this machine very busy?")

    def reach(self, step: int) -> tuple[float, int]:
        """When it had made this step, or more; which one that was."""
        deadline_s = time.monotonic() + PATIENCE_S
        while (now := self.task.step) < step:
            self._check(deadline_s, f"it is at step {now}")
            time.sleep(LOOK_EVERY_S)
        return time.monotonic(), now

    def edge(self) -> tuple[float, int]:
        """The end of the step that it is in."""
        return self.reach(self.task.step + 1)

    def warm_up(self) -> None:
        """Its first steps take longer than others; then it is paused at the gate."""
        self.reach(WARM_STEPS)
        self.pause()

    def pause(self) -> None:
        self.task.pause("gate", grace_s=PATIENCE_S)

    def resume(self) -> None:
        self.task.resume()

    @property
    def seen(self) -> RankStatus:
        return self.task.status().ranks[0]

    def wanted_s(self) -> float:
        """How long its threads have run or waited for a core, which another thread then had."""
        schedstats = [file.read_text().split() for file in Path(f"/proc/{self.seen.pid}/task").glob("*/schedstat")]
        return sum(int(run_ns) + int(waited_ns) for run_ns, waited_ns, _ in schedstats) / 1e9

    def leave(self) -> int:
        """Checkpoint and end; after which step."""
        pause = self.task.pause("checkpoint", grace_s=PATIENCE_S)
        self._process.wait(PATIENCE_S)
        if pause.how != "left":
            raise WeftError(
                f"the job {self.model} did not leave with a checkpoint: {pause.reason or pause.how}",
                "is the disk full?",
            )
        self._forget()
        return pause.step

    def return_to(self, cores: Sequence[int]) -> None:
        """Resume from the checkpoint, on exactly these cores."""
        self.cores = tuple(cores)
        self._start(self.cores)

    def end(self) -> None:
        if self._process.poll() is None:
            if self._task is not None:
                self._task.resume()
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def _forget(self) -> None:
        if self._task is not None:
            self._task.close()
            self._task = None
