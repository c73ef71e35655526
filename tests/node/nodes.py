"""A real coordinator process, and a small daemon in the test that orders it about."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S, state_of, wait_until
from weft.node.fence.cgroups import find_fences
from weft.node.fence.process_tree import Tree, end_tree, members
from weft.node.handles.children import end_leftover_cgroups
from weft.system.home import Home

COORDINATOR = [sys.executable, "-m", "weft.node.coordinator"]
FINAL = ("ended", "lost", "left")

Message = dict[str, Any]


def lives(pid: int) -> bool:
    try:
        return state_of(pid) not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Daemon:
    """Listens for the coordinator, keeps what it says, and acknowledges each report unless told not to."""

    def __init__(self, path: Path) -> None:
        self.hellos: list[Message] = []
        self.reports: list[Message] = []
        self.progress: list[Message] = []
        self.devices: list[Message] = []
        self.measured: list[Message] = []
        self.acknowledges: Callable[[Message], bool] = lambda report: True
        self.on_hello: Callable[[], list[Message]] = list
        self._path = path
        self._stream: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                stream, _ = listener.accept()
                with suppress(OSError), stream, stream.makefile("rb") as lines:
                    self._stream = stream
                    for line in lines:
                        self._take(json.loads(line))

    def _take(self, message: Message) -> None:
        kept = {"hello": self.hellos, "report": self.reports, "progress": self.progress}
        kept |= {"devices": self.devices, "measured": self.measured}
        kept[message["type"]].append(message)
        if message["type"] == "hello":
            for order in self.on_hello():
                self.send(order)
            self.send({"type": "synced", "stop_grace_s": 5, "pause_grace_s": 10})
        elif message["type"] == "report" and self.acknowledges(message):
            self.send({"type": "ack", "serial": message["serial"]})

    def send(self, message: Message) -> None:
        assert self._stream is not None
        with suppress(OSError):
            self._stream.sendall(json.dumps(message).encode() + b"\n")

    def hang_up(self) -> None:
        """The line breaks; the coordinator will connect again."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """As if killed."""
        self._path.unlink()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def all(self, what: str, job: str = "1") -> list[Message]:
        return [report for report in list(self.reports) if report["what"] == what and report["job"] == job]

    def next(self, what: str, job: str = "1", after: int = 0) -> Message:
        """The first report of this kind, or the one after so many of them."""
        wait_until(lambda: len(self.all(what, job)) > after, f"{what} of {job} is reported: {self.reports}")
        return self.all(what, job)[after]

    def end(self, job: str = "1") -> Message:
        """The first report that the job is over."""

        def found() -> list[Message]:
            return [each for each in list(self.reports) if each["what"] in FINAL and each["job"] == job]

        wait_until(lambda: bool(found()), f"the end of {job} is reported: {self.reports}")
        return found()[0]


class Node:
    """A home, a daemon and a coordinator on two cpu devices."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.home = Home(root)
        self.home.make()
        self.run = self.home.run
        self.daemon = Daemon(self.home.node_socket)
        self.process: subprocess.Popen[bytes] | None = None
        self.folder = folder
        self.fence = "auto"
        self.fences = find_fences("auto", root)

    def start(self, devices: str = "cpu=2", **env: str) -> int:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "COV_", "PYTEST"))}
        self.hellos = len(self.daemon.hellos)
        self._env = env
        with (self.home.root / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*COORDINATOR, "--devices", devices, "--fence", self.fence],
                env={**kept, "WEFT_HOME": str(self.home.root), **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.process.pid

    def await_hello(self) -> Message:
        wait_until(lambda: len(self.daemon.hellos) > self.hellos, "the coordinator says hello")
        return self.daemon.hellos[-1]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def restart(self, *orders: Message, **env: str) -> Message:
        """A new coordinator after the old one was killed, and these orders for it."""
        self.kill()
        self.daemon.on_hello = lambda: list(orders)
        self.start(**env)
        return self.await_hello()

    def want(self, order: Message) -> None:
        """Order it now, and again of each coordinator that says hello."""
        self.daemon.on_hello = lambda: [order]
        self.daemon.send(order)

    def supervise(self) -> None:
        """What the daemon does for its coordinator: one that has ended is started again, one that is stopped killed."""
        assert self.process is not None
        if self.process.poll() is None and state_of(self.process.pid) == "T":
            self.kill()
        if self.process.poll() is not None:
            self.start(**self._env)

    def wait_until(self, is_so: Callable[[], bool], what: str = "it is so") -> None:
        """Wait, and look after the coordinator meanwhile."""

        def look() -> bool:
            self.supervise()
            return is_so()

        wait_until(look, what)

    def launch(self, *command: str, **more: Any) -> Message:
        env = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "COV_", "PYTEST"))}
        launch = {
            "command": list(command),
            "cwd": str(self.folder),
            "umask": 0o022,
            "env": {**env, "PYTHONUNBUFFERED": "1"},
            "tasks": 1,
            "devices_per_task": 1,
            "limit_bytes": 0,
            "memory_bytes": None,
            "stdin": False,
            "split": False,
            "tty": None,
            "name": "a job",
            "array_index": None,
        }
        return {**launch, **more}

    def run_order(
        self,
        *command: str,
        job: str = "1",
        attempt: int = 1,
        generation: int = 1,
        on: tuple[int, ...] = (0,),
        seat: Message | None = None,
        **more: Any,
    ) -> Message:
        launch = self.launch(*command, **more)
        about = {"type": "run", "job": job, "attempt": attempt, "generation": generation}
        return {**about, "devices": list(on), "launch": launch, **({"seat": seat} if seat else {})}

    def order(self, kind: str, job: str = "1", attempt: int = 1, generation: int = 1, **more: Any) -> None:
        """As the daemon does: of the generation of the run that it is about."""
        about = {"type": kind, "job": job, "attempt": attempt, "generation": generation}
        self.daemon.send({**about, **more})

    def output(self, job: str = "1", task: int = 0) -> str:
        path = self.home.log(job, task)
        return path.read_bytes().decode() if path.exists() else ""  # with the line ends as they are

    def alive(self) -> list[int]:
        """Processes that belong to jobs of this node."""
        marks = {f"{self.run}/{job}.{attempt}.{task}" for job in "123" for attempt in (1, 2, 3) for task in (0, 1)}
        return [each.pid for each in members(Tree(marks=frozenset(marks)))]

    def shepherd(self, job: str = "1", attempt: int = 1, task: int = 0) -> int:
        path = self.home.task(job, attempt, task) / "shepherd.json"
        wait_until(path.exists, "a shepherd has recorded itself")
        return int(json.loads(path.read_text())["pid"])

    def kill_shepherd(self, task: int = 0) -> None:
        """And wait until it is gone: a task that ends meanwhile may still be reaped by it, and its status with it."""
        pid = self.shepherd(task=task)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid), "the shepherd is gone")

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.kill()
        self.daemon.leave()
        marks = {f"{self.run}/{job}.{attempt}.{task}" for job in "123" for attempt in (1, 2, 3) for task in (0, 1)}
        end_tree(Tree(marks=frozenset(marks)))
        shutil.rmtree(self.run)
        end_leftover_cgroups(self.fences.left_over(()))
        self.fences.remove()


@contextmanager
def a_node(root: Path | None = None) -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="weft-test-") as folder:
        node = Node(root or Path(folder) / "home", Path(folder))
        try:
            yield node
        finally:
            node.close()
