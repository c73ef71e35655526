"""The folder in memory of a home: private to its user, and named by the identity in home.json."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from weft.core.errors import WeftError
from weft.system.files import is_in_memory, open_regular, read_regular, user_name
from weft.system.lockfile import holder_of

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - in a folder of our own, closed to other users
ELSEWHERE = "name another file in memory: --page /dev/shm/NAME"


def private_folder() -> Path:
    """A folder in memory that only this user can enter.

    Where another user has taken the usual name, it is one with a random suffix: every process of this user finds it,
    whatever its environment, because only this user can own it. Without shared memory it is the login session's.
    """
    usual = SHARED_MEMORY / f"weft-{os.getuid()}"
    folders = [usual, *_of_the_session()]
    if is_in_memory(SHARED_MEMORY):
        folder = usual if made_private(usual) else _suffixed()
        if folder is not None:
            return folder
    for folder in _of_the_session():
        if is_in_memory(folder.parent) and made_private(folder):
            return folder
    tried = " and ".join(map(str, folders))
    raise WeftError(f"no place in memory for control pages and sockets: {tried} cannot be used", ELSEWHERE)


def private_folders() -> list[Path]:
    """Every folder of this user in which a weft may have put something; nothing is made."""
    folders = [SHARED_MEMORY / f"weft-{os.getuid()}", *_suffixed_ones(), *_of_the_session()]
    return [folder for folder in folders if is_private(folder)]


def made_private(folder: Path) -> bool:
    """Make a folder for this user alone; whether it is one now. Another user's is left as it is."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False  # another user made it, and could put anything into it
        folder.chmod(0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and closed to all others."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_closed = not stat.S_IMODE(status.st_mode) & 0o077
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_closed


def _of_the_session() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [Path(runtime) / "weft"] if runtime else []


def _suffixed() -> Path | None:
    """The first of our own with a random suffix, made if there is none. Of two that make one, both take the first."""
    if not any(map(made_private, _suffixed_ones())):
        with suppress(OSError):
            (SHARED_MEMORY / f"weft-{os.getuid()}-{os.urandom(8).hex()}").mkdir(mode=0o700)
    return next(filter(made_private, _suffixed_ones()), None)


def _suffixed_ones() -> Iterator[Path]:
    return iter(sorted(SHARED_MEMORY.glob(f"weft-{os.getuid()}-{'[0-9a-f]' * 16}")))


# ---- Which home this is, and where its folder in memory is: home.json, in the home.
#
# The folder in memory is named by a random identifier and the user, so no two homes share one. The record says which
# file it is (device and inode): a copy of a home has a record that names another file, and gets an identity of its
# own. A moved or bind-mounted home has the same file, and keeps its identity.

NAME = "home.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LONGEST_RUN_BYTES = 76
"""A socket's path has room for 107 bytes; the names of sockets in the folder take about thirty of them."""
LARGEST_BYTES = 4096
LOCKS = ("daemon.lock", "node.lock")
OF_OURS = re.compile(rf"/[^\0]*/weft(-{os.getuid()}(-[0-9a-f]{{16}})?)?/([0-9a-f]{{8}}|[0-9a-f]{{32}})")
"""The only folders that a record may name."""
OF_THE_ORIGINAL = "attempts.of-the-original"


class NotMadeError(WeftError):
    """No weft has been started in this home."""


@dataclass(frozen=True)
class Identity:
    id: str
    run: str
    """The folder in memory, for pages and sockets."""
    root: str
    boot_id: str
    device: int
    inode: int
    """Where the record was when it was written."""

    def is_at(self, root: Path, status: os.stat_result) -> bool:
        """Whether the record is where it was written. Device numbers may change when the machine starts anew."""
        if self.boot_id == _boot_id():
            return (self.device, self.inode) == (status.st_dev, status.st_ino)
        return self.inode == status.st_ino and self.root == str(root)


def run_folder(root: Path) -> Path:
    """The folder in memory of a home that is in use; only one that is this user's alone is named."""
    found = _read(root) or _lost(root)
    run = Path(found.run) if found else _older(root)
    if run is None:
        raise NotMadeError(f"no weft has been started in {root}", "weft up")
    if os.path.lexists(run) and not is_private(run):
        raise WeftError(f"{run} is not a folder that only you can enter", "weft up uses another one")
    return run


def check_owner(root: Path) -> None:
    """Refuse a home of another user, naming the owner."""
    with suppress(OSError):
        if (uid := root.stat().st_uid) != os.getuid():
            raise WeftError(f"{root} belongs to {user_name(uid)}", "use a folder of your own: WEFT_HOME=DIR weft up")


def home_id(root: Path) -> str | None:
    """The random identifier of a home; None if no weft has been started in it."""
    found = _read(root)
    return found.id if found else None


def make_identity(root: Path) -> Path:
    """Make sure that a home has an identity and a folder in memory of its own; that folder."""
    with _locked(root):
        recorded = _read(root)
        found = recorded or _lost(root)
        if found is None:
            if _is_copy(root):
                _leave_attempts_to_the_original(root)
            found = _new(_older(root))
        if not _is_made(Path(found.run)):
            found = _new(None)
            if not _is_made(Path(found.run)):
                raise WeftError(f"{found.run} cannot be made", "is there room in memory? weft doctor says more")
        if found != recorded or found.boot_id != _boot_id():
            _write(root, found)
        _mark(root, found)
    return Path(found.run)


def forget_run_folder(run: Path) -> None:
    """Remove an empty folder in memory; what a job still uses stays."""
    with suppress(OSError):
        run.rmdir()
        _marker(run).unlink(missing_ok=True)


def _older(root: Path) -> Path | None:
    """The folder of an earlier weft that is in use, named by a checksum of the home's path."""
    name = f"{zlib.crc32(os.fsencode(root)):08x}"
    return next((folder / name for folder in private_folders() if _is_in_use(root, folder / name)), None)


def _is_in_use(root: Path, run: Path) -> bool:
    """Whether this home, and no other, has something in a folder in memory: a weft that runs, or pages of its jobs."""
    if not is_private(run):
        return False
    if any(holder_of(root / name) is not None for name in LOCKS):
        return True
    pages = [entry.name.split(".") for entry in run.glob("*.*.*.page")]
    return any((root / "jobs" / job / "attempts" / attempt).is_dir() for job, attempt, *_ in pages)


def _is_made(run: Path) -> bool:
    return (is_private(run.parent) or made_private(run.parent)) and made_private(run)


def _new(run: Path | None) -> Identity:
    from hashlib import sha256  # takes longer to load than everything else a client needs

    made = os.urandom(16).hex()
    if run is None:
        run = private_folder() / sha256(f"{os.getuid()}:{made}".encode()).hexdigest()[:32]
    if len(os.fsencode(run)) > LONGEST_RUN_BYTES:
        raise WeftError(f"{run} is too long for a socket", "unset XDG_RUNTIME_DIR, or mount a tmpfs at /dev/shm")
    return Identity(made, str(run), "", "", 0, 0)


def _read(root: Path) -> Identity | None:
    """The record of this home; None if there is none, none that can be read, or that of another home."""
    try:
        status = (root / NAME).stat()
        found = _parsed(read_regular(root / NAME, LARGEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        check_owner(root)
        raise WeftError(f"{root / NAME} cannot be read: {error.strerror}", "weft doctor") from error
    if status.st_uid != os.getuid():
        check_owner(root)
        raise WeftError(f"{root / NAME} belongs to {user_name(status.st_uid)}", "weft doctor")
    return found if found is not None and found.is_at(root, status) else None


def _is_copy(root: Path) -> bool:
    """Whether a record is there, but was written elsewhere."""
    try:
        return _parsed(read_regular(root / NAME, LARGEST_BYTES)) is not None
    except OSError:
        return False


def _parsed(content: bytes) -> Identity | None:
    try:
        found = Identity(**json.loads(content))
    except (ValueError, TypeError):
        return None
    texts = (found.id, found.run, found.root, found.boot_id)
    is_whole = all(isinstance(each, str) for each in texts) and OF_OURS.fullmatch(found.run)
    return found if is_whole and len(os.fsencode(found.run)) <= LONGEST_RUN_BYTES else None


def _write(root: Path, made: Identity) -> None:
    """Atomically, by way of a file that the record itself names."""
    draft = root / f".{NAME}-{os.getpid()}"
    with suppress(FileNotFoundError):
        draft.unlink()
    with os.fdopen(open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
        status = os.fstat(file.fileno())
        here = replace(made, root=str(root), boot_id=_boot_id(), device=status.st_dev, inode=status.st_ino)
        json.dump(asdict(here), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(root / NAME)


def _marker(run: Path) -> Path:
    return run.with_name(f"{run.name}.home")


def _mark(root: Path, made: Identity) -> None:
    """Beside the folder: the home it belongs to, should the home lose its record."""
    with suppress(OSError):
        _marker(Path(made.run)).write_bytes((root / NAME).read_bytes())


def _lost(root: Path) -> Identity | None:
    """The identity of a home whose record was removed or damaged while its jobs run, by the folder in memory.

    Also of one that was removed as a whole: its jobs have to end before others take their numbers.
    """
    if _is_copy(root):
        return None
    for folder in private_folders():
        for marker in folder.glob("*.home"):
            with suppress(OSError, WeftError):
                found = _parsed(read_regular(marker, LARGEST_BYTES))
                if found and found.root == str(root) and (_is_in_use(root, Path(found.run)) or _is_orphaned(found.run)):
                    return found
    return None


def _is_orphaned(run: str) -> bool:
    """Whether a live shepherd works in a removed home. If the home was moved, its shepherds work in the moved one."""
    from weft.node.fence.ownership import marks_of
    from weft.system.processes import every_process

    marked = (each.pid for each in every_process() if any(mark.startswith(f"{run}/") for mark in marks_of(each.pid)))
    return any(_works_in_removed_folder(pid) for pid in marked)


def _works_in_removed_folder(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd").endswith(" (deleted)")  # noqa: PTH115
    except OSError:
        return False


def _leave_attempts_to_the_original(root: Path) -> None:
    """The processes that a copied home has records of are another home's: this one must not take them over."""
    for attempts in (root / "jobs").glob("*/attempts"):
        with suppress(OSError):
            attempts.rename(attempts.with_name(f"{OF_THE_ORIGINAL}-{os.urandom(4).hex()}"))


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One at a time: the lock is on the folder itself."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _boot_id() -> str:
    return BOOT_ID.read_text().strip()
