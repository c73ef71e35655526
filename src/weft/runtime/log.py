"""What weft has to say to whoever runs the script: lines on stderr."""

import sys
from contextlib import suppress
from typing import Set

_told: Set[str] = set()


def tell(text: str) -> None:
    """A stderr that is closed, or none at all, is no reason for a script to fail."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print("weft: %s" % text, file=sys.stderr)


def tell_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        tell(text)
