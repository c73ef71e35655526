"""Which process speaks for a task: the first that steps. Further ones that step get pages beside its page."""

import os
import sys
from contextlib import suppress
from typing import Any, Optional

from . import layout
from .page import Page, PageError, claimed_beside, create, open_page, start_time

MOST_RANKS = 1024
TOLD = (layout.DUTY, layout.LIMIT, layout.LANE_BASE, layout.LANE_WEIGHT)
OF_THE_JOB = range(layout.CLAIM_PID, layout.PAGE_BYTES // 8)


def claim(path: str) -> Page:
    """The page at `path`, or the first one beside it that nobody holds, claimed for this process and wiped."""
    page = _claim_one(path)
    for word in OF_THE_JOB:
        page.words[word] = 0
    page.words[layout.CLAIM_START] = start_time(os.getpid())
    page.words[layout.CLAIM_PID] = os.getpid()
    return page


def _claim_one(path: str) -> Page:
    first = open_page(path)
    if first.claim():
        return first
    for number in range(1, MOST_RANKS):
        page = _open_or_make(claimed_beside(path, number), first)
        if page.claim():
            # Whoever asked the task to pause asked this rank too; and what bounds the task bounds it.
            for word in (*TOLD, layout.RUN_TO, layout.REQUEST):
                page.words[word] = first.words[word]
            first.close()
            return page
        page.close()
    raise PageError("%s has %d claimed pages beside it" % (path, MOST_RANKS - 1))


def _open_or_make(path: str, first: Page) -> Page:
    if not os.path.exists(path):
        with suppress(FileExistsError):
            return create(path, {word: first.words[word] for word in range(layout.ATTEMPT, layout.CLAIM_PID)})
    return open_page(path)


def is_loader_worker() -> bool:
    """A DataLoader's worker may run a model, but its steps are not the job's."""
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


def process_group() -> Optional[Any]:
    """torch.distributed, if this process is a rank of a gang."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None
