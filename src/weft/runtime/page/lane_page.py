"""A lane's page, word by word, for processes outside the lane. Its C twin is native/weft_lane.h; a test compares them.

Only the members of a lane write it. Bases, weights and the capacity may also be changed from outside.
"""

import os
import stat
import struct
from typing import Tuple

LANE_BYTES = 8192
LANE_MAGIC = 0x454E414C54464557  # "WEFTLANE" in the file
LANE_VERSION = 1
LANE_MEMBERS = 62

MAGIC = 0
VERSION = 1
SIZE = 2
PID_NAMESPACE = 3
OWNER = 4  # uid
CAPACITY = 5  # bytes the lane may grow to
RESERVED = 6  # bytes that are really there
TURN = 7  # generation << 8 | the member that has the turn, or NO_MEMBER
STOPPED_GRACE = 8  # nanoseconds after which a holder that is stopped is killed
HANDOVERS = 9
BEREAVED = 10  # turns taken from members that had died
MEMBERS = 16  # 62 times:
MEMBER_WORDS = 16
NO_MEMBER = 0xFF


class Member:
    """The words of one member."""

    PID = 0  # 0 = a free slot
    START = 1  # as in /proc/PID/stat
    MEMORY = 2
    BASE = 3  # with its sign
    WEIGHT = 4  # with its sign
    USED = 5  # nanoseconds of its turns
    TURNS = 6
    NEEDS = 7  # bytes of the lane that its recent steps used; none while it pauses
    WAITS_SINCE = 8  # monotonic nanoseconds, 0 = it does not wait
    BELL = 9
    PERSISTENT = 10  # bytes
    AWAY = 11  # it waits, but others may pass it
    ORDERED = 12  # with its sign; the base as it was ordered, before what had been used by then was taken off it


def number_of(device: int, lane: int) -> int:
    """A lane of a device as the word LANE of a control page holds it; 0 for none."""
    return (device + 1) << 32 | lane if lane else 0


def path_of(folder: str, number: int) -> str:
    """Where its page is, among those of the jobs on this machine."""
    return "%s/lane-%d-%d" % (folder, (number >> 32) - 1, number & 0xFFFF_FFFF)


class LaneError(Exception):
    """This file cannot serve as a lane's page; the message says why."""


def check(path: str) -> None:
    """Raise LaneError unless there is a lane's page here that we may join, or nothing at all."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LaneError("%s cannot be opened as a lane: %s" % (path, error.strerror)) from error
    try:
        _check(path, os.fstat(fd), fd)
    finally:
        os.close(fd)


def open_file(path: str) -> int:
    """Whatever is at `path`, this neither waits nor follows a link."""
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def read(path: str, fd: int) -> Tuple[int, ...]:
    """All words of a lane's page at one instant, or LaneError. Members can have written anything there."""
    _check(path, os.fstat(fd), fd)
    content = os.pread(fd, LANE_BYTES, 0)
    if len(content) < LANE_BYTES:
        raise LaneError("%s is a damaged lane: %d bytes long" % (path, len(content)))
    return struct.unpack("=%dQ" % (LANE_BYTES // 8), content)


def _check(path: str, status: os.stat_result, fd: int) -> None:
    head = os.pread(fd, 24, 0) if stat.S_ISREG(status.st_mode) else b""
    magic, version, size = struct.unpack("=QQQ", head) if len(head) == 24 else (0, 0, 0)
    if magic != LANE_MAGIC:
        raise LaneError("%s is not a lane of weft" % path)
    if version != LANE_VERSION:
        raise LaneError("%s is a lane of version %d; this weft knows %d" % (path, version, LANE_VERSION))
    if size != LANE_BYTES or status.st_size < LANE_BYTES:
        raise LaneError("%s is a damaged lane: %d bytes long" % (path, status.st_size))
    if status.st_uid != os.getuid():
        raise LaneError("%s is a lane of another user: members of a lane can read each other's tensors" % path)
