"""What the native library measures of a job's device memory, over all its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from weft.core.value import value

MOST_COUNTED = 2**53


@value
class Memory:
    """All 0 until something is measured, and for good where there is no library."""

    persistent_bytes: int = 0
    """What outlived the last step: the model, the optimizer's state."""
    ephemeral_bytes: int = 0
    """The most that a step had besides."""
    overflow_bytes: int = 0
    """Of these, what did not fit and is in the next tier."""
    peak_bytes: int = 0
    """The most that was on the devices at once, in any attempt."""

    @property
    def needs_bytes(self) -> int | None:
        return self.persistent_bytes + self.ephemeral_bytes or None

    @property
    def on_device_bytes(self) -> int:
        """While it runs."""
        return max(0, self.persistent_bytes + self.ephemeral_bytes - self.overflow_bytes)

    def after(self, progress: Mapping[str, Any]) -> Memory:
        """As it is once a node has said this. An attempt of which nothing is measured yet changes nothing."""
        told = memory_of(progress)
        if not told.peak_bytes:
            return self
        peak_bytes = max(self.peak_bytes, told.peak_bytes)
        return Memory(told.persistent_bytes, told.ephemeral_bytes, told.overflow_bytes, peak_bytes)

    def plain(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in NAMES}


NOT_MEASURED = Memory()
NAMES = tuple(field.name for field in fields(Memory))


def memory_of(said: Mapping[str, Any]) -> Memory:
    """From what a node says, or from a job's row."""
    sizes = [sane(said.get(name)) for name in NAMES]
    return Memory(*sizes) if any(sizes) else NOT_MEASURED


def memory_json(memory: Memory, request: Mapping[str, Any]) -> dict[str, int | None]:
    """For everybody outside; null is what is not known."""
    measured = {name: size if memory.peak_bytes else None for name, size in memory.plain().items()}
    return {**measured, "limit_bytes": declared_bytes(request)}


def declared_bytes(request: Mapping[str, Any]) -> int | None:
    """The device memory that all tasks of a job together may use, if it said so."""
    each_bytes = request.get("gpu_mem_bytes")
    return each_bytes * request["ntasks"] if each_bytes else None


def sane(count: Any) -> int:
    """A count from a page, which a job may have written over."""
    return min(int(count or 0), MOST_COUNTED)
