"""One process at a time uses a folder of checkpoints."""

import fcntl
import os
from contextlib import suppress
from typing import Optional

from .durable import make_folder
from .folder import Folder

NAME = ".lock"


class FolderLock:
    """Taken when made, if nobody has it, and held for as long as this process lives.

    A forked child does not hold it. So the workers of a DataLoader, which may live a little longer than a trainer that
    was killed, do not keep its successor out.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._fd: Optional[int] = None
        self.is_held = self._take()
        os.register_at_fork(after_in_child=self._let_go)

    def _take(self) -> bool:
        """True also where nothing can be locked: what is wrong with such a folder, a save will say."""
        with suppress(OSError):
            make_folder(self.folder)
            with Folder(self.folder) as folder:
                self._fd = folder.open_lock(NAME)
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
