"""What an attempt does next, from its state and what is wanted of it: one table, one function per row."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.attempt import records
from weft.node.attempt.attempt import Attempt
from weft.node.attempt.ending import begin_stop, end_unstarted, see_stop, stop
from weft.node.attempt.order import AttemptState, Wanted
from weft.node.attempt.pause_to_depth import begin_pause, give_up_pause, say_not_started, say_paused, see_pause
from weft.node.attempt.resume import continue_running, resume
from weft.node.fence import cgroups, process_tree
from weft.node.fence.process_tree import Tree
from weft.node.handles.children import in_thread
from weft.node.handles.shepherd_handle import OVER, ShepherdHandle, ShepherdState, ShepherdStates
from weft.node.handles.spawn import free_port
from weft.node.sharing import node_lanes
from weft.node.task.control_page import step_of_leaving
from weft.runtime.failpoints import reach
from weft.runtime.page.layout import LEFT_EXIT_CODE
from weft.system import descriptors
from weft.system.files import is_passing

LOOK_S = (0.002, 0.1)  # while it is launched, for the start of a command is not reported
MOST_FAILURES = 5  # in a row, by errors that do not pass by themselves
RETRY_S = 1.0  # after an error that may pass, such as a full disk

log = logging.getLogger(__name__)


Action = Callable[[Attempt, ShepherdStates], Awaitable[None]]


async def run_attempt(attempt: Attempt) -> None:
    """Until nothing of it lives."""
    while not attempt.is_over:
        attempt.news.clear()
        try:
            await (attempt.be_fenced() if attempt.is_fenced else take_step(attempt))
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


async def take_step(attempt: Attempt) -> None:
    """Observe the attempt, and take its next step."""
    shepherd_states = [task.look() for task in attempt.tasks]
    if action := next_action(attempt.state, attempt.order.wanted, _observed(attempt, shepherd_states)):
        await action(attempt, shepherd_states)


@value
class Observed:
    """What is seen of an attempt, besides its state."""

    is_over: bool = False
    """It was launched, and none of its tasks runs, nor ever will again."""
    is_given_up: bool = False
    is_broken: bool = False
    """A rank of its gang has failed, or is lost: the others would wait for it for ever."""


def _observed(attempt: Attempt, shepherd_states: ShepherdStates) -> Observed:
    seen = Observed(
        is_over=attempt.state is not AttemptState.WAITING and all(state in OVER for state in shepherd_states),
        is_given_up=bool(attempt.why_given_up),
    )
    is_settled = seen.is_over or seen.is_given_up or attempt.state is AttemptState.STOPPING
    return seen if is_settled else replace(seen, is_broken=_is_broken(attempt, shepherd_states))


def _is_broken(attempt: Attempt, shepherd_states: ShepherdStates) -> bool:
    failed = any(task.status and task.status.exit_code and not _has_left(task) for task in attempt.tasks)
    return failed or ShepherdState.LOST in shepherd_states or ShepherdState.BARRED in shepherd_states


def _has_left(task: ShepherdHandle) -> bool:
    """It has saved and ended, as it was asked to; the other ranks are about to."""
    is_so_by_code = task.status is not None and task.status.exit_code == LEFT_EXIT_CODE
    return is_so_by_code and step_of_leaving(task.page_path) is not None


async def end(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    await attempt.end()


async def lose(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    await attempt.be_lost()


async def stop_broken(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """At once where a task is lost: it cannot be asked to end."""
    await stop(attempt, 0.0 if ShepherdState.LOST in shepherd_states else attempt.context.graces.stop_grace_s)


async def launch(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """On devices where all others may stay beside it, and not beside an earlier attempt."""
    context, order, record = attempt.context, attempt.order, attempt.record
    if descriptors.are_scarce():  # those that run need what is left
        raise OSError(errno.EMFILE, "too many files are open to start another job (ulimit -n)")
    if context.node_attempts.has_older(*record.key) or context.is_blocked(order.devices):
        return
    if not context.node_attempts.take(attempt, order.devices):
        return
    port = free_port() if record.tasks > 1 else 0
    context.home.checkpoints(record.job).mkdir(parents=True, exist_ok=True, mode=0o700)
    for cgroup in context.fences.of_job(record.job):  # of attempts whose records were removed
        await in_thread(process_tree.end_tree, Tree(cgroups=frozenset({cgroup})))
        cgroups.remove(cgroup)
    for task in attempt.tasks:
        if os.path.lexists(task.page_path):  # of an attempt of the same name, before the home folder was removed
            await in_thread(process_tree.end_tree, task.tree())
            task.forget()
    attempt.record = replace(node_lanes.record_in_seat(record, order, order.devices, context.kind), master_port=port)
    records.write_record(context.home, attempt.record)
    reach("coordinator-record-written")
    attempt.state, attempt.look_s = AttemptState.LAUNCHING, LOOK_S[0]
    attempt.wake()


async def help_launch(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """Start the shepherds that are missing, until every command runs."""
    context, record = attempt.context, attempt.record
    for task, shepherd_state in zip(attempt.tasks, shepherd_states, strict=True):
        if shepherd_state is ShepherdState.ABSENT and task.can_spawn:
            task.launch(context.home, record, context.kind, context.some(record.devices_of(task.rank)))
        elif shepherd_state is ShepherdState.ABSENT and task.give_up():
            attempt.wake()
    await see_launch(attempt, shepherd_states)


async def see_launch(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    if all(task.is_started for task in attempt.tasks):
        attempt.state = AttemptState.RUNNING
        attempt.answered = (attempt.record.generation, Wanted.RUN)
        attempt.say_started()
        attempt.wake()
    else:
        attempt.wake_in(attempt.look_s)
        attempt.look_s = min(max(LOOK_S[0], 1.5 * attempt.look_s), LOOK_S[1])


async def stop_launch(attempt: Attempt, shepherd_states: ShepherdStates) -> None:
    """What has not begun never will; what has begun is stopped as soon as it runs, or killed if it does not."""
    for task, shepherd_state in zip(attempt.tasks, shepherd_states, strict=True):
        if shepherd_state is ShepherdState.ABSENT and task.bar():
            attempt.wake()
    if attempt.kill_at_s is None:
        attempt.kill_at_s = attempt.now_s + attempt.context.graces.stop_grace_s
    if attempt.now_s >= attempt.kill_at_s:
        await stop(attempt, 0.0)
    else:
        await see_launch(attempt, shepherd_states)


ACTIONS: dict[tuple[AttemptState, Wanted], Action] = {
    (AttemptState.WAITING, Wanted.RUN): launch,
    (AttemptState.WAITING, Wanted.PAUSE): say_not_started,
    (AttemptState.WAITING, Wanted.STOP): end_unstarted,
    (AttemptState.LAUNCHING, Wanted.NOTHING): see_launch,
    (AttemptState.LAUNCHING, Wanted.RUN): help_launch,
    (AttemptState.LAUNCHING, Wanted.PAUSE): help_launch,
    (AttemptState.LAUNCHING, Wanted.STOP): stop_launch,
    (AttemptState.RUNNING, Wanted.RUN): continue_running,
    (AttemptState.RUNNING, Wanted.PAUSE): begin_pause,
    (AttemptState.RUNNING, Wanted.STOP): begin_stop,
    (AttemptState.PAUSING, Wanted.RUN): see_pause,
    (AttemptState.PAUSING, Wanted.PAUSE): see_pause,
    (AttemptState.PAUSING, Wanted.STOP): give_up_pause,
    (AttemptState.PAUSED, Wanted.RUN): resume,
    (AttemptState.PAUSED, Wanted.PAUSE): say_paused,
    (AttemptState.PAUSED, Wanted.STOP): begin_stop,
    (AttemptState.STOPPING, Wanted.NOTHING): see_stop,
    (AttemptState.STOPPING, Wanted.RUN): see_stop,
    (AttemptState.STOPPING, Wanted.PAUSE): see_stop,
    (AttemptState.STOPPING, Wanted.STOP): see_stop,
}


def next_action(state: AttemptState, wanted: Wanted, observed: Observed) -> Action | None:
    """What to do now; None: nothing before something changes. Pure."""
    if observed.is_over:
        return end
    if observed.is_given_up:
        return lose
    if observed.is_broken and state is not AttemptState.STOPPING:
        return stop_broken
    return ACTIONS.get((state, wanted))
