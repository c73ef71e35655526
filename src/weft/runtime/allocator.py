"""The native library below this process, if it was preloaded: it does device memory, lanes and duty.

Its C side is native/weft_native.h. A job runs without the library too, as it would bare.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, Optional, Tuple

from .log import warn, warn_once
from .page import lane_page, layout
from .page.page_file import Page, PageError, open_page
from .torch_process import process_group

VERSION = 2
FILE = "libweft.so"
WHY_BYTES = 400
OTHER_VERSION = "the native library %s is of version %d, and this weft knows %d: %s"
WITHOUT = "continuing without it: no limit, no lane, no duty"
AGAIN = "reinstall weft to rebuild it"


class NativeError(Exception):
    """The library refused or failed; the message says why."""


class NativeState(ctypes.Structure):
    """The library's figures on this process's device memory, for users, tests and benchmarks."""

    NAMES = (
        "is_serving", "is_claimed", "is_member", "limit", "device", "peak", "overflow", "persistent", "ephemeral",
        "cached", "resident", "lane_used", "lane_private", "copied_out", "copied_out_bytes", "idle", "allocations",
        "steps",
    )  # fmt: skip
    _fields_ = [(name, c_uint64) for name in NAMES]


SIGNATURES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "begin": (c_int, (c_char_p, c_uint64, c_int, c_char_p, c_size_t)),
    "claim": (c_int, (c_void_p,)),
    "join": (c_int, (c_char_p, c_uint64, c_int64, c_int64, c_char_p, c_size_t)),
    "rest": (c_uint64, ()),
    "let_pass": (None, ()),
    "go": (c_uint64, ()),
    "drop_caches": (c_int, ()),
    "swap_out": (c_int, (c_char_p, c_size_t)),
    "swap_in": (c_int, (c_char_p, c_size_t)),
    "leave_lane": (c_int, ()),
    "leave": (None, ()),
    "look": (None, (POINTER(NativeState),)),
}


def library_path() -> Optional[str]:
    """Where the library is, beside this file; None if weft was installed without it.

    WEFT_NATIVE names another one; left empty, none is used.
    """
    if "WEFT_NATIVE" in os.environ:
        return os.environ["WEFT_NATIVE"] or None
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE)
    return path if os.path.exists(path) else None


def why_not_usable(path: str) -> str:
    """Why this library cannot be used for a job; empty if it can."""
    if " " in path or ":" in path:
        return "%s cannot be preloaded: a blank or a colon in its path would end it" % path
    try:
        version = _version(ctypes.CDLL(path))
    except (OSError, AttributeError) as error:
        return "the native library cannot be loaded: %s" % error
    return "" if version == VERSION else OTHER_VERSION % (path, version, VERSION, AGAIN)


def preloaded() -> "Optional[Native]":
    """The library below this process; None if there is none, or (with a warning) one of another version."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "weft_native_version"):
        return None
    version = _version(process)
    if version != VERSION:
        warn_once(OTHER_VERSION % (FILE, version, VERSION, WITHOUT))
        return None
    return Native(process)


def _version(library: ctypes.CDLL) -> int:
    function = library.weft_native_version
    function.restype, function.argtypes = c_uint64, ()
    return int(function())


class Native:
    """The library's functions. `rest` and `go` are the C functions themselves: they are called at each boundary."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions = {name: _bound(library, name) for name in SIGNATURES}
        self.rest: Callable[[], int] = self._functions["rest"]
        self.let_pass: Callable[[], None] = self._functions["let_pass"]
        self.go: Callable[[], int] = self._functions["go"]
        self.leave: Callable[[], None] = self._functions["leave"]
        self.can_swap = False

    def begin(self, tier: str, limit_bytes: int, is_strict: bool) -> str:
        """Serve PyTorch's allocations from now on. Returns a line for the user if nothing can overflow."""
        why = self._call("begin", os.fsencode(tier), limit_bytes, is_strict)
        self.can_swap = bool(tier) and not why
        return why

    def claim(self, page: Page) -> None:
        """This thread is the one that steps. The page must stay mapped until leave()."""
        self._check(self._functions["claim"](ctypes.addressof(ctypes.c_char.from_buffer(page.map))))

    def join(self, path: str, capacity_bytes: int, base: int, weight: int) -> None:
        self._call("join", os.fsencode(path), capacity_bytes, base, weight)

    def leave_lane(self) -> None:
        self._check(self._functions["leave_lane"]())

    def drop_caches(self) -> None:
        self._check(self._functions["drop_caches"]())

    def swap_out(self) -> None:
        self._call("swap_out")

    def swap_in(self) -> None:
        self._call("swap_in")

    def look(self) -> NativeState:
        state = NativeState()
        self._functions["look"](ctypes.byref(state))
        return state

    def _call(self, name: str, *arguments: object) -> str:
        """Call a function that may return a line of text."""
        why = ctypes.create_string_buffer(WHY_BYTES)
        error = self._functions[name](*arguments, why, WHY_BYTES)
        said = why.value.decode("utf-8", "replace")
        self._check(error, said)
        return said

    @staticmethod
    def _check(error: int, why: str = "") -> None:
        if error:
            raise NativeError(why or os.strerror(error))


def _bound(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, "weft_native_" + name)
    function.restype, function.argtypes = SIGNATURES[name]
    return function


NOT_UNDER_US = "the native library is not under this process (was LD_PRELOAD changed?): it runs without %s"
NOT_SERVING = "the native library cannot serve this process: %s; it runs without %s"
NO_LANE = "no lane: %s; continuing without"
IN_A_GANG = "a rank of a gang would wait for its turn while the others wait for it"


def serve(path: str, claimed: Optional[Page]) -> Optional[Native]:
    """Serve PyTorch's allocations in this process, within the limit on the task's page; None without the library."""
    if claimed is not None:  # steps were seen before torch; to open and close the page again would drop the claim
        return _serve(claimed.words)
    try:
        page = open_page(path)
    except PageError:  # reported when the page is to be claimed
        return None
    try:
        return _serve(page.words)
    finally:
        page.close()


def _serve(words: Any) -> Optional[Native]:
    tier = os.environ.get("WEFT_TIER")
    native = preloaded()
    if native is None:
        if tier is not None and _asked(words):
            warn(NOT_UNDER_US % _asked(words))
        return None
    try:
        why = native.begin(tier or "", words[layout.LIMIT], os.environ.get("WEFT_STRICT") == "1")
    except NativeError as error:
        warn(NOT_SERVING % (error, _asked(words) or "it"))
        return None
    if why:
        warn(why)
    return native


def _asked(words: Any) -> str:
    """What this task is to have that needs the library."""
    asked = {"its limit": words[layout.LIMIT], "its duty": words[layout.DUTY] < 100, "its lane": _lane(words)}
    return ", ".join(what for what, is_asked in asked.items() if is_asked)


def join_lane(native: Native, page: Page) -> bool:
    """Join the lane that the page names, if any; whether it is in a lane now."""
    path = _lane(page.words)
    if not path:
        return False
    group = process_group()
    if group is not None and group.get_world_size() > 1:
        warn(NO_LANE % IN_A_GANG)
        return False
    try:
        capacity_bytes = int(os.environ.get("WEFT_LANE_CAPACITY") or 0)
        native.join(path, capacity_bytes, _signed(page, layout.LANE_BASE), _signed(page, layout.LANE_WEIGHT))
    except (NativeError, ValueError) as error:
        warn(NO_LANE % error)
        return False
    return True


def _lane(words: Any) -> str:
    """The path of the lane's page: by the number on the control page, or a fixed one, as the launcher chose."""
    if words[layout.LANE]:
        return lane_page.path_of(os.environ.get("WEFT_LANES", ""), words[layout.LANE])
    return os.environ.get("WEFT_LANE", "")


def _signed(page: Page, word: int) -> int:
    return int.from_bytes(page.map[word * 8 : word * 8 + 8], "little", signed=True)
