"""Many attackers at once: an array of jobs, each of which does one damage of a table in damage.py."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from box import Box

from waiting import wait_until

DAMAGE = Path(__file__).with_name("damage.py")
DEVICES = "cpu=64"
PATIENT = "silent_s = 120\nstop_grace_s = 1\npause_grace_s = 2\n"
"""Dozens of jobs at once: on a loaded machine the coordinator may be slow to answer."""


class Attackers:
    """`count` jobs, which wait for `go`. They are not started again."""

    def __init__(self, box: Box, kind: str, count: int) -> None:
        self._box, self._count = box, count
        self._shared = box.folder / f"{kind}-{len(list(box.folder.iterdir()))}"
        self._shared.mkdir()
        command = (sys.executable, str(DAMAGE), kind, str(self._shared))
        number = box.submit("--no-requeue", "--array", f"0-{count - 1}", "--", *command).split("_")[0]
        self.job_ids = [f"{number}_{index}" for index in range(count)]
        self._wait_for("ready", range(count))

    def go(self, *, but_not: Iterable[int] = ()) -> None:
        """Do it, all of them."""
        (self._shared / "go").touch()
        self._wait_for("done", set(range(self._count)) - set(but_not))

    def end_of(self, index: int) -> dict[str, Any]:
        return self._box.wait_for(self.job_ids[index])

    def _wait_for(self, what: str, indices: Iterable[int]) -> None:
        for index in indices:
            path = self._shared / f"{what}-{index}"
            wait_until(path.exists, lambda path=path: f"{path.name} is there: {self._box.last_words('coordinator')}")  # type: ignore[misc]


def crowded_box(folder: Path) -> Iterator[Box]:
    """A weft with room for many attackers, and two bystanders that have computed the same bits as alone at the end."""
    with Box(folder, devices=DEVICES, settings=PATIENT).running() as box:
        yield box
