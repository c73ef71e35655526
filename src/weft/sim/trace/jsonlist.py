"""The entries of a JSON list, one after the other, without holding the whole list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weft.core.errors import InputError
from weft.sim.trace.file import TraceFile


def entries(file: TraceFile) -> Iterator[tuple[int, Any]]:
    """Each entry with the line it starts on."""
    text = _Text(file)
    text.skip("[")
    if text.next_character() == "]":
        return
    yield text.line, text.entry()
    while text.next_character() == ",":
        text.skip(",")
        text.next_character()
        yield text.line, text.entry()
    if text.next_character() != "]":
        raise InputError(f'{file.name}, line {text.line}: expected "," or the "]" that ends the JSON list')


class _Text:
    """The text not yet used. An entry cut off by the end of a block is tried again with the next one."""

    def __init__(self, file: TraceFile) -> None:
        self.line = 1
        self._file = file
        self._blocks = file.blocks()
        self._text = ""
        self._at = 0
        self._decoder = json.JSONDecoder()

    def next_character(self) -> str:
        """The next that is not blank, or nothing at the end."""
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and not rest.isspace():
                return rest
            if rest:
                self._advance(self._at + 1)
            elif not self._more():
                return ""

    def skip(self, character: str) -> None:
        self.next_character()
        self._advance(self._at + len(character))

    def entry(self) -> Any:
        self.next_character()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    place = f"{self._file.name}, line {self.line}"
                    raise InputError(f"{place}: the entry that starts here is not JSON ({error.msg})") from None
            else:
                self._advance(end)
                return value

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self) -> bool:
        block = next(self._blocks, "")
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)
