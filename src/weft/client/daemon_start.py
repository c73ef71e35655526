"""Starting the daemon in the background."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from weft.client import Client, NotRunningError
from weft.client.job_request import cleaned
from weft.core.errors import WeftError
from weft.system.files import open_regular
from weft.system.home import Home

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.005
SHOWN_LINES = 12
AS_USUAL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGCHLD)


def daemon_command(policy: str | None, devices: str | None, log_level: str | None = None) -> list[str]:
    options = {"--policy": policy, "--devices": devices, "--log-level": log_level}
    words = [word for option, value in options.items() if value for word in (option, value)]
    return [sys.executable, "-P", "-m", "weft.control.daemon", *words]  # -P: imports nothing from the current folder


def start_daemon(
    home: Home, policy: str | None = None, devices: str | None = None, log_level: str | None = None
) -> dict[str, Any] | None:
    """The health of a daemon that was started now; None if one runs already."""
    client = Client(home)
    if is_running(client):
        return None
    refuse_network(home)
    home.make()
    policy, devices = policy or os.environ.get("WEFT_POLICY"), devices or os.environ.get("WEFT_DEVICES")
    with os.fdopen(open_regular(home.root / "start.lock", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several that would start one, the first does
        if is_running(client):
            return None
        begins_at = home.daemon_log.stat().st_size if home.daemon_log.exists() else 0
        pid = _spawn(home, daemon_command(policy, devices, log_level))
        return _answering(client, pid, begins_at)


def is_running(client: Client) -> bool:
    try:
        client.health()
    except NotRunningError:
        return False
    return True


def refuse_network(home: Home) -> None:
    if system := home.on_network:
        hint = "name a folder on a local disk: WEFT_HOME=DIR weft up"
        raise WeftError(f"{home.root} is on {system}, a network file system, where locks and the log do not hold", hint)


def _spawn(home: Home, command: list[str]) -> int:
    """In a session of its own, with none of our files open: a reader of our output must not wait for the daemon."""
    log = open_regular(home.daemon_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    given = [fd for fd in _open_files() if fd > 2 and os.get_inheritable(fd)]
    files = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    closing = [(os.POSIX_SPAWN_CLOSE, fd) for fd in given]
    env = {**cleaned(os.environ), "WEFT_HOME": str(home.root)}
    try:
        return os.posix_spawn(
            command[0], command, env, file_actions=[*files, *closing], setsid=True, setsigmask=[], setsigdef=AS_USUAL
        )
    finally:
        os.close(log)
        os.close(nothing)


def _open_files() -> list[int]:
    listed = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    return [fd for fd in listed if Path(f"/proc/self/fd/{fd}").exists()]


def _answering(client: Client, pid: int, begins_at: int) -> dict[str, Any]:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return client.health()
        except NotRunningError:
            pass
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise _not_started(_said(client.home, begins_at))
        if time.monotonic() > deadline_s:
            hint = f"see {client.home.daemon_log}; to end it: kill {pid}"
            raise WeftError(f"the daemon (process {pid}) does not answer after {PATIENCE_S:g} s", hint)
        time.sleep(LOOK_EVERY_S)


def _not_started(said: list[str]) -> WeftError:
    """What the daemon said against it, if it said so in the usual form; else all that it said last."""
    begins = [at for at, line in enumerate(said) if line.startswith("error: ")]
    hints = [at for at, line in enumerate(said) if line.startswith("hint: ")]
    if begins and hints and begins[-1] < hints[-1] == len(said) - 1:
        message = "\n".join(said[begins[-1] : hints[-1]]).removeprefix("error: ")
        return WeftError(f"the daemon did not start: {message}", said[-1].removeprefix("hint: "))
    shown = "\n".join(f"  {line}" for line in said[-SHOWN_LINES:]) or "  (nothing)"
    return WeftError(f"the daemon did not start; its log:\n{shown}", "weft doctor")


def _said(home: Home, begins_at: int) -> list[str]:
    with home.daemon_log.open("rb") as log:
        log.seek(begins_at if begins_at <= os.fstat(log.fileno()).st_size else 0)  # it was rotated
        return log.read().decode("utf-8", "replace").splitlines()
