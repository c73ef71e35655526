"""Scripts as a person runs them: bare, or with `weft exec` in front. And a folder in memory for their control pages."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from extent import IS_FULL
from forkserver import ForkedProcess, weft_exec
from waiting import PATIENCE_S, wait_until
from weft.node.task.handle import Task, attach

SCRIPTS = Path(__file__).parent / "scripts"
MARKED_STEPS = re.compile(r"^# steps: (\d+)", re.MULTILINE)


def environment() -> dict[str, str]:
    """Both runs get the same. One cache of compiled kernels serves all."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "COV_", "PYTEST"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def marked_steps(script: Path) -> int:
    found = MARKED_STEPS.search(script.read_text())
    assert found, f"{script.name} does not say how many steps it takes"
    return int(found[1])


bare_runs = Path()
"""Where the outputs of bare runs are kept for the session: conftest.py says."""


@cache
def bare(*words: str | Path) -> str:
    """What the script prints when it is left alone. It does the same each time, so once a session is enough."""
    name = hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()
    with (bare_runs / f"bare-{name}").open("a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)  # whoever wants the same meanwhile waits for it
        kept.seek(0)
        if not (printed := kept.read()):
            printed = _printed_by(*map(str, words))
            kept.write(printed)
    return printed


def _printed_by(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment(), timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Running:
    """A command under `weft exec`, and its task. What it prints goes to files beside its page."""

    def __init__(self, process: subprocess.Popen[bytes] | ForkedProcess, page: Path, out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err
        wait_until(lambda: _is_ready(page) or not self.is_running, "the page is made")
        self.task: Task = attach(page)

    @property
    def has_steps(self) -> bool:
        return bool(self.task.ranks)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_steps(self) -> None:
        wait_until(lambda: self.has_steps or not self.is_running, "the first step is seen")

    def end(self) -> tuple[str, str, int]:
        """What it printed, what it printed to stderr, its exit code."""
        code = self.process.wait(PATIENCE_S)
        return self._out.read_text(), self._err.read_text(), code


def under_weft(
    *command: str, options: tuple[str, ...] = (), env: dict[str, str] | None = None
) -> AbstractContextManager[Running]:
    """The command as a person starts it."""
    return _running(_started, command, options, env)


def forked_under_weft(
    *command: str, options: tuple[str, ...] = (), env: dict[str, str] | None = None
) -> AbstractContextManager[Running]:
    """The same for a script that begins with `import torch`, where that start is not what is tested: forkserver.py.

    With TESTS=all it is started as well.
    """
    return _running(_started if IS_FULL else weft_exec, command, options, env)


def _started(words: list[str], env: dict[str, str], stdout: BinaryIO, stderr: BinaryIO) -> subprocess.Popen[bytes]:
    weft = [sys.executable, "-m", "weft.cli.main", "exec"]
    return subprocess.Popen([*weft, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env)


@contextmanager
def _running(
    start: Callable[[list[str], dict[str, str], BinaryIO, BinaryIO], subprocess.Popen[bytes] | ForkedProcess],
    command: tuple[str, ...],
    options: tuple[str, ...],
    env: dict[str, str] | None,
) -> Iterator[Running]:
    with page_folder() as folder:
        page, out, err = folder / "a.page", folder / "out", folder / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            words = ["--page", str(page), *options, "--", *command]
            process = start(words, env or environment(), stdout, stderr)
        running = Running(process, page, out, err)
        try:
            yield running
        finally:
            running.task.resume()
            if running.is_running:
                process.terminate()
            running.end()
            running.task.close()


def _is_ready(page: Path) -> bool:
    return page.exists() and page.stat().st_size > 0 and page.read_bytes()[:8] == b"WEFTPAGE"


@contextmanager
def page_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="weft-test-", dir="/dev/shm") as folder:
        yield Path(folder)


def pause_at_random_steps(running: Running, seed: int) -> int:
    """Gate and resume at random steps, to the end; how often. Does not depend on how fast anything runs."""
    chance = random.Random(seed)
    done = step = 0
    while True:
        pause = running.task.pause(at_step=step + chance.randint(1, 4), grace_s=PATIENCE_S)
        if pause.how == "ended":
            return done
        assert pause.how == "boundary", pause
        assert pause.step > step
        step = pause.step
        done += 1
