"""Optional parts of weft: the packages that `pip install weft` leaves out, and what to install to have them."""

from __future__ import annotations

from importlib.util import find_spec

from weft.core.errors import InputError

HINT = "pip install 'weft[sim]'"


def require_packages(feature: str, *packages: str) -> None:
    """InputError, with the extra to install, if one of the packages that a feature needs is not there."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise InputError(f"{feature} needs {' and '.join(missing)}", HINT)
