"""Requests to a daemon over its Unix socket: where the socket is, when to repeat a request, and what answers mean."""

from __future__ import annotations

import json
import os
import stat
import time
from types import TracebackType
from typing import Any, Self

from weft.client.unix_http import Connection
from weft.core.errors import InputError, WeftError
from weft.system.files import user_name
from weft.system.home import Home
from weft.system.runtime_dir import NotMadeError, check_owner

Job = dict[str, Any]
Page = dict[str, Any]
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
ANSWER_S = 10.0
RESTART_S = 5.0
LOOK_AGAIN_S = 0.05
INPUT_STATUSES = (400, 404, 405, 413, 422)
"""Answers that say the request itself is wrong."""


class UnreachableError(WeftError):
    """The daemon cannot be asked now; jobs go on without it."""


class ArrayError(InputError):
    """The id is that of an array, and what was asked for is one job's."""


class NotRunningError(UnreachableError):
    """There is no daemon."""


class Transport:
    """One connection to the daemon of a home, made again when it is lost. For one thread at a time."""

    def __init__(self, home: Home, timeout_s: float) -> None:
        self.home = home
        self.timeout_s = timeout_s
        self.restart_s = RESTART_S
        """How long a daemon that ended during a request may take to come back."""
        self._connection = Connection(lambda: _socket_of(home))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next request makes a new one."""
        self._connection.close()

    def _ask(
        self, method: str, target: str, body: dict[str, Any] | None = None, waits_s: float = 0.0, again: bool = True
    ) -> Any:
        """Ask, and ask again over a new connection if this one is lost: all but a shutdown may be repeated."""
        written = None if body is None else json.dumps(body).encode("ascii")
        given_up_s = 0.0
        busy_until_s = time.monotonic() + self.timeout_s
        while True:
            try:
                answer = self._connection.request(method, target, written, self.timeout_s + waits_s)
                again_in_s = self._connection.again_in_s
                if again_in_s is None or time.monotonic() + again_in_s > busy_until_s:
                    return _checked(*answer)
                time.sleep(again_in_s)
            except TimeoutError:
                raise self._silent() from None
            except PermissionError as error:
                check_owner(self.home.root)
                raise WeftError(f"{self.home.socket} cannot be used: {error}", "weft doctor") from error
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, NotMadeError) as error:
                if time.monotonic() > given_up_s:
                    raise NotRunningError("weft is not running", "weft up") from error
            except (ConnectionError, ValueError) as error:  # in the middle: it was killed, or is being restarted
                given_up_s = given_up_s or time.monotonic() + self.restart_s
                if not again or time.monotonic() > given_up_s:
                    hint = f"see {self.home.daemon_log}, then: weft up"
                    raise UnreachableError("the daemon ended during the request", hint) from error
            time.sleep(LOOK_AGAIN_S)

    def _silent(self) -> UnreachableError:
        """Why the daemon did not answer, as far as can be seen from here."""
        from weft.system.processes import process

        text = self.home.daemon_lock.read_text().strip() if self.home.daemon_lock.exists() else ""
        found = process(int(text)) if text.isdecimal() else None
        if found is None:
            return UnreachableError(f"the daemon did not answer within {self.timeout_s:g} s", "weft doctor")
        if found.state in ("T", "t"):
            return UnreachableError(f"the daemon (process {text}) is stopped", f"continue it: kill -CONT {text}")
        hint = f"see {self.home.daemon_log}; if it hangs: kill -9 {text}, then weft up; no job is lost"
        what = f"the daemon (process {text}) did not answer within {self.timeout_s:g} s"
        return UnreachableError(f"{what}; the request may still be carried out", hint)


def _socket_of(home: Home) -> str:
    """Looked up with each connection: a daemon that starts may have to use another folder. It must be ours."""
    path = home.socket
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode):
        raise ConnectionRefusedError(f"{path} is not a socket")
    if status.st_uid not in (os.getuid(), 0):
        raise PermissionError(f"it belongs to {user_name(status.st_uid)}")
    return str(path)


def _checked(status: int, body: bytes) -> Any:
    """What was answered, or the error it is."""
    if status < 300:
        return json.loads(body) if body else {}
    try:
        told = json.loads(body)
    except ValueError:
        told = body.decode("utf-8", "replace").strip()
    if not isinstance(told, dict):
        told = {"error": told}
    message = told.get("error") or told.get("detail") or f"the daemon answered {status}"
    if told.get("array"):
        raise ArrayError(str(message), str(told.get("hint") or ""))
    raise (InputError if status in INPUT_STATUSES else WeftError)(str(message), str(told.get("hint") or ""))
