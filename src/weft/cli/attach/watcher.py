"""A job, or several, as the daemon sees them, asked for in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from weft.client import ENDED, Client, Job, UnreachableError
from weft.core.errors import WeftError
from weft.system.home import Home

ASK_EVERY_S = 30.0
REFRESH_S = 0.5
AGAIN_S = 0.2


class Watcher:
    """Asks in a thread. `job` is the latest answer; `changed` is called after each, and when there is no answer.

    Without a daemon it keeps asking until there is one: only the daemon knows how a job ended.
    """

    def __init__(self, home: Home, job: Job, changed: Callable[[], Any] = lambda: None) -> None:
        self.job = job
        self.is_reachable = True
        self.error: WeftError | None = None
        self._client = Client(home)
        self._client.restart_s = AGAIN_S
        self._changed = changed
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread of a job that has ended to close its connection. Any other ends with this process."""
        if self.has_ended or self.error:
            self._thread.join()

    @property
    def has_ended(self) -> bool:
        return self.job["state"] in ENDED

    def _asked(self, client: Client) -> Job:
        """The next answer, once something has changed or after a while."""
        return client.wait(self.job["id"], REFRESH_S, state_not=self.job["state"])

    def _watch(self) -> None:
        with self._client:
            self._ask_until_it_has_ended()

    def _ask_until_it_has_ended(self) -> None:
        again = threading.Event()
        while not self.has_ended:
            try:
                self.job = self._asked(self._client)
                self.is_reachable = True
            except UnreachableError:
                self.is_reachable = False
                again.wait(AGAIN_S)
            except WeftError as error:
                self.error = error
                self._changed()
                return
            self._changed()


class SelectionWatcher(Watcher):
    """Several jobs, until all have ended, however many they are, by one question at a time."""

    def __init__(self, home: Home, ids: Sequence[str]) -> None:
        super().__init__(home, {"id": ids[0], "is_over": False})
        self._ids = ids

    @property
    def has_ended(self) -> bool:
        return bool(self.job["is_over"])

    def _asked(self, client: Client) -> dict[str, object]:
        return client.wait_for(self._ids, timeout_s=ASK_EVERY_S)
