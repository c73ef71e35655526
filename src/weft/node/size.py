"""Limits of memory as people write them."""

from __future__ import annotations

from weft.core.errors import InputError
from weft.sizes import parsed_bytes

__all__ = ["LOWEST_DEVICE_LIMIT_BYTES", "LOWEST_LIMIT_BYTES", "parsed_bytes", "parsed_limit"]

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
