"""A trace file that is being read: its text, once from front to back, also as the entries of a JSON list."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from weft.core.errors import InputError

BLOCK_CHARACTERS = 1 << 20
LONGEST_HEADER_CHARACTERS = 1 << 16


class TraceFile:
    """One pass over a text, so that a pipe is as good as a file."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self.left_out: Counter[str] = Counter()
        self.ignored_columns: list[str] = []
        """As the file writes them."""
        self.tells_dates: bool | None = None
        """Whether its times are dates or seconds; None until a time was read."""
        self.id_label = "column id"
        self._stream = stream
        self._head = self._lines_to_first_text()

    @property
    def first_line(self) -> str:
        return self._head[-1]

    def lines(self) -> Iterator[str]:
        return chain(self._head, self._stream)

    def blocks(self) -> Iterator[str]:
        return chain(self._head, iter(lambda: self._stream.read(BLOCK_CHARACTERS), ""))

    def _lines_to_first_text(self) -> list[str]:
        head = []
        # A JSON log may be a single line of gigabytes, hence the limit.
        while line := self._stream.readline(LONGEST_HEADER_CHARACTERS):
            head.append(line)
            if line.strip():
                return head
        raise InputError(f"{self.name}: the file is empty", "A trace has a header line and one line a job.")


@contextmanager
def opened(path: Path, name: str) -> Iterator[TraceFile]:
    """The file for reading, by the name that messages are to use.

    Whatever the system says against it becomes an InputError here.
    """
    try:
        with _text_of(path) as stream:
            yield TraceFile(name, stream)
    except FileNotFoundError:
        hint = 'Check the path; the name "sample" stands for the small trace that comes with weft.'
        raise InputError(f"{name}: no such file", hint) from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory, not a trace file", "Name the files in it.") from None
    except UnicodeDecodeError:
        # A pipe cannot be read again to find the line.
        place = f"{name}, line {_first_undecodable_line(path)}" if path.is_file() else name
        raise InputError(f"{place}: not UTF-8 text", "Save the file as UTF-8.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: damaged gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None


def _text_of(path: Path) -> TextIO:
    # The decoder skips a byte order mark; line ends are left to the csv module, which knows them all.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _first_undecodable_line(path: Path) -> int:
    """The decoder works by the block and cannot say which line it was."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        lines = enumerate(stream, 1)
        return next(number for number, line in lines if line.decode(errors="ignore").encode() != line)


# ---- The entries of a JSON list, one after the other, without holding the whole list.


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
