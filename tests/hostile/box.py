"""A weft in a sandbox, with bystanders that train, and the checks that hold after every attack."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sandbox import Done, Sandbox

from underweft import bare
from waiting import PATIENCE_S, wait_until
from weft.client.unix_http import Connection
from weft.node.fence.cgroups import find_fences
from weft.node.handles.children import end_leftover_cgroups
from weft.system.home import Home

Attack = Callable[[str], AbstractContextManager[None]]
BYSTANDER = Path(__file__).with_name("bystander.py")
NOWHERE = "/nonexistent"
STEP = re.compile(r"^step .*\n", re.MULTILINE)
PAUSE_S = 0.05
SETTINGS = "silent_s = 3\nstop_grace_s = 1\npause_grace_s = 2\n"
OVER = ("SUCCEEDED", "FAILED", "CANCELLED")


class Box:
    """One weft. Its commands run in the sandbox; its home is on disk, the same folder inside and outside."""

    def __init__(self, folder: Path, *, settings: str = SETTINGS, devices: str = "cpu=4", policy: str = "fifo") -> None:
        self.sandbox = Sandbox()
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.root.mkdir(parents=True, mode=0o700)
        self.home.settings.write_text(settings)
        self.devices, self.policy = devices, policy
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "XDG_", "PYTEST"))}
        self.env = {**kept, "WEFT_HOME": str(self.home.root), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.bystanders: list[Bystander] = []
        self._pids: dict[str, int] = {}
        self._connection: Connection | None = None

    # ---- its commands

    def run(self, *words: str, uid: int = 0, env: Mapping[str, str] | None = None, **how: Any) -> Done:
        return self.sandbox.run(*words, uid=uid, env={**self.env, **(env or {})}, **how)

    def python(self, source: str, *arguments: str, uid: int = 0, **how: Any) -> Done:
        """Run Python source in the sandbox, with weft to import: a process that attacks from beside weft."""
        return self.run(sys.executable, "-c", source, *arguments, uid=uid, **how)

    def start(self, *words: str, uid: int = 0, **how: Any) -> subprocess.Popen[Any]:
        return self.sandbox.start(*words, uid=uid, env=self.env, **how)

    def weft(self, *words: str, **how: Any) -> Done:
        return self.run(sys.executable, "-m", "weft.cli.main", *words, **how)

    def says(self, *words: str, **how: Any) -> str:
        done = self.weft(*words, **how)
        assert done.returncode == 0, f"weft {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def up(self) -> None:
        self.says("up", "--devices", self.devices, "--policy", self.policy)
        wait_until(lambda: bool(self.health().get("nodes")), "the coordinator has said hello")
        self.remember_processes()

    @property
    def socket(self) -> Path:
        """The daemon's socket, as this process reaches it."""
        return self.sandbox.outside(Path(self.says("doctor", "--socket").strip()))

    def rest(self, method: str, target: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of a request to the daemon, sent from outside the sandbox."""
        if self._connection is None:
            self._connection = Connection(str(self.socket))
        sent = None if body is None else json.dumps(body).encode()
        status, answer = self._connection.request(method, target, sent, PATIENCE_S)
        return status, json.loads(answer) if answer else None

    def health(self) -> dict[str, Any]:
        status, health = self.rest("GET", "/v1/health")
        assert status == 200, health
        return dict(health)

    def submit(self, *words: str, **how: Any) -> str:
        return self.says("submit", "--parsable", *words, **how).strip()

    def submit_python(self, source: str, *options: str) -> str:
        """Submit Python source as a job: an attack by a job. WEFT_PAGE and WEFT_HOME are in its environment."""
        return self.submit(*options, "--", sys.executable, "-c", source)

    def job(self, job_id: str) -> dict[str, Any]:
        status, job = self.rest("GET", f"/v1/jobs/{job_id}")
        assert status == 200, job
        return dict(job)

    def wait_for(self, job_id: str, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of these states; without any, until it has ended."""
        seen: dict[str, Any] = {}

        def is_so() -> bool:
            seen.update(self.job(job_id))
            return seen["state"] in (states or OVER)

        wait_until(is_so, lambda: f"job {job_id} is {' or '.join(states or ('over',))}: {seen}")
        return seen

    def log(self, job_id: str) -> str:
        path = self.home.log(job_id, 0)
        return path.read_text(errors="replace") if path.exists() else ""

    # ---- its processes, by their pid in the sandbox

    def pid(self, which: str) -> int:
        """Of the "daemon" or the "coordinator"; 0 while there is none."""
        lock = self.home.daemon_lock if which == "daemon" else self.home.node_lock
        text = lock.read_text().strip() if lock.exists() else ""
        return int(text) if text.isdigit() and self.is_alive(int(text)) else 0

    def is_alive(self, pid: int) -> bool:
        state = self.state_of(pid)
        return state not in ("", "Z", "X")

    def state_of(self, pid: int) -> str:
        """One letter, as /proc has it; none if there is no such process."""
        path = self.sandbox.outside(Path(f"/proc/{pid}/stat"))
        try:
            return path.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return ""

    def send(self, pid: int, number: signal.Signals) -> None:
        self.run("kill", f"-{number.value}", str(pid))

    def kill(self, which: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the "daemon" or the "coordinator" as part of an attack; its replacement is expected."""
        pid = self.pid(which)
        self.send(pid, number)
        wait_until(lambda: not self.is_alive(pid), f"the {which} has gone")
        self._pids.pop(which, None)

    def remember_processes(self) -> None:
        """From now on this daemon and this coordinator have to live."""
        self._pids = {}
        for which in ("daemon", "coordinator"):
            wait_until(lambda which=which: self.pid(which) != 0, f"there is a {which}")  # type: ignore[misc]
            self._pids[which] = self.pid(which)

    def check(self) -> None:
        """Daemon and coordinator are those of before the attack, the daemon answers, and every bystander steps on."""
        for which, pid in self._pids.items():
            assert self.is_alive(pid), f"the {which} died\n{self.last_words(which)}"
        if len(self._pids) < 2:
            self.remember_processes()
        before = [bystander.steps for bystander in self.bystanders]
        self.health()
        for bystander, steps in zip(self.bystanders, before, strict=True):
            bystander.steps_beyond(steps)

    def last_words(self, which: str) -> str:
        path = self.home.daemon_log if which == "daemon" else self.home.node_log
        return "\n".join(path.read_text(errors="replace").splitlines()[-30:]) if path.exists() else ""

    # ---- its bystanders

    def add_bystander(self, *options: str) -> Bystander:
        bystander = Bystander(self, len(self.bystanders), options)
        self.bystanders.append(bystander)
        bystander.steps_beyond(5)
        return bystander

    @contextmanager
    def running(self, start: Callable[[], None] | None = None, *, bystanders: int = 2) -> Iterator[Box]:
        """Up, with bystanders that train meanwhile and have computed the same bits as alone at the end."""
        try:
            (start or self.up)()
            for _ in range(bystanders):
                self.add_bystander()
            yield self
            self.finish_bystanders()
        finally:
            self.close()

    def finish_bystanders(self) -> None:
        """They finish, and have computed what they compute alone."""
        for bystander in self.bystanders:
            bystander.stop()
        for bystander in self.bystanders:
            bystander.finish()
        steps = max((bystander.steps for bystander in self.bystanders), default=0)
        alone = STEP.findall(bare(BYSTANDER, NOWHERE, "0", str(steps)))
        for bystander in self.bystanders:
            assert bystander.lines == alone[: bystander.steps], "the bystander computed something else than alone"

    def close(self) -> None:
        """Everything in the sandbox ends. Its cgroups are outside of it."""
        if self._connection is not None:
            self._connection.close()
        if not self.sandbox.is_isolated:
            self.weft("down", "--stop-jobs")
        self.sandbox.close()
        fences = find_fences("auto", self.home.root)
        end_leftover_cgroups(fences.left_over(()))
        fences.remove()


class Bystander:
    def __init__(self, box: Box, number: int, options: tuple[str, ...]) -> None:
        self._box = box
        self._stop_file = box.folder / f"bystander-{number}.stop"
        words = (sys.executable, str(BYSTANDER), str(self._stop_file), str(PAUSE_S))
        self.job_id = box.submit("--name", f"bystander-{number}", *options, "--", *words)

    @property
    def lines(self) -> list[str]:
        return STEP.findall(self._box.log(self.job_id))

    @property
    def steps(self) -> int:
        """How many steps it has printed, of all attempts together."""
        return len(self.lines)

    def steps_beyond(self, steps: int) -> None:
        wait_until(
            lambda: self.steps > steps,
            lambda: f"bystander {self.job_id} makes a step after its {steps}th: {self._box.job(self.job_id)}",
        )

    def stop(self) -> None:
        """It ends after its next step."""
        self._stop_file.touch()

    def finish(self) -> None:
        job = self._box.wait_for(self.job_id)
        assert job["state"] == "SUCCEEDED", job
        assert job["attempt"] == 1, f"the bystander was started again: {job}"
