"""Learns of a call without a place on its stack.

A wrapper's frame stands between the script and what it calls: warnings name the wrapper's file, and so do tracebacks
and the callers that logging and inspect find. But a method is looked up before it is called, and a descriptor that is
asked for it may take note, hand out the method itself, and be gone by then.
"""

import opcode
import sys
from typing import Any, Callable

BY_NAME = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")


class Looked:
    """In place of a class's function: calls `note(instance)` when an instance's method is looked up."""

    def __init__(self, function: Callable[..., Any], note: Callable[[Any], None]) -> None:
        self._function: Any = function
        self._note = note

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._function
        self._note(instance)
        return self._function.__get__(instance, owner)


def note_lookups(owner: Any, name: str, note: Callable[[Any], None]) -> None:
    setattr(owner, name, Looked(owner.__dict__[name], note))


def is_by_name() -> bool:
    """Is the method written out where it is looked up, as for a call? Not so if hasattr asks for it. For a `note`."""
    frame = sys._getframe(3)  # above us: the note, the descriptor, the script
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] in BY_NAME
