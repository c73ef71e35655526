"""Instants at which a test may kill or stop a process. Each module names its own in FAIL_POINTS."""

import os

TYPE_CHECKING = False  # typing takes longer to load than a shepherd may take to start
if TYPE_CHECKING:
    from typing import Dict

SIGNALS = {"KILL": 9, "STOP": 19}  # numbers on every machine that runs weft; the module signal is slow to load
_times_reached: "Dict[str, int]" = {}


def reach(name: str) -> None:
    """Die here if WEFT_FAIL_AT says so: by its name the first time, by "name:K" the K-th time.

    WEFT_FAIL_WITH=STOP stops the process instead. With WEFT_FAIL_ONCE=FILE, only the process that removes FILE
    fails: the one that replaces it passes. WEFT_FAIL_EACH=FOLDER does the same for every point that has a
    file of its name there.
    """
    each = os.environ.get("WEFT_FAIL_EACH")
    wanted, _, nth = os.environ.get("WEFT_FAIL_AT", "").partition(":")
    if each and _is_first(os.path.join(each, name)):
        _fail()
    elif wanted == name:
        _times_reached[name] = _times_reached.get(name, 0) + 1
        once = os.environ.get("WEFT_FAIL_ONCE")
        if _times_reached[name] == int(nth or 1) and (not once or _is_first(once)):
            _fail()


def _fail() -> None:
    os.kill(os.getpid(), SIGNALS[os.environ.get("WEFT_FAIL_WITH", "KILL")])


def _is_first(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
