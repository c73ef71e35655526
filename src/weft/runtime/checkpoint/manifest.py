"""A checkpoint's manifest: the small file that says which payload is the checkpoint of a step, and its checksum.

{"weft_checkpoint": 1, "step": 120, "bytes": 201400, "sha256": "3f9a1c20d4e5…", "written_at": "2026-05-09T07:35:25Z"}
"""

import json
import os
import re
import time
from typing import NamedTuple

from .folder import Folder, UntrustedError

VERSION = 1
STEP = "step-([0-9]{12}|[1-9][0-9]{12,17})"  # as manifest_name writes it, and no larger than a word of the page
MANIFEST = re.compile(STEP + r"\.json")
PAYLOAD = re.compile(STEP + r"-[0-9a-f]{12}\.pt")
TEMPORARY = re.compile(STEP + r"-[0-9a-f]{16}\.tmp")
MOST_BYTES = 1 << 16  # of a manifest; ours have 200
LONGEST_SHOWN = 200
SHA256 = re.compile(r"[0-9a-f]{64}")


class BadCheckpointError(Exception):
    """This checkpoint is not good; the message names the file and the reason."""


class MissingManifestError(BadCheckpointError):
    """There is no manifest."""


class UnknownCheckpointError(BadCheckpointError):
    """It may be good: it is of another version, or unreadable just now. Never removed."""


class Manifest(NamedTuple):
    step: int
    size_bytes: int
    sha256: str

    @property
    def payload(self) -> str:
        return "step-%012d-%s.pt" % (self.step, self.sha256[:12])

    def text(self) -> str:
        fields = {
            "weft_checkpoint": VERSION,
            "step": self.step,
            "bytes": self.size_bytes,
            "sha256": self.sha256,
            "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        return json.dumps(fields) + "\n"


def manifest_name(step: int) -> str:
    return "step-%012d.json" % step


def temporary_name(step: int) -> str:
    """A new name each time: an older process of the job that is still writing uses another file."""
    return "step-%012d-%s.tmp" % (step, os.urandom(8).hex())


def read_manifest(folder: Folder, step: int) -> Manifest:
    """The manifest of this step, checked; its payload is not looked at. Raises BadCheckpointError."""
    path = folder.path_of(manifest_name(step))
    try:
        with folder.open_file(manifest_name(step)) as file:
            text = file.read(MOST_BYTES + 1)
        fields = json.loads(text[:MOST_BYTES])
    except FileNotFoundError:
        raise MissingManifestError("there is no %s" % path) from None
    except UntrustedError as error:
        raise UnknownCheckpointError("%s %s" % (path, error.strerror)) from error
    except OSError as error:
        raise UnknownCheckpointError("%s cannot be read: %s" % (path, error.strerror)) from error
    except (ValueError, RecursionError):
        raise BadCheckpointError("%s is damaged: it is not JSON" % path) from None
    if not isinstance(fields, dict) or "weft_checkpoint" not in fields:
        raise BadCheckpointError("%s is no manifest of weft's" % path)
    version, size_bytes, sha256 = fields["weft_checkpoint"], fields.get("bytes", -1), fields.get("sha256")
    if type(version) is not int or version != VERSION:
        raise UnknownCheckpointError("%s is of version %s; this weft knows %d" % (path, shown(version), VERSION))
    is_size = type(size_bytes) is int and 0 <= size_bytes < 1 << 63
    if not is_size or not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise BadCheckpointError("%s is damaged: it lacks the size or the checksum of its payload" % path)
    if type(fields.get("step")) is not int or fields["step"] != step:
        raise BadCheckpointError("%s is of step %s, which is not in its name" % (path, shown(fields.get("step"))))
    return Manifest(step, int(size_bytes), sha256)


def shown(value: object) -> str:
    """A value found in a file or a folder, made printable: on one line, not too long, without escapes."""
    text = str(value) if isinstance(value, (int, str)) else json.dumps(value)
    return "".join(c if c.isprintable() else "?" for c in text[:LONGEST_SHOWN])
