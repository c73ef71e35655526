"""The second line of defence: what goes wrong with one attempt ends neither the coordinator nor another attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.core.errors import WeftError
from weft.node.snapshot import DamagedPageError

if TYPE_CHECKING:
    from weft.node.attempt import Attempt

log = logging.getLogger(__name__)


@contextmanager
def contained(consequence: str, attempt: Attempt | None = None) -> Iterator[None]:
    """Go on after an error in here. An attempt whose page is damaged, or with which we fail, is given up.

    A neighbour's damaged page is the neighbour's fault, and an error that weft can name may pass.
    """
    whose = f"job {attempt.record.job}: " if attempt else ""
    try:
        yield
    except DamagedPageError as error:
        if attempt is not None and attempt.has_page(error.path):
            attempt.give_up(error)
    except (WeftError, OSError) as error:
        log.warning("%s%s: %s", whose, consequence, error)
    except Exception as error:
        log.exception("%s%s", whose, consequence)
        if attempt is not None:
            attempt.give_up(WeftError(f"weft failed on it: {error!r}"))
