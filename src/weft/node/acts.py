"""What comes next for an attempt, between what it is and what is wanted: one table, one function a row."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from weft.core.errors import WeftError
from weft.node import cgroups, fencing, laning, records
from weft.node.attempt import Attempt
from weft.node.children import in_thread
from weft.node.fencing import Tree
from weft.node.going_on import go_on_running, resume
from weft.node.launching import free_port
from weft.node.order import State, Wanted
from weft.node.pages import step_of_leaving
from weft.node.standing import begin_pause, give_up_pause, say_not_started, say_paused, see_pause
from weft.node.stopping import begin_stop, end_unstarted, see_stop, stop
from weft.node.tended import OVER, Sight, Sights, Tended
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import LEFT_EXIT_CODE
from weft.system import descriptors
from weft.system.files import is_passing

LOOK_S = (0.002, 0.1)  # while it is launched, for nobody tells us that a command has begun
MOST_FAILURES = 5  # in a row, by errors that do not pass by themselves
RETRY_S = 1.0  # after an error that may pass, such as a full disk

log = logging.getLogger(__name__)


async def live(attempt: Attempt) -> None:
    """Until nothing of it lives."""
    while not attempt.is_over:
        attempt.news.clear()
        try:
            await (attempt.be_fenced() if attempt.is_fenced else act(attempt))
        except OSError as error:
            log.warning("job %s: %s; trying again", attempt.record.job, error)
            attempt.failures += not is_passing(error)
            if attempt.failures >= MOST_FAILURES:
                attempt.give_up(WeftError(f"something is in its way: {error}"))
            attempt.wake_in(RETRY_S)
        except WeftError as error:
            attempt.give_up(error)
        else:
            attempt.failures = 0
        if not attempt.is_over:
            await attempt.news.wait()


async def act(attempt: Attempt) -> None:
    """Look at how it stands, and do one thing."""
    sights = [task.look() for task in attempt.tasks]
    if attempt.state is not State.WAITING and all(sight in OVER for sight in sights):
        await attempt.end()
    elif attempt.why_given_up:
        await attempt.be_lost()
    elif attempt.state is not State.STOPPING and _is_broken(attempt, sights):
        await stop(attempt, 0.0 if Sight.LOST in sights else attempt.ground.graces.stop_grace_s)
    elif action := ACTIONS.get((attempt.state, attempt.order.wanted)):
        await action(attempt, sights)


def _is_broken(attempt: Attempt, sights: Sights) -> bool:
    """A rank of its gang has failed, or is lost: the others would wait for it for ever."""
    failed = any(task.status and task.status.exit_code and not _has_left(task) for task in attempt.tasks)
    return failed or Sight.LOST in sights or Sight.BARRED in sights


def _has_left(task: Tended) -> bool:
    """It has saved and ended, as it was asked to; the other ranks are about to."""
    is_so_by_code = task.status is not None and task.status.exit_code == LEFT_EXIT_CODE
    return is_so_by_code and step_of_leaving(task.page_path) is not None


async def launch(attempt: Attempt, sights: Sights) -> None:
    """On devices where all others may stay beside it, and not beside an earlier attempt."""
    ground, order, record = attempt.ground, attempt.order, attempt.record
    if descriptors.are_scarce():  # those that run need what is left
        raise OSError(errno.EMFILE, "too many files are open to start another job (ulimit -n)")
    if ground.company.has_older(*record.key) or ground.is_blocked(order.devices):
        return
    if not ground.company.take(attempt, order.devices):
        return
    port = free_port() if record.tasks > 1 else 0
    ground.home.checkpoints(record.job).mkdir(parents=True, exist_ok=True, mode=0o700)
    for cgroup in ground.fences.of_job(record.job):  # of attempts of which somebody removed the records
        await in_thread(fencing.end_tree, Tree(cgroups=frozenset({cgroup})))
        cgroups.remove(cgroup)
    for task in attempt.tasks:
        if os.path.lexists(task.page_path):  # of an attempt of the same name, before somebody removed the home folder
            await in_thread(fencing.end_tree, task.tree())
            task.forget()
    attempt.record = replace(laning.seated(record, order, order.devices, ground.kind), master_port=port)
    records.write_record(ground.home, attempt.record)
    reach("coordinator-record-written")
    attempt.state, attempt.look_s = State.LAUNCHING, LOOK_S[0]
    attempt.wake()


async def help_launch(attempt: Attempt, sights: Sights) -> None:
    """Start the shepherds that are missing, until every command runs."""
    ground, record = attempt.ground, attempt.record
    for task, sight in zip(attempt.tasks, sights, strict=True):
        if sight is Sight.ABSENT and task.can_spawn:
            task.launch(ground.home, record, ground.kind, ground.some(record.devices_of(task.rank)))
        elif sight is Sight.ABSENT and task.give_up():
            attempt.wake()
    await see_launch(attempt, sights)


async def see_launch(attempt: Attempt, sights: Sights) -> None:
    if all(task.is_started for task in attempt.tasks):
        attempt.state = State.RUNNING
        attempt.answered = (attempt.record.generation, Wanted.RUN)
        attempt.say_started()
        attempt.wake()
    else:
        attempt.wake_in(attempt.look_s)
        attempt.look_s = min(max(LOOK_S[0], 1.5 * attempt.look_s), LOOK_S[1])


async def stop_launch(attempt: Attempt, sights: Sights) -> None:
    """What has not begun never will; what has begun is stopped as soon as it runs, or killed if it does not."""
    for task, sight in zip(attempt.tasks, sights, strict=True):
        if sight is Sight.ABSENT and task.bar():
            attempt.wake()
    if attempt.kill_at_s is None:
        attempt.kill_at_s = attempt.now_s + attempt.ground.graces.stop_grace_s
    if attempt.now_s >= attempt.kill_at_s:
        await stop(attempt, 0.0)
    else:
        await see_launch(attempt, sights)


Action = Callable[[Attempt, Sights], Awaitable[None]]

ACTIONS: dict[tuple[State, Wanted], Action] = {
    (State.WAITING, Wanted.RUN): launch,
    (State.WAITING, Wanted.PAUSE): say_not_started,
    (State.WAITING, Wanted.STOP): end_unstarted,
    (State.LAUNCHING, Wanted.NOTHING): see_launch,
    (State.LAUNCHING, Wanted.RUN): help_launch,
    (State.LAUNCHING, Wanted.PAUSE): help_launch,
    (State.LAUNCHING, Wanted.STOP): stop_launch,
    (State.RUNNING, Wanted.RUN): go_on_running,
    (State.RUNNING, Wanted.PAUSE): begin_pause,
    (State.RUNNING, Wanted.STOP): begin_stop,
    (State.PAUSING, Wanted.RUN): see_pause,
    (State.PAUSING, Wanted.PAUSE): see_pause,
    (State.PAUSING, Wanted.STOP): give_up_pause,
    (State.PAUSED, Wanted.RUN): resume,
    (State.PAUSED, Wanted.PAUSE): say_paused,
    (State.PAUSED, Wanted.STOP): begin_stop,
    (State.STOPPING, Wanted.NOTHING): see_stop,
    (State.STOPPING, Wanted.RUN): see_stop,
    (State.STOPPING, Wanted.PAUSE): see_stop,
    (State.STOPPING, Wanted.STOP): see_stop,
}
