"""Ending an attempt: it is asked first, and killed if it does not end within its grace."""

from __future__ import annotations

import signal
from contextlib import suppress

from weft.core.errors import WeftError
from weft.node import fencing
from weft.node.attempt import Attempt
from weft.node.children import in_thread
from weft.node.order import State
from weft.node.tended import Sights
from weft.runtime.failpoints import reach

MERCY_S = 5.0  # for a shepherd to tell the end of a task that was killed


async def begin_stop(attempt: Attempt, sights: Sights) -> None:
    await stop(attempt, attempt.ground.graces.stop_grace_s)


async def stop(attempt: Attempt, grace_s: float) -> None:
    """Ask all its processes to end; one that pauses goes on, to be able to. Later they are killed."""
    attempt.state, attempt.kill_at_s = State.STOPPING, attempt.now_s + grace_s
    with suppress(WeftError):
        attempt.ground.guard.release(attempt)
    for task in attempt.tasks:
        task.bar()  # what has not begun never will
    reach("coordinator-stopping")
    if grace_s:
        mine = await in_thread(fencing.members, attempt.tree(with_shepherds=False))
        fencing.send(mine, signal.SIGTERM)
        with suppress(WeftError):
            attempt.attached().resume()
        fencing.send(mine, signal.SIGCONT)
    attempt.wake()


async def see_stop(attempt: Attempt, sights: Sights) -> None:
    """Kill them when their time is over, and a bit later a shepherd that does not tell of it."""
    kill_at_s = (attempt.kill_at_s or 0.0) + attempt.kills * MERCY_S
    if attempt.now_s < kill_at_s:
        attempt.wake_in(kill_at_s - attempt.now_s)
        return
    if attempt.killing is not None and not attempt.killing.done():
        return  # somebody cannot be killed
    attempt.kills += 1
    attempt.killing = in_thread(fencing.end_tree, attempt.tree(with_shepherds=attempt.kills > 1))
    attempt.killing.add_done_callback(lambda _: attempt.wake())


async def end_unstarted(attempt: Attempt, sights: Sights) -> None:
    attempt.end_unstarted()
