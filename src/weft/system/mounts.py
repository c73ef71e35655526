"""Which file system a path is on."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
UNKNOWN = "an unknown file system"
IN_MEMORY = ("tmpfs", "ramfs")


def is_in_memory(path: Path) -> bool:
    return file_system(path) in IN_MEMORY


def file_system(path: Path) -> str:
    """Its type: ext4, tmpfs, nfs4. Links on the way are followed, and what does not exist yet is where it would be."""
    try:
        mountinfo = os.fsdecode(MOUNTINFO.read_bytes())
    except OSError:
        return UNKNOWN
    return file_system_in(mountinfo, path.resolve())


def file_system_in(mountinfo: str, path: Path) -> str:
    """The type of the deepest mount that holds an absolute path; of two at one point, the later hides the earlier."""
    deepest, found = -1, UNKNOWN
    for line in mountinfo.split("\n"):
        mount, dash, system = line.partition(" - ")
        if not dash:
            continue
        point = Path(_unescaped(mount.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), system.split(" ")[0]
    return found


def mounts_of(mountinfo: str, system: str) -> list[tuple[str, Path]]:
    """The mount points of file systems of this type, each with the part mounted there: the root, or a folder in it."""
    lines = [line.partition(" - ") for line in mountinfo.split("\n")]
    fields = [mount.split(" ") for mount, _, rest in lines if rest.split(" ")[0] == system]
    return [(_unescaped(each[3]), Path(_unescaped(each[4]))) for each in fields]


def _unescaped(text: str) -> str:
    """Mount points as they are: the kernel writes blanks and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
