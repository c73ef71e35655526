"""A checkpoint's manifest: the small file that says which payload is the checkpoint of a step, and its checksum.

{"weft_checkpoint": 1, "step": 120, "bytes": 201400, "sha256": "3f9a1c20d4e5…", "written_at": "2026-05-09T07:35:25Z"}
"""

import json
import os
import re
import time
from typing import NamedTuple

VERSION = 1
MANIFEST = re.compile(r"step-(\d{12,})\.json")
PAYLOAD = re.compile(r"step-(\d{12,})-[0-9a-f]{12}\.pt")
TEMPORARY = re.compile(r"step-(\d{12,})-[0-9a-f]{16}\.tmp")
SHA256 = re.compile(r"[0-9a-f]{64}")


class BadCheckpointError(Exception):
    """This checkpoint is not good; the message names the file and the reason."""


class MissingManifestError(BadCheckpointError):
    """There is no manifest."""


class UnknownCheckpointError(BadCheckpointError):
    """It may be good, but who knows: it is of another version, or unreadable just now. Never removed."""


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
    """A new one each time: should an older process of the job still be writing, the two do not meet in one file."""
    return "step-%012d-%s.tmp" % (step, os.urandom(8).hex())


def read_manifest(folder: str, step: int) -> Manifest:
    """The manifest of this step, checked; its payload is not looked at. Raises BadCheckpointError."""
    path = os.path.join(folder, manifest_name(step))
    try:
        with open(path, "rb") as file:
            fields = json.loads(file.read())
    except FileNotFoundError:
        raise MissingManifestError("there is no %s" % path) from None
    except OSError as error:
        raise UnknownCheckpointError("%s cannot be read: %s" % (path, error.strerror)) from error
    except (ValueError, RecursionError):
        raise BadCheckpointError("%s is damaged: it is not JSON" % path) from None
    if not isinstance(fields, dict) or "weft_checkpoint" not in fields:
        raise BadCheckpointError("%s is no manifest of weft's" % path)
    if fields["weft_checkpoint"] != VERSION:
        raise UnknownCheckpointError(
            "%s is of version %s; this weft knows %d" % (path, fields["weft_checkpoint"], VERSION)
        )
    size_bytes, sha256 = fields.get("bytes"), fields.get("sha256")
    if not isinstance(size_bytes, int) or not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise BadCheckpointError("%s is damaged: it lacks the size or the checksum of its payload" % path)
    if fields.get("step") != step:
        raise BadCheckpointError("%s is of step %s, which is not in its name" % (path, fields.get("step")))
    return Manifest(step, size_bytes, sha256)
