"""File descriptors of the daemon and the coordinator: as many as the system allows, with some kept in reserve.

Jobs get the soft limit that weft was started with: programs that use select() need one of 1,024 or less.
"""

from __future__ import annotations

import logging
import os
import resource

from weft.node.shepherd.command import SOFT_LIMIT

MOST = 1 << 16
"""Some systems allow a billion: weft needs no more than these."""
RESERVED = 64
"""For what must go on when all others are in use: the log, the link, the ends of jobs."""

log = logging.getLogger(__name__)


def raise_limit() -> None:
    """Raise the soft limit as far as it goes. The coordinator and its shepherds inherit what it was before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.environ.setdefault(SOFT_LIMIT, str(soft))
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of %d open files cannot be raised to %d: %s", soft, wanted, error)


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else soft


def are_scarce() -> bool:
    """Whether only the reserve is left. The kernel gives the lowest number that is free, so one number tells."""
    try:
        fd = os.dup(0)
    except OSError:
        return True
    os.close(fd)
    return fd >= limit() - min(RESERVED, limit() // 4)
