"""This process as the native library serves it: from the import of torch on, for its control page, in its lane."""

import os
from typing import Any, Optional

from . import lanes, layout
from .claiming import process_group
from .native import Native, NativeError, preloaded
from .page import Page, PageError, open_page
from .telling import tell

NOT_UNDER_US = "the native library is not under this process (was LD_PRELOAD changed?): it runs without %s"
NOT_SERVING = "the native library cannot serve this process: %s; it runs without %s"
NO_LANE = "no lane: %s; running on without"
IN_A_GANG = "a rank of a gang would wait for its turn while the others wait for it"


def begin(path: str, claimed: Optional[Page]) -> Optional[Native]:
    """Serve what PyTorch allocates in this process, within the limit on the task's page; None if nobody does."""
    if claimed is not None:  # steps were seen before torch; to open and close the page again would drop the claim
        return _begin(claimed.words)
    try:
        page = open_page(path)
    except PageError:  # which is said when the page is to be claimed
        return None
    try:
        return _begin(page.words)
    finally:
        page.close()


def _begin(words: Any) -> Optional[Native]:
    tier = os.environ.get("WEFT_TIER")
    native = preloaded()
    if native is None:
        if tier is not None and _asked(words):
            tell(NOT_UNDER_US % _asked(words))
        return None
    try:
        why = native.begin(tier or "", words[layout.LIMIT], os.environ.get("WEFT_STRICT") == "1")
    except NativeError as error:
        tell(NOT_SERVING % (error, _asked(words) or "it"))
        return None
    if why:
        tell(why)
    return native


def _asked(words: Any) -> str:
    """What only the library can give, of what this task is to have."""
    asked = {"its limit": words[layout.LIMIT], "its duty": words[layout.DUTY] < 100, "its lane": _lane(words)}
    return ", ".join(what for what, is_asked in asked.items() if is_asked)


def join_lane(native: Native, page: Page) -> bool:
    """The one that its page says; whether it is in a lane now."""
    path = _lane(page.words)
    if not path:
        return False
    group = process_group()
    if group is not None and group.get_world_size() > 1:
        tell(NO_LANE % IN_A_GANG)
        return False
    try:
        capacity_bytes = int(os.environ.get("WEFT_LANE_CAPACITY") or 0)
        native.join(path, capacity_bytes, _signed(page, layout.LANE_BASE), _signed(page, layout.LANE_WEIGHT))
    except (NativeError, ValueError) as error:
        tell(NO_LANE % error)
        return False
    return True


def _lane(words: Any) -> str:
    """The lane's page: one for good, or one of those in a folder, as whoever launched this task has chosen."""
    if words[layout.LANE]:
        return lanes.path_of(os.environ.get("WEFT_LANES", ""), words[layout.LANE])
    return os.environ.get("WEFT_LANE", "")


def _signed(page: Page, word: int) -> int:
    return int.from_bytes(page.map[word * 8 : word * 8 + 8], "little", signed=True)
