"""What is loaded into a task: weft's runtime by PYTHONPATH, the native library by LD_PRELOAD, and their settings."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import weft.runtime
from weft.core.value import value
from weft.runtime import allocator
from weft.system.files import is_in_memory
from weft.system.home import Home

LIBRARY_VARIABLES = ("WEFT_TIER", "WEFT_STRICT", "WEFT_LANE", "WEFT_LANES", "WEFT_LANE_CAPACITY")
"""What the library is told; left over from a task around us, it would be another's."""

log = logging.getLogger(__name__)

INJECT = str(Path(weft.runtime.__file__).parent / "inject")


@value
class Service:
    """Without a library, nothing; without a folder for the next tier, what does not fit fails, and nothing swaps."""

    library: str = ""
    tier: str = ""

    @property
    def is_there(self) -> bool:
        return bool(self.library)

    def environment(self, base: Mapping[str, str], *, is_strict: bool) -> dict[str, str]:
        if not self.is_there:
            return {}
        said = {"LD_PRELOAD": preloaded(self.library, base.get("LD_PRELOAD", "")), "WEFT_TIER": self.tier}
        return said | ({"WEFT_STRICT": "1"} if is_strict else {})


NOT_SERVED = Service()


def service_at(home: Home) -> Service:
    """As it is on this machine."""
    library = allocator.library_path()
    if library is None:
        return NOT_SERVED
    if why := allocator.why_not_usable(library):
        log.warning("jobs run without the native library: %s", why)
        return NOT_SERVED
    return Service(library, _tier(home))


def _tier(home: Home) -> str:
    """A folder on a disk of this machine. In memory nothing would be gained, and over a network a step might stall."""
    if is_in_memory(home.root) or home.on_network:
        return ""
    try:
        home.tier.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        log.warning("no memory can overflow to %s: %s", home.tier, error)
        return ""
    return str(home.tier)


def preloaded(library: str, before: str) -> str:
    """What to load first: our library, then what was to be loaded before, but for an earlier copy of ours."""
    return ":".join([library, *others_preloaded(before)])


def others_preloaded(before: str) -> list[str]:
    return [entry for entry in re.split("[ :]+", before) if entry and Path(entry).name != "libweft.so"]


def environment(base: Mapping[str, str], page: Path, checkpoints: Path | None) -> dict[str, str]:
    """The environment in which every Python interpreter of the command finds the runtime, and the runtime its page."""
    chosen = dict(base)
    _forget_outer(chosen)
    chosen["WEFT_PAGE"] = str(page.absolute())
    if checkpoints:
        chosen["WEFT_CHECKPOINTS"] = str(checkpoints.absolute())
    # An entry left empty means the current directory, so none is added and those that are there stay.
    before = base.get("PYTHONPATH")
    entries = [entry for entry in before.split(":") if entry != INJECT] if before else []
    chosen["PYTHONPATH"] = ":".join([INJECT, *entries])
    return chosen


def _forget_outer(env: dict[str, str]) -> None:
    """What a weft exec around us said to its command; whether the library is under this one is said elsewhere."""
    for name in ("WEFT_CHECKPOINTS", *LIBRARY_VARIABLES):
        env.pop(name, None)
    if allocator.FILE in env.get("LD_PRELOAD", ""):
        others = others_preloaded(env.pop("LD_PRELOAD"))
        env |= {"LD_PRELOAD": ":".join(others)} if others else {}
