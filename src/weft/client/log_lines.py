"""The lines that a task of a job printed, and those to come."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from weft.client.transport import ENDED, Job
from weft.system.tail import PollingPace, Tail

STATUS_EVERY_S = 0.2


def log_lines(
    status: Callable[[], Job], log: Callable[[Job], Path], tail: int | None, *, follow: bool
) -> Iterator[str]:
    """Lines of the job's file `log`: the last `tail` of what is there; `follow`: until its `status` is final."""
    job, looked_s = status(), time.monotonic()
    followed, pace = Tail(log(job), tail), PollingPace()
    decoder, line = codecs.getincrementaldecoder("utf-8")("replace"), ""
    try:
        while True:
            is_complete = not follow or job["state"] in ENDED  # asked first, read then: nothing comes later
            data = followed.read()
            *whole, line = (line + decoder.decode(data, final=not data and is_complete)).split("\n")
            yield from (f"{each}\n" for each in whole)
            if not data and is_complete:
                break
            pace.seen(bool(data))
            if not data:
                time.sleep(pace.wait_s)
            if not is_complete and time.monotonic() > looked_s + STATUS_EVERY_S:
                job, looked_s = status(), time.monotonic()
    finally:
        followed.close()
    if line:
        yield line
