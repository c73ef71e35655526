"""One task of an attempt and its shepherd, as the coordinator sees them: from files, the page and /proc."""

from __future__ import annotations

import asyncio
import enum
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from weft.core.errors import WeftError
from weft.node.attempt import records
from weft.node.attempt.records import AttemptRecord, DamagedRecordError, ShepherdRecord, TaskExit
from weft.node.devices.device import Device, DeviceKind
from weft.node.fence import cgroups, process_tree
from weft.node.fence.ownership import verified_leader, verified_shepherd
from weft.node.fence.process_tree import Identity, Tree
from weft.node.handles import spawn
from weft.node.handles.children import SPAWNING, watch
from weft.node.shepherd.supervise import open_log, record, write_status
from weft.node.task.control_page import ControlPage, remove_page
from weft.node.task.page_snapshot import DamagedPageError
from weft.runtime import procfs
from weft.runtime.failpoints import reach
from weft.runtime.page import layout
from weft.system import processes
from weft.system.files import EntryError, discard, is_passing, read_file
from weft.system.home import Home
from weft.system.processes import Process

MOST_SPAWNS = 5
STOPPED_LOOKS = 5  # of one a second; then a stopped shepherd that could not be continued is killed
PIECE_BYTES = 1 << 16
SHOWN = 500

log = logging.getLogger(__name__)


class ShepherdState(enum.Enum):
    """What can be seen of a task."""

    ABSENT = "no shepherd has recorded it"
    SUPERVISED = "its shepherd lives"
    ORPHANED = "its shepherd was killed, but we are its parent now"
    ENDED = "it has a status"
    BARRED = "it was never started, and never will be"
    LOST = "how it ended is not known"


OVER = (ShepherdState.ENDED, ShepherdState.BARRED, ShepherdState.LOST)
ShepherdStates = Sequence[ShepherdState]


class ShepherdHandle:
    """`on_change` is called when something may have changed."""

    def __init__(
        self, home: Home, run: Path, boot_id: str, record: AttemptRecord, rank: int, on_change: Callable[[], None]
    ) -> None:
        self.rank = rank
        self.folder = home.task(record.job, record.attempt, rank)
        self.mark = spawn.mark_of(run, record, rank)
        self.page_path = Path(f"{self.mark}.page")
        self.cgroup = spawn.cgroup_of(record, rank)
        self.status: TaskExit | None = None
        self.why_lost = ""
        self.shepherd: ShepherdRecord | None = None
        self._log = home.log(record.job, rank)
        self._errors = home.log(record.job, rank, split=True)
        self._boot_id = boot_id
        self._is_of_this_boot = record.boot_id == boot_id
        self._page: ControlPage | None = None
        self._leader: Process | None = None
        self._is_damaged = False
        self._exit_codes: dict[int, int] = {}  # of shepherds that we spawned
        self._on_change = on_change
        self._spawned: Process | None = None
        self._spawns = 0
        self._watched: set[int] = set()
        self._looks_stopped = 0
        self._master: int | None = None

    def launch(self, home: Home, record: AttemptRecord, kind: DeviceKind, devices: list[Device]) -> None:
        """Start a shepherd. There may be one on its way already: only one of them will record itself."""
        self.open_page(record, kind)
        self._make_cgroup(is_required=record.needs_cgroup)
        spawn.write_launch(home, record, self.rank, kind, devices, self.page_path)
        reach("coordinator-launch-written")
        size = record.launch.get("tty") if self.rank == 0 else None
        terminal = spawn.open_terminal(size) if size else None
        try:
            with SPAWNING:
                pid = spawn.spawn(self.folder, self.mark, terminal)
                self._spawned = processes.process(pid)
        finally:
            self._keep_master(terminal)
        self._spawns += 1
        reach("coordinator-shepherd-spawned")
        self._watch(pid)

    def _make_cgroup(self, *, is_required: bool) -> None:
        try:
            if self.cgroup:
                cgroups.make(self.cgroup)
        except OSError as error:
            if is_required:
                raise WeftError(f"its cgroup {self.cgroup} cannot be made: {error.strerror}") from error
            log.warning("%s cannot be made: %s; the task is fenced by scans alone", self.cgroup, error.strerror)

    def open_page(self, record: AttemptRecord, kind: DeviceKind) -> None:
        if self._page is None:
            self._page = spawn.page_for(self.page_path, record, kind)

    def _keep_master(self, terminal: tuple[int, int] | None) -> None:
        """Our own end of a terminal, so that it outlives its shepherd."""
        if terminal:
            os.close(terminal[1])
            if self._master is not None:
                os.close(self._master)
            self._master = terminal[0]

    @property
    def can_spawn(self) -> bool:
        return not self._lives(self._spawned) and self._spawns < MOST_SPAWNS

    def give_up(self) -> bool:
        """Whether no shepherd comes up, however often one is started. Then none ever will be."""
        if self._lives(self._spawned) or self._spawns < MOST_SPAWNS:
            return False
        with suppress(OSError, EntryError):
            said = (read_file(self.folder / "shepherd.log") or b"").decode(errors="replace").strip()
            self.why_lost = f"its shepherd could not be started: {said.rpartition(chr(10))[2][:SHOWN]}"
        return self.bar()

    @property
    def leader(self) -> Process | None:
        """Of the task's session, as its page names it and as it was verified once: it will be sent signals."""
        if self._leader is None and self._page is not None:
            pid, start = self._named()
            self._leader = verified_leader(pid, start, str(self.page_path), frozenset(self.shepherd_pids))
        return self._leader

    def _named(self) -> tuple[int, int]:
        """Pid and start of the leader, as the page has them; zeros where it has none, or cannot be read."""
        try:
            words = self._page.look().words if self._page else (0,) * layout.CLAIM_PID
        except DamagedPageError:
            return 0, 0
        return words[layout.TASK_PID], words[layout.TASK_START]

    @property
    def pid(self) -> int:
        """The leader of the task's session; 0 before there is one."""
        return self.leader.pid if self.leader else 0

    @property
    def named_pid(self) -> int:
        """For people: its leader may have ended before it could be verified."""
        return self.pid or self._named()[0]

    @property
    def is_started(self) -> bool:
        """The command runs, or has run. A shepherd that was killed may not have come to say so."""
        has_said_so = self._page is not None and self._page.look().words[layout.LAUNCHER_PID] != 0
        was_killed = self._named()[0] != 0 and self.shepherd is not None and not self._lives(self.shepherd)
        return has_said_so or (was_killed and not records.read_status(self.folder))

    @property
    def shepherd_pids(self) -> set[int]:
        """Of those that live: the one that runs it, and one that may be about to."""
        return {one.pid for one in (self.shepherd, self._spawned) if one and self._lives(one)}

    @property
    def is_seen_through(self) -> bool:
        """Its shepherd ended as it should: then nothing of the task lives. A status alone is no proof of it."""
        shepherd = self.shepherd
        if self.status is None or shepherd is None:
            return False
        if self._spawned is not None and shepherd.pid == self._spawned.pid and shepherd.pid not in self._exit_codes:
            self._peek(shepherd.pid)
        return self._exit_codes.get(shepherd.pid) == 0

    def _peek(self, pid: int) -> None:
        """Its exit code, before it is taken in with those of all other children."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None and ended.si_code == os.CLD_EXITED:
                self._exit_codes[pid] = ended.si_status

    @property
    def shepherds(self) -> set[int]:
        """The pids of the one that tends it, and of one that may be about to, alive or not."""
        return {one.pid for one in (self.shepherd, self._spawned) if one}

    @property
    def is_orphaned(self) -> bool:
        """Its shepherd was killed, and we are its parent now."""
        has_no_shepherd = self.shepherd is not None and self.shepherd.pid != 0 and not self._lives(self.shepherd)
        return has_no_shepherd and not self._has_status() and self._is_our_child()

    def _has_status(self) -> bool:
        try:
            return records.read_status(self.folder) is not None
        except DamagedRecordError:
            return True

    def look(self) -> ShepherdState:
        """What can be seen of it now. Its shepherd is watched from now on.

        A status counts once its shepherd has ended: until then only the job can have written it.
        """
        if self._is_damaged:
            return ShepherdState.LOST  # what is written there later, by us when its processes end, says nothing of it
        try:
            return self._look()
        except DamagedRecordError as error:
            self._is_damaged, self.why_lost = True, error.message
            return ShepherdState.LOST

    def _look(self) -> ShepherdState:
        self.shepherd = self.shepherd or records.read_shepherd(self.folder)
        if self.shepherd and self._is_of_this_boot and self._watch(self.shepherd.pid):
            return ShepherdState.SUPERVISED
        self.status = self.status or records.read_status(self.folder)
        if self.status:
            return ShepherdState.ENDED
        if not self._is_of_this_boot:
            self.why_lost = "the machine was restarted while it ran"
            return ShepherdState.LOST
        if self.shepherd is None:
            return ShepherdState.ABSENT
        if self.shepherd.pid == 0:
            return ShepherdState.BARRED
        if self._is_our_child():
            self._copy_output()
            return ShepherdState.ORPHANED
        self.why_lost = "its shepherd process was killed, so its exit code is not known"
        return ShepherdState.LOST

    def _lives(self, one: ShepherdRecord | Process | None) -> bool:
        """A shepherd that a file names is one only if it has our mark; one that we spawned is."""
        if one is None or not processes.is_alive(one.pid, one.start):
            return False
        is_spawned = self._spawned is not None and one.pid == self._spawned.pid and one.start == self._spawned.start
        return is_spawned or verified_shepherd(one.pid, one.start, self.mark)

    def _is_our_child(self) -> bool:
        """The task is, or what is about to become it: that has our mark, and names itself before it loses it."""
        return self._has_our_leader() or self._has_our_marked() or self._has_our_leader()

    def _has_our_leader(self) -> bool:
        """No proof that it is this task's is needed where all that follows is to wait for its end."""
        pid, start = (self.leader.pid, self.leader.start) if self.leader else self._named()
        found = processes.process(pid) if pid else None
        return found is not None and found.start == start and found.parent == os.getpid()

    def _has_our_marked(self) -> bool:
        return not self.pid and any(each.parent == os.getpid() for each in process_tree.members(self.tree()))

    def _watch(self, pid: int) -> bool:
        """Whether it lives; then we are told when it ends."""
        start = procfs.start_time(pid)
        one = self.shepherd if self.shepherd and self.shepherd.pid == pid else self._spawned
        if one is None or one.start != start or not self._lives(one):
            return False
        if pid not in self._watched:
            self._watched.add(pid)
            return watch(pid, start, self._on_change)
        return True

    def tree(self, *, with_shepherd: bool = True) -> Tree:
        """All its processes, or those alone whose end its shepherd will tell."""
        shepherds = frozenset(self._identities(self.shepherd, self._spawned))
        leader = frozenset[Identity]({(self.leader.pid, self.leader.start)} if self.leader else ())
        outputs = set(map(str, self.outputs))
        fences = {self.cgroup} if self.cgroup else set[str]()
        return Tree(
            roots=leader | shepherds if with_shepherd else leader,
            marks=frozenset({self.mark}),
            spared=frozenset() if with_shepherd else shepherds,
            cgroups=frozenset(fences),
            outputs=frozenset(outputs),
        )

    @property
    def outputs(self) -> tuple[Path, Path]:
        """The files that it prints to; the second only where its standard error is kept apart."""
        return self._log, self._errors

    @property
    def has_processes(self) -> bool:
        """Whether one of its processes is seen at a glance; scans may still find others."""
        is_populated = bool(self.cgroup) and cgroups.is_populated(self.cgroup)
        return is_populated or any(processes.descendants(pid for pid, _ in self._identities(self.shepherd)))

    def _identities(self, *some: ShepherdRecord | Process | None) -> list[Identity]:
        """Of those that live."""
        return [(one.pid, one.start) for one in some if one and self._lives(one)]

    def bar(self) -> bool:
        """Make sure that it is never started; False if it has been, or if something stands in the way of saying so."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return record(str(self.folder), self._boot_id, 0)
        except OSError as error:
            if is_passing(error):
                raise
            self.why_lost = self.why_lost or f"its records cannot be written: {error.strerror}"
            return False

    def child_ended(self, pid: int, exit_code: int) -> None:
        """A child of ours has ended. If it was this task, whose shepherd was killed, its status is kept."""
        if self._spawned is not None and pid == self._spawned.pid:
            self._exit_codes[pid] = exit_code
        if pid in (self.pid, self._named()[0]) and not self.status:
            write_status(str(self.folder), exit_code, "", by="coordinator")
            reach("coordinator-status-named")
            self._on_change()

    def end_shepherd(self) -> None:
        """It has left a status; whatever keeps it from ending is not waited for."""
        if self.shepherd and self._lives(self.shepherd) and (found := processes.process(self.shepherd.pid)):
            process_tree.send([found], signal.SIGKILL)

    def wake_shepherd(self) -> None:
        """Called once a second. A stopped shepherd is continued: there is no reason to stop it, and it would not report
        the end of its task. One that stays stopped though its task has ended is killed; the status may come to us
        then."""
        found = processes.process(self.shepherd.pid) if self.shepherd and self._lives(self.shepherd) else self._spawned
        found = processes.process(found.pid) if found else None
        if found is None or found.state != "T":
            self._looks_stopped = 0
            return
        self._looks_stopped += 1
        leader = processes.process(self.pid) if self.pid else None
        is_over = leader is None or leader.state in processes.ENDED
        number = signal.SIGKILL if is_over and self._looks_stopped > STOPPED_LOOKS else signal.SIGCONT
        process_tree.send([found], number)

    def _copy_output(self) -> None:
        """Of a terminal whose shepherd was killed: without a reader the task would soon wait for ever."""
        master, self._master = self._master, None
        if master is None:
            return
        loop, output = asyncio.get_running_loop(), open_log(os.path.realpath(self._log))

        def copy() -> None:
            piece = b""
            with suppress(OSError):
                piece = os.read(master, PIECE_BYTES)
                os.write(output, piece)
            if not piece:  # no process has the terminal open any more
                loop.remove_reader(master)
                os.close(master)
                os.close(output)

        loop.add_reader(master, copy)

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._master is not None:
            os.close(self._master)
            self._master = None

    def forget(self) -> None:
        """Remove what it has in memory. Its records go with those of its attempt."""
        self.close()
        remove_page(self.page_path)
        discard(Path(f"{self.mark}.sock"))
        if self.cgroup:
            cgroups.remove(self.cgroup)
