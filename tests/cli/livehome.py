"""A weft of its own for tests: `weft` as real processes, with a daemon behind them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from command import command_line

from waiting import PATIENCE_S, wait_until
from weft.system.home import Home
from weft.system.processes import process
from weft.system.runtime_dir import NotMadeError, forget_run_folder

Done = subprocess.CompletedProcess[str]


class Live:
    """Its home, and whoever calls it."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        self.env = {**kept, "WEFT_HOME": str(root)}

    def weft(self, *words: str, text: str | None = None, **env: str) -> Done:
        """To its end. `text` is piped into it."""
        return subprocess.run(
            command_line(*words),
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**self.env, **env},
            **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}),  # type: ignore[arg-type]
        )

    def starts(self, *words: str, **how: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        how = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "start_new_session": True, **how}
        return subprocess.Popen(command_line(*words), env=self.env, text=True, **how)

    def says(self, *words: str) -> str:
        done = self.weft(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self) -> None:
        self.says("up", "--devices", "cpu=2", "--policy", "fifo")

    def submit(self, *words: str) -> str:
        return self.says("submit", "--parsable", *words).strip()

    def json(self, *words: str) -> Any:
        return json.loads(self.says(*words, "--json"))

    def job(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = self.json("status", job_id)
        return job

    def is_(self, state: str, job_id: str) -> None:
        """Wait until the job is in this state."""
        wait_until(lambda: self.job(job_id)["state"] == state, f"job {job_id} is {state}")

    def daemon_pid(self) -> int:
        return int(self.home.daemon_lock.read_text())

    def kill_daemon(self) -> None:
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: has_gone(pid), "the daemon is dead")

    def leave(self) -> None:
        """Nothing of it stays, whatever state the test left it in."""
        if self.weft("down", "--stop-jobs").returncode:
            self.weft("up")
            self.weft("down", "--stop-jobs")
        with suppress(NotMadeError):
            for each in self.home.run.glob("*"):
                each.unlink()
            forget_run_folder(self.home.run)


def has_gone(pid: int) -> bool:
    """Whether a process has ended; it may still wait for somebody to ask how."""
    found = process(pid)
    return found is None or found.state == "Z"
