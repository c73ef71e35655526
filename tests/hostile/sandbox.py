"""A sandbox for hostile processes: its own user, mount and process namespaces, and its own /dev/shm.

Every process in it ends with the sandbox, so an attack that escapes from weft does not escape from its test. Paths on
disk are the same inside and outside. Where the kernel refuses namespaces, commands run without them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S

HOLDER = Path(__file__).with_name("namespaces.py")
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
IDS = 65536
"""How many user and group ids are mapped for root. Anybody else gets one: root in the sandbox is that user."""

ISOLATIONS = (
    ("user, mount and process namespaces", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID),
    ("mount and process namespaces", CLONE_NEWNS | CLONE_NEWPID),
)

Done = subprocess.CompletedProcess[str]


class Sandbox:
    """Commands run in it as root of its user namespace, or under another uid."""

    def __init__(self) -> None:
        self.isolation = "no namespaces"
        self._init: int | None = None
        self._holder: subprocess.Popen[bytes] | None = None
        for name, flags in ISOLATIONS:
            if self._enter(flags):
                self.isolation = name
                break

    @property
    def is_isolated(self) -> bool:
        return self._init is not None

    @property
    def has_other_users(self) -> bool:
        """Whether commands can run under the uids 1 to 65535 as well."""
        return os.getuid() == 0

    def outside(self, path: Path) -> Path:
        """An absolute path of the sandbox, as this process reaches it."""
        return Path(f"/proc/{self._init}/root") / path.relative_to("/") if self._init else path

    def command(self, words: Sequence[str], uid: int = 0) -> list[str]:
        """The words that run this command in the sandbox."""
        as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        if self._init is None:
            return [*as_user, *words]
        return ["nsenter", f"--target={self._init}", "--user", "--mount", "--pid", "--", *as_user, *words]

    def run(self, *words: str, uid: int = 0, env: Mapping[str, str] | None = None, **how: Any) -> Done:
        """Run a command to its end; its output is captured."""
        how = {"check": False, "capture_output": True, "text": True, "timeout": PATIENCE_S, **how}
        if "input" not in how:
            how["stdin"] = subprocess.DEVNULL
        return subprocess.run(self.command(words, uid), env=env, **how)  # type: ignore[no-any-return]

    def start(self, *words: str, uid: int = 0, **how: Any) -> subprocess.Popen[Any]:
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **how}
        return subprocess.Popen(self.command(words, uid), start_new_session=True, **how)

    def close(self) -> None:
        """Every process in the sandbox ends."""
        if self._holder is not None and self._init is not None:
            os.kill(self._init, signal.SIGKILL)
            self._holder.wait(PATIENCE_S)

    def _enter(self, flags: int) -> bool:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                words = [sys.executable, "-S", str(HOLDER), str(theirs.fileno()), str(flags)]
                holder = subprocess.Popen(words, pass_fds=[theirs.fileno()])
            ours.settimeout(PATIENCE_S)
            is_entered = ours.recv(1) == b"u"
            if is_entered and flags & CLONE_NEWUSER:
                is_entered = _map_ids(holder.pid)
            if is_entered:
                ours.send(b"m")
                said = ours.recv(32)
                is_entered = said.isdigit()
        if not is_entered:
            holder.kill()
            holder.wait(PATIENCE_S)
            return False
        self._holder, self._init = holder, int(said)
        return True


def _map_ids(pid: int) -> bool:
    folder = Path(f"/proc/{pid}")
    is_root = os.getuid() == 0
    try:
        if not is_root:
            (folder / "setgroups").write_text("deny")
        (folder / "uid_map").write_text(f"0 {os.getuid()} {IDS if is_root else 1}\n")
        (folder / "gid_map").write_text(f"0 {os.getgid()} {IDS if is_root else 1}\n")
    except OSError:
        return False
    return True
