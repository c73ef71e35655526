"""Where everything a weft keeps is: one folder on disk, and one in memory for what must be quick or short."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.core.errors import InputError, WeftError
from weft.system.files import file_system, make_folder
from weft.system.runtime_dir import make_identity, run_folder

NETWORKED = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "lustre", "ceph", "gpfs", "beegfs", "fuse.sshfs", "9p")


@dataclass(frozen=True)
class Home:
    """Two with different roots share nothing, so they can run side by side."""

    root: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """WEFT_HOME, or .weft in the user's own folder. Nothing is made yet."""
        named = environ.get("WEFT_HOME") or "~/.weft"
        try:
            return cls(Path(named).expanduser().resolve())
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f'there is no folder "{named}": {error}', "set WEFT_HOME to a folder of yours") from error

    def make(self) -> None:
        """Make its folders, for their owner alone, and give it an identity."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_folder(self.root / "jobs")
            make_identity(self.root)
        except OSError as error:
            hint = "name another folder: WEFT_HOME=DIR weft up"
            raise WeftError(f"{error.filename} cannot be made: {error.strerror}", hint) from error

    @property
    def on_network(self) -> str | None:
        """The network file system it would be on, if it is one: locks and SQLite's log do not hold there."""
        system = file_system(self.root)
        return system if system in NETWORKED else None

    @property
    def run(self) -> Path:
        """In memory and short: a socket's path has room for a hundred bytes, and a page must not wait for a disk."""
        return run_folder(self.root)

    @property
    def database(self) -> Path:
        return self.root / "weft.db"

    @property
    def watermark(self) -> Path:
        """How far the log had come, beside it."""
        return self.root / "weft.mark"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def damaged(self) -> Path:
        """Where logs are kept that were replaced by a repair or a restore."""
        return self.root / "damaged"

    @property
    def settings(self) -> Path:
        return self.root / "weft.toml"

    @property
    def daemon_log(self) -> Path:
        return self.root / "daemon.log"

    @property
    def node_log(self) -> Path:
        return self.root / "node.log"

    @property
    def daemon_lock(self) -> Path:
        return self.root / "daemon.lock"

    @property
    def node_lock(self) -> Path:
        return self.root / "node.lock"

    @property
    def fencing(self) -> Path:
        """How the coordinator keeps the processes of a job together, in words."""
        return self.root / "fencing"

    @property
    def socket(self) -> Path:
        return self.run / "weft.sock"

    @property
    def node_socket(self) -> Path:
        return self.run / "node.sock"

    @property
    def tier(self) -> Path:
        """Where memory goes that does not fit, in files without names."""
        return self.root / "tier"

    def job(self, job_id: str) -> Path:
        return self.root / "jobs" / job_id

    def log(self, job_id: str, task: int, *, split: bool = False) -> Path:
        """What a task prints, appended to by every attempt; `split`: its standard error, kept apart on request.

        A job with an output of its own (`--output`) has a link to that here. Read it with `weft.system.tail`: it opens
        nothing but regular files: a job can put anything in its place.
        """
        return self.job(job_id) / f"task-{task}.{'err' if split else 'log'}"

    def checkpoints(self, job_id: str) -> Path:
        return self.job(job_id) / "checkpoints"

    def task(self, job_id: str, attempt: int, task: int) -> Path:
        """The records of one task of one attempt."""
        return self.job(job_id) / "attempts" / str(attempt) / str(task)

    def page(self, job_id: str, attempt: int, task: int) -> Path:
        return self.run / f"{job_id}.{attempt}.{task}.page"

    def attach_socket(self, job_id: str, attempt: int, task: int) -> Path:
        return self.run / f"{job_id}.{attempt}.{task}.sock"
