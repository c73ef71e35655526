"""The lanes of this node's devices: which tasks are in them, whose turn comes when, and what is left of them.

Only who is alone on one device can be in a lane: a rank of a gang would wait for its turn while the others wait for it.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.node.devices import Device
from weft.node.processes import is_alive
from weft.node.seat import Seat
from weft.runtime import lanes, layout
from weft.runtime.lanes import Member

if TYPE_CHECKING:
    from weft.node.kinds import Kind
    from weft.node.order import Order
    from weft.node.records import Record

UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF
A_LANE = re.compile(r"lane-[0-9]+-[0-9]+")


def can_join(record: Record, devices: Sequence[int], kind: Kind) -> bool:
    return kind.has_lanes and record.tasks == 1 and len(devices) == 1


def seated(record: Record, order: Order, devices: Sequence[int], kind: Kind) -> Record:
    """On these devices, in the seat and the lane of its order; in no lane if it cannot be in one."""
    lane = order.seat.lane if can_join(record, devices, kind) else 0
    return replace(record, devices=tuple(devices), generation=order.generation, seat=order.seat, lane=lane)


def number_of(record: Record) -> int:
    """Its lane, as the control page says it."""
    return lanes.number_of(record.devices[0], record.lane) if record.lane else 0


def page_of(run: Path, record: Record) -> Path | None:
    return Path(lanes.path_of(str(run), number_of(record))) if record.lane else None


def environment(run: Path, record: Record, kind: Kind, devices: Sequence[Device]) -> dict[str, str]:
    """What a task is told that is in a lane, or may come to be in one. How much a lane may grow to is what a device
    has; it grows to what is needed."""
    if not can_join(record, record.devices, kind):
        return {}
    return {"WEFT_LANES": str(run), "WEFT_LANE_CAPACITY": str(sum(device.memory_bytes for device in devices))}


def words(record: Record) -> dict[int, int]:
    """What stands on its control page about its lane, and its place among those who wait for a turn there."""
    base, weight = record.seat.base & UNSIGNED, record.seat.weight & UNSIGNED
    return {layout.LANE: number_of(record), layout.LANE_BASE: base, layout.LANE_WEIGHT: weight}


def set_order(path: Path, pids: Collection[int], seat: Seat) -> None:
    """The same for members that have joined: they took from the control page what stood there then.

    An order is about what is used from then on: what remains of a job that comes back to its lane is less by now.
    """
    with suppress(OSError, ValueError), _opened(path) as (numbers, signed):
        for at in _members(numbers):
            if numbers[at + Member.PID] in pids:
                if signed[at + Member.ORDERED] != seat.base:
                    signed[at + Member.ORDERED] = seat.base
                    signed[at + Member.BASE] = seat.base - seat.weight * numbers[at + Member.USED] // 1000
                signed[at + Member.WEIGHT] = seat.weight


def remove_unused(run: Path, used: Collection[Path]) -> None:
    """The pages of lanes that no attempt is in, and no process: a last member that is killed leaves its page behind."""
    for path in run.glob("lane-*"):
        if A_LANE.fullmatch(path.name) and path not in used and not _has_living(path):
            path.unlink(missing_ok=True)


def _has_living(path: Path) -> bool:
    try:
        with _opened(path) as (numbers, _):
            return any(
                is_alive(numbers[at + Member.PID], numbers[at + Member.START])
                for at in _members(numbers)
                if numbers[at + Member.PID]
            )
    except (OSError, ValueError):  # gone, or no lane
        return False


def _members(numbers: memoryview) -> Iterator[int]:
    """Where the words of each member begin."""
    for slot in range(lanes.LANE_MEMBERS if numbers[lanes.MAGIC] == lanes.LANE_MAGIC else 0):
        yield lanes.MEMBERS + slot * lanes.MEMBER_WORDS


@contextmanager
def _opened(path: Path) -> Iterator[tuple[memoryview, memoryview]]:
    """The lane's page as words, without and with their sign. To open it takes no claim that closing it would drop."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        mapped = mmap.mmap(fd, lanes.LANE_BYTES, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(fd)
    with mapped, memoryview(mapped) as whole, whole.cast("Q") as numbers, whole.cast("q") as signed:
        yield numbers, signed
