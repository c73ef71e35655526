"""JSON lines between daemon and coordinator. A line that is too long or no message is skipped; the next one is read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from weft.core.errors import WeftError

Message = dict[str, Any]

HEAD_BYTES = 512


class LineError(WeftError):
    """This line is no message. `head` is how it begins."""

    def __init__(self, message: str, head: bytes = b"") -> None:
        super().__init__(message)
        self.head = head


def encoded(message: Message, limit_bytes: int) -> bytes:
    """The line to send; LineError if it cannot be one."""
    try:
        line = json.dumps(message).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise LineError(f"it cannot be written as JSON: {error}") from error
    if len(line) > limit_bytes:
        raise LineError(f"it has {len(line):,} bytes, and {limit_bytes:,} is the most that is sent at once")
    return line


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message, None at the end; LineError for a line that is none. After that the next line can be read."""
    line = await _line(reader)
    if not line:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"it is no JSON: {error}"[:200], line[:HEAD_BYTES]) from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise LineError("it is no object with a type", line[:HEAD_BYTES])
    return message


async def _line(reader: asyncio.StreamReader) -> bytes:
    """A line within the limit of the reader. A longer one is read to its end and dropped."""
    head, dropped = b"", 0
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:  # cut off at the end: whatever it was, there is no more of it
            line = b"" if dropped or not error.partial else error.partial
        except asyncio.LimitOverrunError as error:
            piece = await reader.readexactly(error.consumed)
            head, dropped = head or piece[:HEAD_BYTES], dropped + len(piece)
            continue
        if dropped and line:
            raise LineError(f"it has {dropped + len(line):,} bytes, which is too long", head)
        return line
