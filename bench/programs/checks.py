"""What is done to one program: run bare; paused at every depth, with a lowered limit; in a lane; under a daemon."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from live import weft_here
from program import HERE, Program

from underweft import Running, page_folder, under_weft
from weft.core.errors import WeftError
from weft.node.pausing import PauseRefusedError

COMPANION = HERE / "companion.py"
PATIENCE_S = 300.0
GRACE_S = 3.0
DEPTHS = ("gate", "drop-caches", "swap-out")


@dataclass
class Row:
    """What was seen of one program. "as bare" means that stdout was the same, byte for byte."""

    program: Program
    version: str = ""
    steps: str = "–"
    depths: str = "–"
    limit: str = "–"
    lane: str = "–"
    daemon: str = "–"
    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)


def check(program: Program, parts: set[str]) -> Row:
    row = Row(program, program.versions())
    began_s = time.monotonic()
    bare = subprocess.run(
        program.command, env=program.environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    bare_s = time.monotonic() - began_s
    if bare.returncode:
        row.remark(f"fails bare: {bare.stderr.strip().splitlines()[-1] if bare.stderr.strip() else bare.returncode}")
        return row
    seen = Seen(row, bare.stdout, bare_s)
    checks = {"pauses": seen.pauses if program.steps != 0 else seen.stops, "lane": seen.lane, "daemon": seen.daemon}
    for name, one in checks.items():
        if name in parts:
            try:
                one()
            except (WeftError, AssertionError, TimeoutError) as error:
                row.remark(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    return row


class Seen:
    """One program and what it prints when it is left alone."""

    def __init__(self, row: Row, bare: str, bare_s: float) -> None:
        self.row, self.program, self.bare, self.bare_s = row, row.program, bare, bare_s

    def pauses(self) -> None:
        """Paused at random steps at each depth in turn; from a third of the steps to two thirds with half of P."""
        with self._under_weft() as running:
            pausing = Pausing(running, self.program.steps or 24)
            try:
                pausing.to_the_end()
            finally:
                self.row.depths, self.row.limit = pausing.depths(), pausing.limit
                for remark in pausing.remarks:
                    self.row.remark(remark)
            self._judge("pauses", *running.end())
            counted = running.task.step
        wanted = self.program.steps
        self.row.steps = str(counted) if wanted in (None, counted) else f"**{counted}** of {wanted}"

    def stops(self) -> None:
        """No step can be seen: a pause stops its processes where they are and says so, and deeper ones are refused."""
        with self._under_weft() as running:
            time.sleep(self.bare_s / 2)
            said = running.task.pause(grace_s=GRACE_S)
            state = running.task.status()
            running.task.resume()
            if said.how == "stopped":
                self.row.steps, self.row.depths = "0", "stopped whole"
                self.row.remark(f"`pause()`: {said.reason}; status: {state.state}, {state.reason}")
            else:
                self.row.remark(f"pause: {said}")
            try:
                running.task.pause("swap-out", grace_s=GRACE_S)
            except PauseRefusedError as refused:
                self.row.remark(str(refused).splitlines()[0])
            self._judge("pauses", *running.end())

    def lane(self) -> None:
        """Beside another job in one lane, whose memory is filled with NaN at each hand-over."""
        if self.program.is_gang or self.program.steps == 0:
            return
        with page_folder() as folder:
            lane, over = folder / "lane", folder / "over"
            options, env = ("--lane", str(lane)), {**self.program.environment(), "WEFT_POISON": "1"}
            other = under_weft(sys.executable, str(COMPANION), str(over), options=options)
            with other as companion, under_weft(*self.program.command, options=options, env=env) as running:
                companion.wait_for_steps()
                is_same = self._judge("lane", *_end(running))
                ranks = running.task.status().ranks
                turns = sum(rank.turns for rank in ranks)
                over.touch()
                companion.end()
        self.row.lane = f"{turns} turns" if is_same and turns else ("as bare, no turns" if is_same else "**differs**")

    def daemon(self) -> None:
        """Two jobs on one device in turns of two seconds: it is preempted and goes on, and so is the other."""
        with (
            page_folder() as folder,
            weft_here("cpu=1", "gandiva:quantum_s=2", settings=f"pause_grace_s = {self._grace_s()}\n") as client,
        ):
            over = folder / "over"
            other = client.submit([sys.executable, str(COMPANION), str(over)], name="companion", share=False)
            job_id = client.submit(self.program.command, env=self.program.environment(), split=True, share=False)
            job = client.wait(job_id, timeout_s=PATIENCE_S)
            events = [event["what"] for event in client.events(job_id)]
            out = "".join(client.logs(job_id))
            over.touch()
            ended = client.wait(other, timeout_s=PATIENCE_S)
        preempted = sum(what.startswith("Preempt") for what in events)
        is_same = out.splitlines() == self.bare.splitlines() and job["state"] == "SUCCEEDED"
        verdict = "as bare" if is_same else f"**{job['state']}, {'same' if out == self.bare else 'other'} output**"
        self.row.daemon = f"{verdict}, preempted {preempted} ×, {job.get('steps') or 0} steps"
        if ended["state"] != "SUCCEEDED":
            self.row.remark(f"daemon: the job beside it {ended['state']}")

    def _grace_s(self) -> float:
        """Long enough for the first boundary to be waited for; where there are none, not."""
        return GRACE_S if self.program.steps == 0 else PATIENCE_S

    @contextmanager
    def _under_weft(self) -> Iterator[Running]:
        with under_weft(*self.program.command, env=self.program.environment()) as running:
            yield running

    def _judge(self, where: str, out: str, err: str, code: int) -> bool:
        is_same = (code, out) == (0, self.bare)
        if not is_same:
            self.row.remark(f"**{where}: exit code {code}, {'same' if out == self.bare else 'other'} output**")
            Path(f"/tmp/programs-differs-{self.program.script.stem}-{where}").write_text(f"{self.bare}\n-----\n{out}\n-----\n{err}")
        for line in err.splitlines():
            if line.startswith("weft"):
                self.row.remark(f"{where}: `{line}`")
        return is_same


class Pausing:
    """One run, paused again and again to its end; does not depend on how fast anything runs."""

    def __init__(self, running: Running, steps: int) -> None:
        self._running, self._task, self._steps = running, running.task, steps
        self._chance = random.Random(1)
        self._done = dict.fromkeys(DEPTHS, 0)
        self._refused: dict[str, str] = {}
        self._lowered_at = 0
        self.limit = "–"
        self.remarks: list[str] = []

    def depths(self) -> str:
        return ", ".join(
            f"{depth} {count} ×" if count else f"**no {depth}**" for depth, count in self._done.items() if count or depth in self._refused
        ) or "–"

    def to_the_end(self) -> None:
        step, number = 0, 0
        while True:
            depth = DEPTHS[number % len(DEPTHS)]
            number += 1
            try:
                pause = self._task.pause(depth, at_step=step + self._chance.randint(1, 3), grace_s=PATIENCE_S)
            except PauseRefusedError as refused:
                text = str(refused).splitlines()[0]
                self._refused[depth] = text
                self.remarks += [] if text in self.remarks else [text]
                step = self._task.step
                if not self._running.is_running:
                    return
                continue
            if pause.how == "ended":
                return
            if pause.how != "boundary":
                self.remarks.append(f"pause: {pause.how}, {pause.reason}")
                return
            if pause.step <= step:
                self.remarks.append(f"step {pause.step} after {step}")
            step = pause.step
            self._done[depth] += 1
            self._change_limit(step)

    def _change_limit(self, step: int) -> None:
        ranks = [rank for rank in self._task.status().ranks if rank.state != "ended"]
        if not self._lowered_at and step > self._steps // 3 and any(rank.persistent_bytes for rank in ranks):
            self._lowered_at = step
            self._limit_bytes = max(rank.persistent_bytes for rank in ranks) // 2
            self._task.set_limit(self._limit_bytes)
        elif self._lowered_at and step > self._lowered_at + 1 and self.limit == "–":
            overflow = sum(rank.overflow_bytes for rank in ranks)
            self.limit = f"{overflow / 1024:.0f} K over {self._limit_bytes / 1024:.0f} K" if overflow else "**nothing moved**"
            if step > self._steps * 2 // 3:
                self._task.set_limit(0)


def _end(running: Running) -> tuple[str, str, int]:
    running.process.wait(PATIENCE_S)
    return running.end()
