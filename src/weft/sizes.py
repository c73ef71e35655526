"""Sizes of memory as people write them: 268435456, 256M, 1.5G."""

from __future__ import annotations

import re

from weft.core.errors import InputError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LARGEST_BYTES = 1 << 60
WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT]?)|([KMGT])iB|B)", re.IGNORECASE | re.ASCII)


def parsed_bytes(text: str) -> int:
    """The bytes of 268435456, 256M, 256 MiB or 1.5g; units count by 1024."""
    match = WRITTEN.fullmatch(text.strip())
    if not match:
        raise InputError(f'"{text}" is not a size', "a number and K, M, G or T, which count by 1024: 512M, 1.5G")
    number, *units = match.groups()
    size = float(number) * UNITS["".join(unit or "" for unit in units).upper()]
    if size > LARGEST_BYTES:
        raise InputError(f'the size "{text}" is more than any machine has', "a number and K, M, G or T: 512M, 1.5G")
    return int(size)
