"""A trace file that is being read: its text, once from front to back, and what is learnt on the way."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

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
