"""The checkpoints that a run saves and resumes from: of its own script, used by no other process."""

import fcntl
import os
import shlex
import sys
from contextlib import suppress
from typing import Any, Dict, Optional

from ..log import warn
from ..torch_process import common_steps, rank
from .folder import Folder, make_folder
from .loader_position import is_place
from .rank_store import CheckpointError, RankStore

LOCK_NAME = ".lock"
NO_DIRECTORY = "there is no directory for checkpoints (weft exec --checkpoints DIR)"
IN_USE = "the checkpoints in %s are in use by another process; to save any, this one needs a directory of its own"
NONE_IN_COMMON = "this rank has checkpoints of step %s, but the ranks have none in common: starting from the beginning"
OTHER_SCRIPT = (
    "the checkpoints in %s are of the script %s, but this is %s: give each a directory of its own "
    "(weft exec --checkpoints DIR)"
)
NOT_A_STATE = "the checkpoint of step %d in %s is not one of a run: what it holds is not what weft writes"
OTHER_ARGUMENTS = "the checkpoint of step %d was made with other arguments: %s; it goes on with: %s"


class Checkpoints:
    def __init__(self, directory: Optional[str]) -> None:
        self._directory = directory
        self._store: Optional[RankStore] = None
        self._lock: Optional[FolderLock] = None

    def open(self) -> None:
        """Take this rank's folder for this process. What else would be saved to or loaded from it is refused."""
        if self._directory is None:
            return
        self._store = RankStore(self._directory, rank())
        if self._lock is None or self._lock.folder != self._store.folder or not self._lock.is_held:
            self._lock = FolderLock(self._store.folder)
            if not self._lock.is_held:
                warn(self.why_not())

    def why_not(self) -> str:
        """Why nothing can be saved, if so; a forked child must not save where its parent does."""
        if self._store is None:
            return NO_DIRECTORY
        return "" if self._lock is not None and self._lock.is_held else IN_USE % self._store.folder

    def save(self, step: int, state: Dict[str, Any]) -> None:
        """Save, if why_not() is empty."""
        assert self._store is not None
        self._store.save(step, {**state, "step": step, **_this_script()})

    def load_newest(self) -> Optional[Dict[str, Any]]:
        """The newest checkpoint that every rank has whole; None if there is none."""
        if self._store is None:
            return None
        # A rank whose folder is in use takes part too: the others wait for its answer.
        steps = [] if self.why_not() else self._store.good_steps()
        for refused in self._store.refused:
            warn(refused)
        common = common_steps(steps)
        if not common:
            if steps:
                warn(NONE_IN_COMMON % ", ".join(map(str, steps)))
            return None
        state: Dict[str, Any] = self._store.load(common[-1])
        if not is_state(state, common[-1]):
            raise CheckpointError(NOT_A_STATE % (common[-1], self._directory))
        self._check_script(state)
        # Or a later kill could join an old step of one rank with a new one of another.
        self._store.forget_after(common[-1])
        return state

    def _check_script(self, state: Dict[str, Any]) -> None:
        here = _this_script()
        if here["script"] != state["script"]:
            raise CheckpointError(OTHER_SCRIPT % (self._directory, state["script"], here["script"]))
        if here["arguments"] != state["arguments"]:
            shown = [shlex.join(arguments) or "none" for arguments in (state["arguments"], here["arguments"])]
            warn(OTHER_ARGUMENTS % (state["step"], *shown))


def is_state(state: Any, step: int) -> bool:
    """Whether it is as save() and Progress make it: its content is used without further checks."""
    return (
        isinstance(state, dict)
        and state.get("step") == step
        and isinstance(state.get("script"), str)
        and isinstance(state.get("arguments"), list)
        and all(isinstance(each, str) for each in state["arguments"])
        and all(isinstance(state.get(name), dict) for name in ("parts", "gradients"))
        and all(isinstance(pending, dict) for pending in state["gradients"].values())
        and is_place(state.get("place"))
    )


def _this_script() -> Dict[str, Any]:
    command = list(sys.argv) or [""]
    return {"script": os.path.basename(command[0]), "arguments": command[1:]}


class FolderLock:
    """Taken when created, if it is free, and held as long as this process lives.

    A forked child does not hold it. So the workers of a DataLoader, which may live a little longer than a trainer that
    was killed, do not keep its successor out.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._fd: Optional[int] = None
        self.is_held = self._take()
        os.register_at_fork(after_in_child=self._let_go)

    def _take(self) -> bool:
        """True also where nothing can be locked: a save then reports what is wrong with the folder."""
        with suppress(OSError):
            make_folder(self.folder)
            with Folder(self.folder) as folder:
                self._fd = folder.open_lock(LOCK_NAME)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._let_go()
                return False
        return True

    def _let_go(self) -> None:
        self.is_held = False
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
