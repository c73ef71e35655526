"""One rank's checkpoints on disk. A writer killed at any instant leaves the last good one good.

A checkpoint is two files in `rank-0000/`:

    step-000000000120-3f9a1c20d4e5.pt    its payload, as torch.save writes it: torch.load reads it, with weft or without
    step-000000000120.json               its manifest, see manifest.py

Each is written under a temporary name, synced and renamed, the payload first. **The manifest's rename is the commit**:
a payload that no manifest names is what a killed writer left over; it is never loaded, and the next save removes it.

The payload's name carries the first digits of its own checksum. So a run that was resumed from step 80 and comes to
step 120 once more writes its payload beside the old one, and the old pair stays whole until the new manifest takes the
old one's place. Two payloads of one name are the same bytes, so renaming one onto the other does no harm either.
"""

import os
from contextlib import suppress
from typing import IO, Any, BinaryIO, Dict, List, cast

from .durable import SummedFile, make_folder, reach, rename, sha256_of, synced_file
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
    temporary_name,
)


class CheckpointError(Exception):
    """A checkpoint cannot be saved or loaded; the message tells the user why, and what holds now."""


class Store:
    """The checkpoints of one rank below `directory`, of which the newest `keep` stay."""

    def __init__(self, directory: str, rank: int = 0, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError("keep is %d: a store keeps one checkpoint or more" % keep)
        self.folder = os.path.join(os.path.abspath(directory), "rank-%04d" % rank)
        self.keep = keep
        self.refused: List[str] = []
        self._verified: Dict[int, str] = {}  # step -> payload, so that load() need not read it twice

    def save(self, step: int, state: object) -> None:
        """Commit a checkpoint of this step, then remove older ones; or raise CheckpointError and leave all as it was.

        Of the steps up to this one the newest `keep` stay. Later ones are not touched: see forget_after().
        """
        if step < 0:
            raise ValueError("step is %d: steps count from 0" % step)
        self._verified.clear()
        self._remove_left_overs()  # first, since they may be what fills the disk
        try:
            make_folder(self.folder)
            self._write(step, state)
        except OSError as error:
            problem = "the checkpoint of step %d cannot be written to %s: %s; the earlier ones are untouched"
            raise CheckpointError(problem % (step, self.folder, error.strerror or error)) from error
        else:
            with suppress(CheckpointError):  # this one is committed, whatever becomes of the older ones
                self._prune(step)
        finally:
            self._remove_left_overs()

    def good_steps(self) -> List[int]:
        """The steps, ascending, whose checkpoint is complete and has its checksum. Reads them all, whole.

        `refused` then has a line for whatever else is there. A folder that exists but cannot be read is a
        CheckpointError: nobody knows what is in it, and to say "nothing" would make the job begin anew.
        """
        self._verified.clear()
        refused = []
        for name in self._names():
            manifest = MANIFEST.fullmatch(name)
            if manifest:
                try:
                    self._verified[int(manifest[1])] = self._verify(int(manifest[1]))
                except BadCheckpointError as error:
                    refused.append(str(error))
            elif not (PAYLOAD.fullmatch(name) or TEMPORARY.fullmatch(name) or name.startswith(".")):
                refused.append("%s is no file of weft's" % self._path(name))
        good = sorted(self._verified)
        outcome = "the last good checkpoint, of step %d, is used" % good[-1] if good else "there is no good checkpoint"
        self.refused = ["%s; %s" % (line, outcome) for line in refused]
        return good

    def load(self, step: int) -> Any:
        """What was saved at this step, its tensors on the CPU. Raises CheckpointError if it is not good."""
        import torch

        try:
            payload = self._verified.get(step) or self._verify(step)
        except BadCheckpointError as error:
            raise CheckpointError("the checkpoint of step %d cannot be used: %s" % (step, error)) from error
        try:
            return torch.load(payload, map_location="cpu", weights_only=False)
        except Exception as error:
            problem = "%s had the right checksum but cannot be loaded: %s: %s; is all that was saved still defined?"
            raise CheckpointError(problem % (payload, type(error).__name__, error)) from error

    def forget_after(self, step: int) -> None:
        """Remove the checkpoints of later steps: the run goes on from `step`, and they are of a future it gave up.

        A gang whose ranks could agree on nothing later than step 80 must forget 120 everywhere. Or one rank's old 120
        may, after another kill, be joined with the new 120 of the others.
        """
        self._verified.clear()
        for later in self._steps():
            if later > step:
                self._remove(later)
        self._remove_left_overs()

    def _write(self, step: int, state: object) -> None:
        temporary = self._path(temporary_name(step))
        with synced_file(temporary, "payload") as file:
            manifest = _dump(step, state, file)
        rename(temporary, self._path(manifest.payload))
        reach("payload-renamed")
        temporary = self._path(temporary_name(step))
        with synced_file(temporary, "manifest") as file:
            file.write(manifest.text().encode())
        rename(temporary, self._path(manifest_name(step)))
        reach("committed")

    def _prune(self, step: int) -> None:
        """Of the checkpoints up to this one, the newest `keep` that look whole stay."""
        kept = 0
        for older in reversed(self._steps()):
            if older > step:
                continue
            if kept < self.keep and self._is_whole(older):
                kept += 1
            else:
                self._remove(older)

    def _remove(self, step: int) -> None:
        """Take a checkpoint's manifest away, which makes a left-over of its payload. Damaged ones go too."""
        try:
            read_manifest(self.folder, step)
        except UnknownCheckpointError:
            return
        except BadCheckpointError:
            pass
        self._unlink(manifest_name(step), "manifest-removed")

    def _remove_left_overs(self) -> None:
        """Remove the temporaries and the payloads that no manifest names."""
        with suppress(CheckpointError):
            for name in self._names():
                if TEMPORARY.fullmatch(name) or (PAYLOAD.fullmatch(name) and self._is_left_over(name)):
                    self._unlink(name, "left-over-removed")

    def _unlink(self, name: str, fail_point: str) -> None:
        """Remove a file; what cannot be removed now is for the next save to remove."""
        with suppress(OSError):
            os.unlink(self._path(name))
            reach(fail_point)

    def _is_left_over(self, payload: str) -> bool:
        try:
            return read_manifest(self.folder, int(payload.split("-")[1])).payload != payload
        except MissingManifestError:
            return True
        except BadCheckpointError:
            return False

    def _is_whole(self, step: int) -> bool:
        """A glance, enough for counting what to keep: the manifest reads and the payload has its size."""
        try:
            manifest = read_manifest(self.folder, step)
            return os.path.getsize(self._path(manifest.payload)) == manifest.size_bytes
        except (BadCheckpointError, OSError):
            return False

    def _verify(self, step: int) -> str:
        """The path of a good checkpoint's payload; raises BadCheckpointError if it is not good."""
        manifest = read_manifest(self.folder, step)
        path = self._path(manifest.payload)
        try:
            with open(path, "rb") as file:
                size_bytes = os.fstat(file.fileno()).st_size
                if size_bytes != manifest.size_bytes:
                    raise BadCheckpointError("%s has %d bytes instead of %d" % (path, size_bytes, manifest.size_bytes))
                if sha256_of(file) != manifest.sha256:
                    raise BadCheckpointError("%s is damaged: its checksum is not the one in its manifest" % path)
        except FileNotFoundError:
            raise BadCheckpointError("%s is missing" % path) from None
        except OSError as error:
            raise BadCheckpointError("%s cannot be read: %s" % (path, error.strerror)) from error
        return path

    def _names(self) -> List[str]:
        try:
            return sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError("%s cannot be read: %s" % (self.folder, error.strerror or error)) from error

    def _steps(self) -> List[int]:
        """The steps of all manifests, whatever these are worth."""
        return sorted(int(match[1]) for match in map(MANIFEST.fullmatch, self._names()) if match)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def _dump(step: int, state: object, file: BinaryIO) -> Manifest:
    import torch

    summed = SummedFile(file)
    try:
        torch.save(state, cast("IO[bytes]", summed))
    except Exception as error:
        if summed.error is None:
            problem = "the state of step %d cannot be pickled: %s: %s; the earlier checkpoints are untouched"
            raise CheckpointError(problem % (step, type(error).__name__, error)) from error
    if summed.error is not None:
        raise summed.error
    return Manifest(step, summed.size_bytes, summed.sha256)
