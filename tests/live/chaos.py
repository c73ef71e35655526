"""A weft under fire: real jobs, and whatever can be killed or stopped is, at random, from a seed.

By hand, as long as you like:  python tests/live/chaos.py KILLS [SEED]
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import weft.client.transport
from waiting import state_of, wait_until
from weft.client import Client, UnreachableError
from weft.control.store.log_store import LogStore
from weft.control.store.replay import load_control_state
from weft.core.errors import InputError, WeftError
from weft.policies.loader import policies_asked
from weft.system.home import Home
from weft.system.processes import process

WITNESS = Path(__file__).with_name("witness.py")
SETTINGS = "silent_s = 1.5\nstop_grace_s = 0.5\npause_grace_s = 0.5\nstartup_s = 0.5\nsnapshot_rows = 200\n"

weft.client.transport.RESTART_S = 0.2  # nobody but us starts the daemon again, and not while we wait for it


class Chaos:
    policy = "tiresias-l:thresholds=0.3"  # so that jobs are preempted all the time
    devices, device_count = "cpu=3", 3
    settings = SETTINGS
    quotas: Mapping[str, int] = MappingProxyType({})
    most_live = 8

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.home = Home(folder / "home")
        self.home.make()
        self.home.settings.write_text(self.settings)
        self.trails = folder / "trails"
        self.trails.mkdir()
        self.expected: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.shot: set[str] = set()
        """Jobs of which a process was killed: these may end by that."""
        self.deeds: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.fail: dict[str, str] = {}
        """Where a process is to fail, as `reach` takes it."""
        self.daemon: subprocess.Popen[bytes] | None = None
        self._stopped: list[tuple[float, int]] = []

    # ---- the weft

    def up(self) -> None:
        env = {**os.environ, "WEFT_HOME": str(self.home.root), **self.fail}
        with self.home.daemon_log.open("ab") as log:
            options = ["--devices", self.devices, "--policy", self.policy]
            command = [sys.executable, "-m", "weft.control.daemon", *options]
            self.daemon = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def is_up(self) -> bool:
        try:
            with Client(self.home) as client:
                return bool(client.health()["nodes"])
        except UnreachableError:
            return False

    def keep_up(self) -> None:
        """As whoever looks after a machine would: start it again if it is gone, or if it is stopped for good."""
        if self.fail and self.daemon_pid and state_of(self.daemon_pid) == "T":
            _signal(self.daemon_pid, signal.SIGKILL)
        if self.daemon is None or self.daemon.poll() is not None:
            self.up()

    def down(self) -> None:
        for pid in (self.daemon_pid, self.coordinator_pid):
            if pid:
                _signal(pid, signal.SIGCONT)
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()

    @property
    def daemon_pid(self) -> int:
        return self.daemon.pid if self.daemon is not None and self.daemon.poll() is None else 0

    @property
    def coordinator_pid(self) -> int:
        try:
            pid = int(self.home.node_lock.read_text() or 0)
            return pid if b"weft.node.coordinator" in Path(f"/proc/{pid}/cmdline").read_bytes() else 0
        except (OSError, ValueError):
            return 0

    def task_pids(self) -> dict[int, str]:
        """Every process of a job of this weft, with the job's id, by the mark in its environment."""
        mark = f"WEFT_TASK={self.home.run}/".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                marked = [variable for variable in variables if variable.startswith(mark)]
                if marked:
                    found[int(entry.name)] = marked[0].decode().rpartition("/")[2].split(".")[0]
        return found

    def shepherd_pids(self) -> list[int]:
        """Without those that a shepherd has forked and that are about to become the task."""
        names = [entry.name for entry in Path("/proc").iterdir()]
        named = [int(name) for name in names if name.isdecimal() and self._is_shepherd(int(name))]
        found = {pid: process(pid) for pid in named}
        # Whether the parent is a shepherd is asked after the child was seen: a process may have become a shepherd, and
        # have forked, since its own name was read.
        return [pid for pid, one in found.items() if one and not self._is_shepherd(one.parent)]

    def _is_shepherd(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        is_one = any(word.endswith(b"shepherd.py") for word in words)
        return is_one and str(self.home.root).encode() in b" ".join(words)

    # ---- work

    def submit(self) -> None:
        kind = self.chance.choice(["plain", "plain", "plain", "forks", "gang"])
        code = self.chance.choice([0, 0, 0, 3])
        steps = self.chance.choice([0, 5, 20, 60])
        self.send([kind, str(steps), str(code)], code, ntasks=2 if kind == "gang" else 1)

    def send(self, words: list[str], code: int, **options: Any) -> str | None:
        """Its id, if it was acknowledged."""
        try:
            with Client(self.home, timeout_s=1.0) as client:
                job_id = client.submit([sys.executable, str(WITNESS), str(self.trails), *words], **options)
        except InputError as error:
            raise AssertionError(f"{words} {options} is refused: {error}") from error
        except WeftError:
            return None  # not acknowledged; whether it is there will be seen
        self.expected[job_id] = code
        return str(job_id)

    def cancel(self) -> None:
        live = self.live()
        if live:
            self.cancel_one(self.chance.choice(live))

    def cancel_one(self, job_id: str) -> None:
        try:
            with Client(self.home, timeout_s=1.0) as client:
                client.cancel(job_id)
        except UnreachableError:
            pass  # perhaps it was heard, perhaps not
        except WeftError:
            return  # it had ended
        self.cancelled.add(job_id)

    def live(self) -> list[str]:
        try:
            with Client(self.home, timeout_s=1.0) as client:
                return [job["id"] for job in client.queue()]
        except WeftError:
            return []

    # ---- harm

    def harm(self) -> None:
        deeds = self.choices()
        name = self.chance.choice(list(deeds))
        self.deeds[name] += 1
        deeds[name]()

    def choices(self) -> dict[str, Callable[[], None]]:
        return {
            "daemon killed": lambda: _signal(self.daemon_pid, signal.SIGKILL),
            "coordinator killed": lambda: _signal(self.coordinator_pid, signal.SIGKILL),
            "shepherd killed": self.kill_a_shepherd,
            "job killed": self._shoot,
            "both killed": self._both,
            "everything killed": self._everything,
            "daemon stopped": lambda: self._stop(self.daemon_pid),
            "coordinator stopped": lambda: self._stop(self.coordinator_pid),
            "coordinator stopped for good": lambda: _signal(self.coordinator_pid, signal.SIGSTOP),
            "shepherd stopped": lambda: self._stop(self.chance.choice(self.shepherd_pids() or [0])),
            "shepherd stopped for good": lambda: self._one(self.shepherd_pids(), signal.SIGSTOP),
            "job stopped": lambda: self._stop(self.chance.choice(list(self.task_pids()) or [0])),
            "cancelled": self.cancel,
        }

    def kill_a_shepherd(self) -> None:
        self._one(self.shepherd_pids(), signal.SIGKILL)

    def _one(self, pids: list[int], number: signal.Signals) -> None:
        if pids:
            _signal(self.chance.choice(pids), number)

    def _shoot(self) -> None:
        tasks = self.task_pids()
        if tasks:
            pid = self.chance.choice(list(tasks))
            self.shot.add(tasks[pid])
            _signal(pid, signal.SIGKILL)

    def _both(self) -> None:
        shepherds = self.shepherd_pids()
        _signal(self.coordinator_pid, signal.SIGKILL)
        self._one(shepherds, signal.SIGKILL)

    def _everything(self) -> None:
        for pid in (self.daemon_pid, self.coordinator_pid, *self.shepherd_pids()):
            _signal(pid, signal.SIGKILL)

    def _stop(self, pid: int) -> None:
        if pid:
            _signal(pid, signal.SIGSTOP)
            self._stopped.append((time.monotonic() + self.chance.uniform(0.0, 0.6), pid))

    def wake(self, all_of_them: bool = False) -> None:
        due = [pid for until_s, pid in self._stopped if all_of_them or until_s <= time.monotonic()]
        self._stopped = [(until_s, pid) for until_s, pid in self._stopped if pid not in due]
        for pid in due:
            _signal(pid, signal.SIGCONT)

    # ---- the story

    def rage(self, kills: int) -> None:
        """Until so many deeds are done, with jobs coming all the time."""
        while self.deeds.total() < kills:
            self.keep_up()
            self.wake()
            if len(self.live()) < self.most_live:
                self.submit()
            if self.chance.random() < 0.4:
                self.harm()
            time.sleep(self.chance.uniform(0.0, 0.15))

    def settle(self) -> None:
        """Nobody does any harm any more; everything comes to its end."""
        self.wake(all_of_them=True)

        def is_quiet() -> bool:
            self.keep_up()
            return self.is_up() and not self.live()

        wait_until(is_quiet, lambda: f"every job has ended: {[self._described(job_id) for job_id in self.live()]}")
        wait_until(lambda: not self.task_pids() and not self.shepherd_pids(), "no process of a job is left")
        wait_until(lambda: not self._left(), lambda: f"nothing is left behind in memory: {self._left()}")
        with Client(self.home) as client:
            states = [device["state"] for node in client.nodes() for device in node["devices"]]
        assert states == ["free"] * self.device_count, f"devices are held: {states}"

    def _described(self, job_id: str) -> Any:
        with contextlib.suppress(WeftError), Client(self.home, timeout_s=1.0) as client:
            return client.status(job_id)
        return job_id

    def _left(self) -> list[str]:
        """Pages and sockets of tasks; those of the daemon itself have one dot."""
        return [path.name for path in self.home.run.iterdir() if path.name.count(".") > 1 or path.suffix != ".sock"]

    def judge(self) -> None:
        """Everything that must be so, whatever happened."""
        with sqlite3.connect(self.home.database) as db:
            db.row_factory = sqlite3.Row
            rows = {row["id"]: dict(row) for row in db.execute("SELECT * FROM jobs")}
            ends = Counter(row[0] for row in db.execute("SELECT job FROM log WHERE kind = 'Ended'"))
        assert set(self.expected) <= set(rows), "an acknowledged job is lost"
        assert ends == dict.fromkeys(rows, 1), "a job has ended other than once"
        for job_id, row in rows.items():
            self._judge_one(row, self._trail(job_id))
            self.outcomes[str(row["state"])] += 1
            self.outcomes["lost attempts"] += row["losses"]
            self.outcomes["preemptions"] += row["preemptions"]
        store = LogStore(self.home.database)
        load_control_state(store, policies_asked(self.policy)[0].build(), self.quotas).scheduler.ledger.validate()
        store.close()

    def _judge_one(self, row: dict[str, object], trail: list[list[str]]) -> None:
        story = json.dumps({"row": row, "trail": trail}, default=str)
        assert "overlap" not in {words[0] for words in trail}, f"two attempts at once: {story}"
        code = self.expected.get(str(row["id"]), 0 if row["exit_code"] in (0, None) else 3)
        match row["state"]:
            case "SUCCEEDED":
                assert code == 0, story
                assert any(words[:2] == ["end", str(row["attempt"])] for words in trail), story
            case "CANCELLED":
                assert row["id"] in self.cancelled, story
            case "FAILED":
                is_its_own = row["exit_code"] == code != 0
                was_shot = row["id"] in self.shot and row["exit_code"] == 128 + signal.SIGKILL
                was_lost = "lost" in str(row["reason"]) and row["losses"]
                assert is_its_own or was_shot or was_lost, story
            case _:
                raise AssertionError(story)

    def _trail(self, job_id: str) -> list[list[str]]:
        file = self.trails / job_id
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def _signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


Sort = TypeVar("Sort", bound=Chaos)


@contextlib.contextmanager
def weathering(sort: Callable[[Path, int], Sort], seed: int) -> Iterator[Sort]:
    """A weft of this sort that is up. If it does not live through what comes, its logs are told."""
    with tempfile.TemporaryDirectory(prefix="weft-chaos-") as folder:
        chaos = sort(Path(folder), seed)
        try:
            chaos.up()
            wait_until(chaos.is_up, "weft is up")
            yield chaos
        except BaseException:
            for log in (chaos.home.daemon_log, chaos.home.node_log):
                print(f"---- {log.name}", log.read_text()[-6000:], sep="\n", file=sys.stderr)
            raise
        finally:
            chaos.wake(all_of_them=True)
            chaos.down()
            for pid in [*chaos.task_pids(), *chaos.shepherd_pids()]:
                _signal(pid, signal.SIGKILL)


def storm(kills: int, seed: int) -> Chaos:
    with weathering(Chaos, seed) as chaos:
        chaos.rage(kills)
        chaos.settle()
        chaos.judge()
        return chaos


if __name__ == "__main__":
    wanted, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    begun_s = time.monotonic()
    done = storm(wanted, seed)
    print(f"{len(done.expected)} acknowledged jobs, {time.monotonic() - begun_s:.0f} s")
    print(dict(done.deeds), dict(done.outcomes), sep="\n")
