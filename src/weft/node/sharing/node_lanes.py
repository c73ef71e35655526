"""The lanes of this node's devices: which tasks are in them, whose turn comes when, and what is left of them.

Only a job of one task on one device can be in a lane: a rank of a gang would wait for its turn while the others wait
for it.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.node.attempt.order import AttemptSeat
from weft.node.devices.device import Device
from weft.node.task.page_snapshot import MOST_PID
from weft.runtime.page import lane_page, layout
from weft.runtime.page.lane_page import Member
from weft.system.files import discard
from weft.system.processes import is_alive

if TYPE_CHECKING:
    from weft.node.attempt.order import AttemptOrder
    from weft.node.attempt.records import AttemptRecord
    from weft.node.devices.device import DeviceKind

UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF
ENDLESS = (1 << 63) - 1
SIGNED = struct.Struct("=q")
A_LANE = re.compile(r"lane-[0-9]+-[0-9]+")


def can_join(record: AttemptRecord, devices: Sequence[int], kind: DeviceKind) -> bool:
    return kind.has_lanes and record.tasks == 1 and len(devices) == 1


def record_in_seat(
    record: AttemptRecord, order: AttemptOrder, devices: Sequence[int], kind: DeviceKind
) -> AttemptRecord:
    """On these devices, in the seat and the lane of its order; in no lane if it cannot be in one."""
    lane = order.seat.lane if can_join(record, devices, kind) else 0
    return replace(record, devices=tuple(devices), generation=order.generation, seat=order.seat, lane=lane)


def number_of(record: AttemptRecord) -> int:
    """Its lane, as the control page says it."""
    return lane_page.number_of(record.devices[0], record.lane) if record.lane else 0


def page_of(run: Path, record: AttemptRecord) -> Path | None:
    return Path(lane_page.path_of(str(run), number_of(record))) if record.lane else None


def environment(run: Path, record: AttemptRecord, kind: DeviceKind, devices: Sequence[Device]) -> dict[str, str]:
    """What a task is told that is in a lane, or may come to be in one. How much a lane may grow to is what a device
    has; it grows to what is needed."""
    if not can_join(record, record.devices, kind):
        return {}
    return {"WEFT_LANES": str(run), "WEFT_LANE_CAPACITY": str(sum(device.memory_bytes for device in devices))}


def words(record: AttemptRecord) -> dict[int, int]:
    """What stands on its control page about its lane, and its place in the queue for turns there."""
    base, weight = record.seat.base & UNSIGNED, record.seat.weight & UNSIGNED
    return {layout.LANE: number_of(record), layout.LANE_BASE: base, layout.LANE_WEIGHT: weight}


def set_order(path: Path, pids: Collection[int], seat: AttemptSeat) -> None:
    """The same for members that have joined: they took from the control page what stood there then.

    An order is about what is used from then on: what remains of a job that comes back to its lane is less by now.
    """
    with suppress(OSError, lane_page.LaneError), _opened(path) as fd:
        words = lane_page.read(str(path), fd)
        for at in _members(words):
            if words[at + Member.PID] in pids:
                if words[at + Member.ORDERED] != seat.base & UNSIGNED:
                    used = min(words[at + Member.USED], ENDLESS)
                    base = max(-ENDLESS, min(ENDLESS, seat.base - seat.weight * used // 1000))
                    _write(fd, at + Member.ORDERED, seat.base)
                    _write(fd, at + Member.BASE, base)
                _write(fd, at + Member.WEIGHT, seat.weight)


def _write(fd: int, word: int, number: int) -> None:
    os.pwrite(fd, SIGNED.pack(number), word * SIGNED.size)


def remove_unused(run: Path, used: Collection[Path]) -> None:
    """The pages of lanes that no attempt is in, and no process: a last member that is killed leaves its page behind."""
    for path in run.glob("lane-*"):
        if A_LANE.fullmatch(path.name) and path not in used and not _has_living(path):
            with suppress(OSError):
                discard(path)


def _has_living(path: Path) -> bool:
    try:
        with _opened(path) as fd:
            words = lane_page.read(str(path), fd)
            return any(is_alive(words[at + Member.PID], words[at + Member.START]) for at in _members(words))
    except (OSError, lane_page.LaneError):  # gone, or no lane
        return False


def _members(words: Sequence[int]) -> Iterator[int]:
    """Where the words of each member begin."""
    for slot in range(lane_page.LANE_MEMBERS):
        at = lane_page.MEMBERS + slot * lane_page.MEMBER_WORDS
        if 0 < words[at + Member.PID] <= MOST_PID:
            yield at


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The lane's page, to be read and written through its descriptor: its members may truncate it at any time."""
    fd = lane_page.open_file(str(path))
    try:
        yield fd
    finally:
        os.close(fd)
