"""What is done to one program: bare; paused at each depth in a lane, with a lowered limit; preempted by a daemon."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from program import HERE, Program

import underweft
from live import weft_here
from underweft import Running, environment, page_folder, under_weft
from weft.core.errors import WeftError
from weft.node.task.gang_barrier import PauseRefusedError

COMPANION = HERE / "companion.py"
LEAN = HERE.parent.parent / "tests" / "lean"
PATIENCE_S = underweft.PATIENCE_S = 900.0
GRACE_S = 3.0
PREEMPTIONS = 3
TENANT = "gold"
DEPTHS = ("gate", "drop-caches", "swap-out")


@dataclass
class Row:
    """What was seen of one program. "as bare" means that stdout was the same, byte for byte."""

    program: Program
    version: str = ""
    steps: str = "–"
    output: str = "–"
    depths: str = "–"
    limit: str = "–"
    lane: str = "–"
    daemon: str = "–"
    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)


def check(program: Program, parts: set[str], kept: Path) -> Row:
    row = Row(program, program.versions())
    bare, bare_s = _bare(program, kept)
    if not bare:
        row.remark("fails when it is run bare")
        return row
    seen = Seen(row, bare, bare_s)
    checks = {"pauses": seen.pauses if program.steps != 0 else seen.stops, "daemon": seen.daemon}
    for name, one in checks.items():
        if name in parts:
            try:
                one()
            except (WeftError, AssertionError, TimeoutError, subprocess.TimeoutExpired) as error:
                row.remark(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    return row


def _bare(program: Program, kept: Path) -> tuple[str, float]:
    """What it prints when it is left alone, and how long that takes. It is the same each time, so it is kept."""
    file = kept / f"{program.name}.out"
    if not file.exists():
        began_s = time.monotonic()
        done = subprocess.run(
            program.command, env=program.environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
            return "", 0.0
        file.write_text(f"{time.monotonic() - began_s}\n{done.stdout}")
    seconds, _, printed = file.read_text().partition("\n")
    return printed, float(seconds)


class Seen:
    """One program and what it prints when it is left alone."""

    def __init__(self, row: Row, bare: str, bare_s: float) -> None:
        self.row, self.program, self.bare, self.bare_s = row, row.program, bare, bare_s

    def pauses(self) -> None:
        """Paused at random steps at each depth in turn; from a third of the steps on its limit is half of its P.

        All this while it shares a lane with another job, whose memory is filled with NaN at each hand-over. The ranks
        of a gang cannot be in a lane.
        """
        with ExitStack() as stack:
            options: tuple[str, ...] = ()
            if not self.program.is_gang:
                options = ("--lane", str(stack.enter_context(companion_lane())))
            env = {**self.program.environment(), "WEFT_POISON": "1"}
            running = stack.enter_context(under_weft(*self.program.command, options=options, env=env))
            pausing = Pausing(running, self.program.steps or 24)
            try:
                pausing.to_the_end()
            finally:
                self.row.depths, self.row.limit = pausing.depths(), pausing.limit
                for remark in pausing.remarks:
                    self.row.remark(remark)
            is_same = self._judge("pauses", *running.end())
            counted, turns = running.task.step, sum(rank.turns for rank in running.task.status().ranks)
        wanted = self.program.steps
        self.row.steps = str(counted) if wanted in (None, counted) else f"**{counted}** of {wanted}"
        self.row.output = "as bare" if is_same else "**differs**"
        if not self.program.is_gang:
            self.row.lane = f"{turns} turns" if turns else "**no turns**"

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
            if self._judge("pauses", *running.end()):
                self.row.output = "as bare"

    def daemon(self) -> None:
        """An opportunistic job on one device, preempted three times by a short guaranteed job."""
        settings = f"pause_grace_s = {self._grace_s()}\n[tenants.{TENANT}]\nquota = 1\n"
        with weft_here("cpu=1", "weft", settings=settings) as client:
            env = self.program.environment()
            job_id = client.submit(self.program.command, env=env, split=True, share=False, job_class="opportunistic")
            if self.program.steps == 0:
                client.wait(job_id, timeout_s=self.bare_s / 2)
            for _ in range(PREEMPTIONS):
                client.wait(job_id, timeout_s=PATIENCE_S, state_not="PENDING")
                short = client.submit(["true"], tenant=TENANT, job_class="guaranteed", share=False)
                client.wait(job_id, timeout_s=PATIENCE_S, state_not="RUNNING")
                client.wait(short, timeout_s=PATIENCE_S)
                client.wait(job_id, timeout_s=PATIENCE_S, state_not="PAUSED")
            job = client.wait(job_id, timeout_s=PATIENCE_S)
            preemptions = client.why(job_id)["preemptions"]
            hows = {str(each.get("how")) for each in preemptions}
            out = "".join(f"{line.rstrip(chr(10))}\n" for line in client.logs(job_id))
        is_same = out == self.bare and job["state"] == "SUCCEEDED"
        verdict = "as bare" if is_same else f"**{job['state']}, {'same' if out == self.bare else 'other'} output**"
        if not is_same:
            self._keep("daemon", out, str(job))
        self.row.daemon = f"{verdict}, preempted {len(preemptions)} × ({', '.join(sorted(hows))})"

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
            self._keep(where, out, err)
        for line in err.splitlines():
            if line.startswith("weft"):
                self.row.remark(f"{where}: `{line}`")
        return is_same

    def _keep(self, where: str, out: str, err: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix=f"programs-{self.program.script.stem}-{where}-"))
        for name, text in {"bare": self.bare, "out": out, "err": err}.items():
            (folder / name).write_text(text)
        self.row.remark(f"see {folder}")


@contextmanager
def companion_lane() -> Iterator[Path]:
    """A lane in which another job trains."""
    with page_folder() as folder:
        lane, over = folder / "lane", folder / "over"
        env = {**environment(), "PYTHONPATH": str(LEAN)}
        command = (sys.executable, str(COMPANION), str(over))
        with under_weft(*command, options=("--lane", str(lane)), env=env) as companion:
            yield lane
            over.touch()
            companion.end()


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
        return (
            ", ".join(
                f"{depth} {count} ×" if count else f"**no {depth}**"
                for depth, count in self._done.items()
                if count or depth in self._refused
            )
            or "–"
        )

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
            self.limit = (
                f"{overflow / 1024:.0f} K over {self._limit_bytes / 1024:.0f} K" if overflow else "**nothing moved**"
            )
            if step > self._steps * 2 // 3:
                self._task.set_limit(0)
