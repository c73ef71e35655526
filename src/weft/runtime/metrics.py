"""The figures a script reports, as they stand on its page: up to eight names, each with its last value."""

import struct
from typing import Dict

from . import layout
from .page import Page


class Metrics:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._slots: Dict[str, int] = {}

    def set(self, name: str, value: float) -> None:
        """Names that come when there is no room are left out."""
        slot = self._slots.get(name, len(self._slots))
        if slot == layout.METRICS_LENGTH:
            return
        if name not in self._slots:
            self._slots[name] = slot
            self._page.write_text(_word(slot), name, layout.METRIC_NAME_BYTES)
        struct.pack_into("d", self._page.map, _word(slot) * 8 + layout.METRIC_NAME_BYTES, value)
        self._page.words[layout.METRICS_COUNT] = len(self._slots)


def _word(slot: int) -> int:
    return layout.METRICS + slot * layout.METRIC_WORDS
