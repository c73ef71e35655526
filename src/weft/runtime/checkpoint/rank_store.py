"""One rank's checkpoints on disk. A writer killed at any instant leaves the last good one good.

A checkpoint is two files in `rank-0000/`:

    step-000000000120-3f9a1c20d4e5.pt    its payload, as torch.save writes it: torch.load reads it, with weft or without
    step-000000000120.json               its manifest, see manifest.py

Each is written under a temporary name, synced and renamed, the payload first. **The manifest's rename is the commit**:
a payload that no manifest names is what a killed writer left over; it is never loaded, and the next save removes it.

The payload's name carries the first digits of its own checksum. So a run that was resumed from step 80 and comes to
step 120 once more writes its payload beside the old one, and the old pair stays whole until the new manifest takes the
old one's place. Two payloads of one name are the same bytes, so renaming one onto the other does no harm either.

Any user may have written into the folder, so its content is checked before use: folder.py, manifest.py, payload.py.
"""

import os
import re
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Set

from ..failpoints import reach
from . import payload
from .folder import Folder, UntrustedError, make_folder
from .manifest import (
    MANIFEST,
    PAYLOAD,
    TEMPORARY,
    BadCheckpointError,
    Manifest,
    MissingManifestError,
    UnknownCheckpointError,
    manifest_name,
    read_manifest,
    shown,
    temporary_name,
)

RANK = re.compile("rank-[0-9]{4,}")

# Every instant of RankStore.save that leaves a different folder behind, in order.
FAIL_POINTS = (
    "payload-opened",
    "payload-partly-written",  # reached after each piece that torch writes
    "payload-written",  # but not synced
    "payload-synced",  # but under its temporary name
    "payload-renamed",  # but no manifest names it
    "manifest-opened",
    "manifest-written",
    "manifest-synced",
    "committed",
    "manifest-removed",  # that of an older checkpoint, whose payload is still there; reached after each
    "left-over-removed",  # a temporary, or a payload that no manifest names; reached after each
)


class CheckpointError(Exception):
    """A checkpoint cannot be saved or loaded; the message tells the user why, and what is in effect now."""


class RankStore:
    """The checkpoints of one rank below `directory`, of which the newest `keep` stay."""

    def __init__(self, directory: str, rank: int = 0, keep: int = 2) -> None:
        self._verified: Dict[int, BinaryIO] = {}  # step → its payload, open: what was checked is what is loaded
        if keep < 1:
            raise ValueError("keep is %d: a store keeps one checkpoint or more" % keep)
        self.folder = os.path.join(os.path.abspath(directory), "rank-%04d" % rank)
        self.keep = keep
        self.refused: List[str] = []

    def __del__(self) -> None:
        self._forget_verified()

    def save(self, step: int, state: object) -> None:
        """Commit a checkpoint of this step, then remove older ones; or raise CheckpointError and leave all as it was.

        Of the steps up to this one the newest `keep` stay. Later ones are not touched: see forget_after().
        """
        if step < 0:
            raise ValueError("step is %d: steps count from 0" % step)
        self._forget_verified()
        try:
            with suppress(FileNotFoundError), Folder(self.folder) as folder:
                self._remove_left_overs(folder)  # first, since they may be what fills the disk
            make_folder(self.folder)
            with Folder(self.folder) as folder:
                self._save(folder, step, state)
        except UntrustedError as error:
            problem = "the checkpoint of step %d cannot be written: %s %s"
            raise CheckpointError(problem % (step, self.folder, error.strerror)) from error
        except OSError as error:
            problem = "the checkpoint of step %d cannot be written to %s: %s; the earlier ones are untouched"
            raise CheckpointError(problem % (step, self.folder, error.strerror or error)) from error

    def _save(self, folder: Folder, step: int, state: object) -> None:
        try:
            self._write(folder, step, state)
        except payload.PayloadError as error:
            problem = "the state of step %d %s; the earlier checkpoints are untouched"
            raise CheckpointError(problem % (step, error)) from error
        else:
            with suppress(OSError):  # this one is committed, whatever becomes of the older ones
                self._prune(folder, step)
        finally:
            self._remove_left_overs(folder)

    def good_steps(self) -> List[int]:
        """The steps, ascending, whose checkpoint is complete and has its checksum. Reads them all, whole.

        `refused` then has a line for whatever else is there. A folder that exists but cannot be read is a
        CheckpointError: its content is unknown, and to answer "empty" would restart the job from the beginning.
        """
        self._forget_verified()
        with self._open() as folder:
            refused = [] if folder is None else self._verify_all(folder)
        good = sorted(self._verified)
        outcome = "the last good checkpoint, of step %d, is used" % good[-1] if good else "there is no good checkpoint"
        self.refused = ["%s; %s" % (line, outcome) for line in refused]
        return good

    def _verify_all(self, folder: Folder) -> List[str]:
        """Verify all checkpoints; one line for each that is not good."""
        refused = []
        for name in folder.names():
            manifest = MANIFEST.fullmatch(name)
            if manifest:
                try:
                    self._verified[int(manifest[1])] = _verified(folder, int(manifest[1]))
                except BadCheckpointError as error:
                    refused.append(str(error))
            elif not (PAYLOAD.fullmatch(name) or TEMPORARY.fullmatch(name) or name.startswith(".")):
                refused.append("%s is no file of weft's" % shown(folder.path_of(name)))
        return refused

    def load(self, step: int) -> Any:
        """What was saved at this step, its tensors on the CPU. Raises CheckpointError if it is not good."""
        if step not in self._verified:
            try:
                with self._open() as folder:
                    if folder is None:
                        raise MissingManifestError("there is no %s" % os.path.join(self.folder, manifest_name(step)))
                    self._verified[step] = _verified(folder, step)
            except BadCheckpointError as error:
                raise CheckpointError("the checkpoint of step %d cannot be used: %s" % (step, error)) from error
        try:
            return payload.load(self._verified[step])
        except payload.PayloadError as error:
            problem = "the checkpoint of step %d in %s cannot be loaded: it %s"
            raise CheckpointError(problem % (step, self.folder, error)) from error
        except Exception as error:
            problem = (
                "the checkpoint of step %d in %s had the right checksum but cannot be loaded: %s: %s; is all that "
            )
            problem += "was saved still defined?"
            details = (step, self.folder, type(error).__name__, error)
            raise CheckpointError(problem % details) from error

    def forget_after(self, step: int) -> None:
        """Remove the checkpoints of later steps: the run resumes from `step`, so they are void.

        A gang whose ranks could agree on nothing later than step 80 must forget 120 everywhere. Or one rank's old 120
        may, after another kill, be joined with the new 120 of the others.
        """
        self._forget_verified()
        with self._open() as folder:
            if folder is not None:
                for later in _steps(folder):
                    if later > step:
                        _remove(folder, later)
                self._remove_left_overs(folder)

    def _write(self, folder: Folder, step: int, state: object) -> None:
        temporary = temporary_name(step)
        with folder.new_file(temporary, "payload") as file:
            manifest = Manifest(step, *payload.save(state, file))
        folder.rename(temporary, manifest.payload)
        reach("payload-renamed")
        temporary = temporary_name(step)
        with folder.new_file(temporary, "manifest") as file:
            file.write(manifest.text().encode())
        folder.rename(temporary, manifest_name(step))
        reach("committed")

    def _prune(self, folder: Folder, step: int) -> None:
        """Of the checkpoints up to this one, the newest `keep` that look whole stay."""
        kept = 0
        for older in reversed(_steps(folder)):
            if older > step:
                continue
            if kept < self.keep and _is_whole(folder, older):
                kept += 1
            else:
                _remove(folder, older)

    def _remove_left_overs(self, folder: Folder) -> None:
        """Remove the temporaries and the payloads that no manifest names."""
        with suppress(OSError):
            for name in folder.names():
                if TEMPORARY.fullmatch(name) or (PAYLOAD.fullmatch(name) and _is_left_over(folder, name)):
                    _unlink(folder, name, "left-over-removed")

    @contextmanager
    def _open(self) -> Iterator[Optional[Folder]]:
        """The folder; None if there is none yet."""
        try:
            folder = Folder(self.folder)
        except FileNotFoundError:
            yield None
            return
        except UntrustedError as error:
            raise CheckpointError("%s %s" % (self.folder, error.strerror)) from error
        except OSError as error:
            raise CheckpointError("%s cannot be read: %s" % (self.folder, error.strerror or error)) from error
        with folder:
            yield folder

    def _forget_verified(self) -> None:
        while self._verified:
            self._verified.popitem()[1].close()


def last_saved_step(directory: str) -> int:
    """The last step of which all ranks have a checkpoint that looks whole; 0 if there is none, or it cannot be read.

    Checksums are not compared: this tells people where a run will begin again.
    """
    whole: List[Set[int]] = []
    try:
        for name in filter(RANK.fullmatch, os.listdir(directory)):
            with Folder(os.path.join(directory, name)) as folder:
                whole.append({step for step in _steps(folder) if _is_whole(folder, step)})
    except OSError:
        return 0
    return max(set.intersection(*whole), default=0) if whole else 0


def _remove(folder: Folder, step: int) -> None:
    """Remove a checkpoint's manifest, which makes its payload a left-over. Damaged manifests are removed too."""
    try:
        read_manifest(folder, step)
    except UnknownCheckpointError:
        return
    except BadCheckpointError:
        pass
    _unlink(folder, manifest_name(step), "manifest-removed")


def _unlink(folder: Folder, name: str, fail_point: str) -> None:
    """Remove a file; if that fails, the next save tries again."""
    with suppress(OSError):
        folder.unlink(name)
        reach(fail_point)


def _is_left_over(folder: Folder, name: str) -> bool:
    try:
        return read_manifest(folder, int(name.split("-")[1])).payload != name
    except MissingManifestError:
        return True
    except BadCheckpointError:
        return False


def _is_whole(folder: Folder, step: int) -> bool:
    """A quick check, enough to count what to keep: the manifest is readable and the payload has its size."""
    try:
        manifest = read_manifest(folder, step)
        return folder.size_of(manifest.payload) == manifest.size_bytes
    except (BadCheckpointError, OSError):
        return False


def _verified(folder: Folder, step: int) -> BinaryIO:
    """A good checkpoint's payload, open; raises BadCheckpointError if it is not good."""
    manifest = read_manifest(folder, step)
    path = folder.path_of(manifest.payload)
    try:
        file = folder.open_file(manifest.payload)
    except FileNotFoundError:
        raise BadCheckpointError("%s is missing" % path) from None
    except UntrustedError as error:
        raise BadCheckpointError("%s %s" % (path, error.strerror)) from error
    except OSError as error:
        raise BadCheckpointError("%s cannot be read: %s" % (path, error.strerror)) from error
    try:
        _check_payload(file, path, manifest)
    except BaseException:
        file.close()
        raise
    return file


def _check_payload(file: BinaryIO, path: str, manifest: Manifest) -> None:
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes != manifest.size_bytes:
        raise BadCheckpointError("%s has %d bytes instead of %d" % (path, size_bytes, manifest.size_bytes))
    try:
        checksum = payload.sha256_of(file)
    except OSError as error:
        raise BadCheckpointError("%s cannot be read: %s" % (path, error.strerror)) from error
    if checksum != manifest.sha256:
        raise BadCheckpointError("%s is damaged: its checksum is not the one in its manifest" % path)


def _steps(folder: Folder) -> List[int]:
    """The steps of all manifests, good or not."""
    return sorted(int(match[1]) for match in map(MANIFEST.fullmatch, folder.names()) if match)
