"""The free devices of the present nodes, and the guests of each device. Only the ledger writes here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from weft.core.commands import Allocation
from weft.core.plan import Placement
from weft.core.sharing import Device, devices_of
from weft.core.values import Node

if TYPE_CHECKING:
    from weft.core.job import Job


class Devices:
    """By node, in parallel lists: quick to copy for a planner. A node that has left keeps its index."""

    __slots__ = ("blocked_masks", "device_count", "device_types", "free_counts", "free_masks", "is_present", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.is_present: list[bool] = []
        self.free_masks: list[int] = []
        self.free_counts: list[int] = []
        self.blocked_masks: list[int] = []
        """Devices in use outside weft for now."""
        self.device_count = 0
        self.device_types: tuple[str, ...] = ()

    def index_of(self, name: str) -> int | None:
        """The index of the present node of this name."""
        for at, node in enumerate(self.nodes):
            if node.name == name and self.is_present[at]:
                return at
        return None

    def kind_of(self, allocation: Allocation) -> tuple[str, int]:
        """The device type, and over how many nodes it is spread."""
        return self.nodes[allocation[0][0]].device_type, len(allocation)

    # ---- nodes

    def join(self, node: Node, is_here: bool = True, blocked_mask: int = 0) -> None:
        free_mask = ((1 << node.device_count) - 1) & ~blocked_mask if is_here else 0
        self.nodes.append(node)
        self.is_present.append(is_here)
        self.free_masks.append(free_mask)
        self.blocked_masks.append(blocked_mask)
        self.free_counts.append(free_mask.bit_count())
        self._count()

    def lose(self, at: int) -> None:
        self.is_present[at] = False
        self.free_masks[at] = self.free_counts[at] = self.blocked_masks[at] = 0
        self._count()

    def blockable(self, at: int, mask: int) -> int:
        """The devices of a mask that no job holds."""
        return (self.free_masks[at] | self.blocked_masks[at]) & mask

    def block(self, at: int, mask: int) -> None:
        """Block exactly these devices, which no job holds."""
        self.free_masks[at] = (self.free_masks[at] | self.blocked_masks[at]) & ~mask
        self.free_counts[at] = self.free_masks[at].bit_count()
        self.blocked_masks[at] = mask

    def _count(self) -> None:
        present = [node for node, here in zip(self.nodes, self.is_present, strict=True) if here]
        self.device_count = sum(node.device_count for node in present)
        self.device_types = tuple(dict.fromkeys(node.device_type for node in present))

    # ---- devices

    def pick(self, placement: Placement, last: Allocation) -> Allocation:
        """Take that many on each node: the job's last devices if they are free, otherwise the lowest free ones."""
        if len(placement) == 1:
            node, count = placement[0]
            return ((node, self._pick_of(node, count, last)),)
        return tuple([(node, self._pick_of(node, count, last)) for node, count in placement])

    def _pick_of(self, node: int, count: int, last: Allocation) -> int:
        """Prefer the last devices: the job may still be in their memory."""
        free = rest = self.free_masks[node]
        had = dict(last).get(node, 0) if last else 0
        if had and had & free == had and had.bit_count() == count:
            rest ^= had
        else:
            for _ in range(count):
                rest &= rest - 1  # clears the lowest free device
        self.free_masks[node] = rest
        self.free_counts[node] -= count
        return free ^ rest

    def pick_ids(self, placement: Placement, device_ids: frozenset[int]) -> Allocation:
        """Take the devices of these ids; that they are free has been checked."""
        allocation = tuple((node, self.nodes[node].mask_of(device_ids)) for node, _ in placement)
        self.take(allocation)
        return allocation

    def lacking(self, allocation: Allocation) -> Node | None:
        """The first node on which some of these devices are not free."""
        return next((self.nodes[node] for node, mask in allocation if self.free_masks[node] & mask != mask), None)

    def take(self, allocation: Allocation) -> None:
        for node, mask in allocation:
            self.free_masks[node] &= ~mask
            self.free_counts[node] = self.free_masks[node].bit_count()

    def give(self, allocation: Allocation) -> None:
        for node, mask in allocation:
            self.free_masks[node] |= mask
            self.free_counts[node] += mask.bit_count()

    def validate(self, allocations: Iterable[Allocation]) -> None:
        """No device is held twice, and each is held, free or blocked."""
        free = [free | blocked for free, blocked in zip(self.free_masks, self.blocked_masks, strict=True)]
        for allocation in allocations:
            for node, mask in allocation:
                assert free[node] & mask == 0, f"{allocation} has a device of {self.nodes[node].name} that another has"
                free[node] |= mask
        for at, there in enumerate(self.nodes):
            full = (1 << there.device_count) - 1 if self.is_present[at] else 0
            assert free[at] == full, f"devices of {there.name} are lost: {free[at]:b}"
            assert self.free_counts[at] == self.free_masks[at].bit_count()


class Seats:
    """Which guest sits on which devices."""

    def __init__(self) -> None:
        self.seated: dict[str, Job] = {}
        self.guests: dict[Device, list[Job]] = {}
        """The guests of each device in the order they were seated, without its holder."""

    def take(self, job: Job) -> None:
        """Seat a job where its seating says."""
        self.seated[job.id] = job
        for device in devices_of(job.seating.allocation if job.seating else ()):
            self.guests.setdefault(device, []).append(job)

    def leave(self, job: Job) -> None:
        for device in devices_of(job.seating.allocation if job.seating else ()):
            self.guests[device].remove(job)
            if not self.guests[device]:
                del self.guests[device]
        del self.seated[job.id]

    def on(self, node: int, mask: int) -> list[Job]:
        """The guests on these devices of a node, each once."""
        found = {
            guest.id: guest
            for (at, device), guests in self.guests.items()
            for guest in guests
            if at == node and mask >> device & 1
        }
        return list(found.values())

    def validate(self, jobs: dict[str, Job]) -> None:
        assert self.seated == {job.id: job for job in jobs.values() if job.seating}
        sitting = [
            (device, job.id)
            for job in self.seated.values()
            for device in devices_of(job.seating.allocation if job.seating else ())
        ]
        assert sorted((device, job.id) for device, guests in self.guests.items() for job in guests) == sorted(sitting)
        assert all(job.is_waiting for job in self.seated.values()), f"some of {self.seated} sit but do not wait"
