"""What comes next for an attempt, between what it is and what is wanted: one table, one function a row."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from weft.core.errors import WeftError
from weft.node import fencing, records
from weft.node.attempt import Attempt, State, Wanted
from weft.node.children import in_thread
from weft.node.halting import Halt, halt
from weft.node.launching import free_port
from weft.node.pages import step_of_leaving
from weft.node.pausing import Pause, PauseRefusedError
from weft.node.task import Task, attach
from weft.node.tended import OVER, Sight, Tended
from weft.runtime.failing import reach
from weft.runtime.layout import LEFT_EXIT_CODE, Depth

LOOK_S = (0.002, 0.1)  # while it is launched, for nobody tells us that a command has begun
RETRY_S = 1.0  # after an error that may pass, such as a full disk
MERCY_S = 5.0  # for a shepherd to tell the end of a task that was killed

Sights = Sequence[Sight]

log = logging.getLogger(__name__)


async def live(attempt: Attempt) -> None:
    """Until nothing of it lives."""
    while not attempt.is_over:
        attempt.news.clear()
        try:
            await (attempt.be_fenced() if attempt.is_fenced else act(attempt))
        except OSError as error:
            log.warning("job %s: %s; trying again", attempt.record.job, error)
            attempt.wake_in(RETRY_S)
        except WeftError as error:
            attempt.give_up(error)
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
        await _stop(attempt, 0.0 if Sight.LOST in sights else attempt.ground.graces.stop_grace_s)
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
    """On devices that nobody computes on, and not beside an earlier attempt."""
    ground, order, record = attempt.ground, attempt.order, attempt.record
    if ground.has_older(*record.key) or ground.is_blocked(order.devices):
        return
    if not ground.holding.take(record.key, order.devices):
        return
    port = free_port() if record.tasks > 1 else 0
    ground.home.checkpoints(record.job).mkdir(parents=True, exist_ok=True, mode=0o700)
    for task in attempt.tasks:
        if task.page_path.exists():  # of an attempt of the same name, before somebody removed the home folder
            await in_thread(fencing.end_tree, task.tree())
            task.forget()
    attempt.record = replace(record, devices=order.devices, generation=order.generation, master_port=port)
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
        await _stop(attempt, 0.0)
    else:
        await see_launch(attempt, sights)


async def go_on_running(attempt: Attempt, sights: Sights) -> None:
    """It runs, and should. A pause that was asked for and has not come about is taken back."""
    task = attempt.attached()
    if task.wanted != Depth.RUN:
        task.resume()
    if not attempt.is_answered:
        attempt.note(replace(attempt.record, generation=attempt.order.generation))
        attempt.answered = (attempt.order.generation, Wanted.RUN)
        if attempt.pause:
            attempt.say("resumed", attempt.order.generation, devices=list(attempt.record.devices))
        attempt.pause = None


async def begin_pause(attempt: Attempt, sights: Sights) -> None:
    order, ground = attempt.order, attempt.ground
    wanted = Halt(
        pages=attempt.pages,
        shepherds=attempt.shepherds,
        devices=tuple(ground.some(attempt.record.devices)),
        needs_bytes=order.needs_bytes,
        held_by_paused_bytes=ground.held_by_paused(set(attempt.record.devices), order.comers),
        grace_s=ground.graces.pause_grace_s,
    )
    attempt.state = State.PAUSING
    attempt.note(replace(attempt.record, generation=order.generation))
    reach("coordinator-pausing")
    attempt.halting = in_thread(halt, wanted, ground.kind, lambda: attempt.order.wanted is not Wanted.STOP)
    attempt.halting.add_done_callback(lambda _: attempt.wake())


async def see_pause(attempt: Attempt, sights: Sights) -> None:
    """Once the pause has come about, the devices are free for others."""
    if attempt.halting is None or not attempt.halting.done():
        return
    halting, attempt.halting = attempt.halting, None
    try:
        attempt.pause, attempt.held_bytes = halting.result()
    except (PauseRefusedError, OSError) as error:  # it has just ended, or is to be stopped
        log.info("job %s is not paused: %s", attempt.record.job, error)
        attempt.pause = None
    if attempt.pause and attempt.pause.how in ("boundary", "stopped"):
        attempt.state = State.PAUSED
        reach("coordinator-paused")
        attempt.ground.holding.let_go(attempt.record.key)
        attempt.wake()
    elif attempt.pause is None or attempt.pause.how == "ended":
        attempt.state = State.RUNNING
        attempt.wake_in(LOOK_S[1])
    # Otherwise it has left, and its shepherds will tell.


async def give_up_pause(attempt: Attempt, sights: Sights) -> None:
    """It is to be stopped; then nobody waits for a boundary any more."""
    if attempt.halting is None:
        await begin_stop(attempt, sights)
    elif attempt.halting.done():
        await see_pause(attempt, sights)
    else:
        attempt.attached().resume()  # whoever pauses it notices that somebody else wants something else


async def say_paused(attempt: Attempt, sights: Sights) -> None:
    attempt.ground.holding.let_go(attempt.record.key)  # taken for a launch or a resume that failed
    if attempt.is_answered:
        return
    pause = attempt.pause or _by_page(attempt.attached())
    # One that was about to leave stands all the same, with its caches dropped and no more; the page of one that was
    # stopped says nothing.
    said = Depth.NAMES.index(pause.depth)
    kept = Depth.DROP_CACHES if said > Depth.SWAP_OUT else max(Depth.GATE, said)
    attempt.answered = (attempt.order.generation, Wanted.PAUSE)
    attempt.say(
        "paused",
        attempt.order.generation,
        how=pause.how,
        depth=Depth.NAMES[kept],
        step=pause.step,
        waited_s=pause.waited_s,
        reason=pause.reason,
        held_bytes=attempt.held_bytes,
    )


def _by_page(task: Task) -> Pause:
    """A pause that an earlier coordinator brought about."""
    status = task.status()
    return Pause("stopped" if task.is_stopped else "boundary", status.depth, status.step, 0.0, status.reason)


async def say_not_started(attempt: Attempt, sights: Sights) -> None:
    """Its devices were wanted for others before they were free for it."""
    attempt.pause = Pause("boundary", Depth.NAMES[Depth.GATE], 0, 0.0, "it had not been started")
    await say_paused(attempt, sights)


async def resume(attempt: Attempt, sights: Sights) -> None:
    ground, kind = attempt.ground, attempt.ground.kind
    devices = attempt.order.devices if kind.can_move else attempt.record.devices
    if not ground.holding.take(attempt.record.key, devices):
        return
    moves = devices != attempt.record.devices
    attempt.note(replace(attempt.record, devices=devices, generation=attempt.order.generation))
    reach("coordinator-resuming")
    for task in attempt.tasks if moves else ():
        await in_thread(kind.move, task.pid, ground.some(attempt.record.devices_of(task.rank)))
    await in_thread(_go_on, attempt.pages, attempt.shepherds)
    reach("coordinator-resumed")
    attempt.state, attempt.pause, attempt.held_bytes = State.RUNNING, None, 0
    attempt.answered = (attempt.record.generation, Wanted.RUN)
    attempt.say("resumed", attempt.record.generation, devices=list(devices))
    attempt.wake()


def _go_on(pages: Sequence[Path], shepherds: frozenset[int]) -> None:
    with attach(*pages) as task:
        task.shepherds = shepherds
        task.resume()


async def begin_stop(attempt: Attempt, sights: Sights) -> None:
    await _stop(attempt, attempt.ground.graces.stop_grace_s)


async def _stop(attempt: Attempt, grace_s: float) -> None:
    """Ask all its processes to end; one that pauses goes on, to be able to. Later they are killed."""
    attempt.state, attempt.kill_at_s = State.STOPPING, attempt.now_s + grace_s
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
