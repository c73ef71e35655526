"""The devices as the node reports them, how the core counts them, and which jobs compute on them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from weft.core.commands import Allocation, Seating
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.sharing import holders
from weft.core.values import Node

Device = Mapping[str, Any]


class Inventory:
    """One machine. The core's nodes have devices of one type each, so a machine with two types is two of them."""

    def __init__(self, machine: str = "", devices: Sequence[Device] = (), cpus: int | None = None) -> None:
        self.machine = machine
        self.devices = list(devices)
        self.cpus = cpus
        """How many CPU cores jobs may use; None if the node has not said so."""

    @cached_property
    def by_node(self) -> dict[str, list[Device]]:
        """The devices of each of the core's nodes, in the order of its bits."""
        types = list(dict.fromkeys(device["type"] for device in self.devices))
        names = {kind: self.machine if len(types) == 1 else f"{self.machine}/{kind}" for kind in types}
        return {name: [device for device in self.devices if device["type"] == kind] for kind, name in names.items()}

    @property
    def nodes(self) -> list[Node]:
        host = self.machine if len(self.by_node) > 1 else ""
        return [
            Node(
                name, len(devices), devices[0]["type"], _smallest_bytes(devices), self.cpus, host, _unusual_ids(devices)
            )
            for name, devices in self.by_node.items()
        ]

    def describe(self, ledger: Ledger) -> None:
        """Complete the ledger's nodes, of which a log of an older version does not say everything."""
        known = {node.name: node for node in self.nodes}
        for at, node in enumerate(ledger.nodes):
            told = known.get(node.name)
            if ledger.is_present[at] and told is not None and told.device_count == node.device_count and told != node:
                ledger.nodes[at] = told
                ledger.version += 1

    def blocked_masks(self) -> dict[str, int]:
        """The devices that other programs use, for each of the core's nodes."""
        return {
            name: sum(1 << bit for bit, device in enumerate(devices) if device.get("blocked_by"))
            for name, devices in self.by_node.items()
        }

    def is_same_hardware(self, other: Inventory) -> bool:
        return (self.machine, _shape(self.devices)) == (other.machine, _shape(other.devices))

    def held(self, ledger: Ledger, allocation: Allocation) -> list[Device]:
        """The devices of an allocation."""
        found = []
        for node, mask in allocation:
            devices = self.by_node.get(ledger.nodes[node].name, [])
            found += [device for bit, device in enumerate(devices) if mask >> bit & 1]
        return found

    def name(self, device: Device) -> str:
        return f"{self.machine}:{device['index']}"

    def types_of(self, ids: Collection[int]) -> list[str]:
        """The types of these devices, each once."""
        return list(dict.fromkeys(device["type"] for device in self.devices if device["index"] in ids))

    def largest_memory_bytes(self) -> int:
        return max((device["memory_bytes"] for device in self.devices), default=0)

    def plain(self) -> dict[str, Any]:
        return {"machine": self.machine, "devices": self.devices, "cpus": self.cpus}


def inventory_of(plain: str | None) -> Inventory:
    """From the log, perhaps one of an earlier version."""
    fields: dict[str, Any] = json.loads(plain) if plain else {"machine": "", "devices": []}
    return Inventory(fields["machine"], fields["devices"], fields.get("cpus"))


def _unusual_ids(devices: Sequence[Device]) -> tuple[int, ...]:
    """The indices of its devices, if not 0, 1, …"""
    ids = tuple(device["index"] for device in devices)
    return () if ids == tuple(range(len(ids))) else ids


def _smallest_bytes(devices: Sequence[Device]) -> int | None:
    """The memory of the smallest; None if it is unknown for one."""
    return min(device.get("memory_bytes") or 0 for device in devices) or None


def _shape(devices: Sequence[Device]) -> list[tuple[Any, ...]]:
    return [tuple(device.get(key) for key in ("index", "kind", "type", "memory_bytes")) for device in devices]


def place_of(job: Job) -> Seating:
    """Where a job computes, as a guest or on devices of its own."""
    return job.seating or Seating(job.allocation, job.lane)


def computing(ledger: Ledger) -> Iterator[Job]:
    yield from ledger.running.values()
    yield from ledger.seats.seated.values()


def neighbours_by_job(ledger: Ledger) -> dict[str, list[str]]:
    """Of each job that shares devices, the other jobs there: the holder first, then its guests."""
    held = holders(ledger) if ledger.seats.guests else {}
    found: dict[str, dict[str, None]] = {}
    for device, guests in ledger.seats.guests.items():
        together = [held[device], *guests] if device in held else guests
        for job in together:
            found.setdefault(job.id, {}).update((other.id, None) for other in together if other is not job)
    return {job_id: list(others) for job_id, others in found.items() if others}


def common(one: Allocation, other: Allocation) -> int:
    """The number of devices in both."""
    return sum((mask & theirs).bit_count() for node, mask in one for at, theirs in other if node == at)
