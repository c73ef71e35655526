"""Messages to the user of the script: lines on stderr."""

import sys
from contextlib import suppress
from typing import Set

_shown: Set[str] = set()


def warn(text: str) -> None:
    """A script does not fail because its stderr is closed or missing."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print("weft: %s" % text, file=sys.stderr)


def warn_once(text: str) -> None:
    if text not in _shown:
        _shown.add(text)
        warn(text)
