"""Sizes of memory as people write them."""

from __future__ import annotations

import re

from weft.core.errors import InputError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LARGEST_BYTES = 1 << 60
WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT]?)|([KMGT])iB|B)", re.IGNORECASE | re.ASCII)
LOWEST_LIMIT_BYTES = 64 << 20
LOWEST_DEVICE_LIMIT_BYTES = 1 << 20


def parsed_limit(
    text: str, lowest_bytes: int = LOWEST_LIMIT_BYTES, or_else: str = "no Python interpreter could start"
) -> int:
    """A limit of memory that something can live with."""
    limit_bytes = parsed_bytes(text)
    if limit_bytes < lowest_bytes:
        lowest = lowest_bytes >> 20
        is_number = text.isdigit() and int(text) >= lowest
        hint = f"at least {lowest}M; did you mean {text}M?" if is_number else f"at least {lowest}M"
        raise InputError(f"with a limit of {text} {or_else}", hint)
    return limit_bytes


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
