"""`weft exec`: a command with the runtime inside, and no daemon."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.job_options import COMMAND, TRUST
from weft.core.errors import InputError

if TYPE_CHECKING:
    from weft.node.exec.command_limits import CommandLimits


@click.command(
    "exec",
    short_help="Run a command whose steps are seen and which can be paused.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Make the control page here and leave it there at the end. It must be in memory, as /dev/shm is.  "
    "[default: a file in /dev/shm, removed at the end]",
)
@click.option(
    "--limit",
    metavar="SIZE",
    help="Device memory the command may use: bytes, or with K, M, G or T, which count by 1024, as in 1.5G. On the cpu "
    "device, the only one so far, it bounds what PyTorch allocates in each process of the command, and nothing else "
    "that these have. What is over it goes to a file on disk (--overflow), or fails (--strict). Where weft has no "
    "native library, it bounds all private memory (RLIMIT_DATA) of each process instead, and what is over it fails.",
)
@click.option(
    "--overflow",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder on disk for what is over the limit, and for a pause at depth swap-out. The file has no name and is "
    "gone with its process.  [default: $TMPDIR, /var/tmp or /tmp, the first that is on disk]",
)
@click.option(
    "--strict",
    "is_strict",
    is_flag=True,
    help="Let an allocation over the limit fail, as PyTorch says when there is no memory; nothing overflows.",
)
@click.option(
    "--duty",
    metavar="PERCENT",
    type=click.IntRange(1, 100),
    default=100,
    help="The share of time, 1 to 100, in which the command's steps compute; for the rest it idles.  [default: 100]",
)
@click.option(
    "--lane",
    metavar="NAME",
    help="Share the memory that lasts no longer than a step with all commands in this lane, which then take turns, a "
    "step each. A plain name, or the lane's file, which must be in memory as /dev/shm is. Made if it is not there, "
    "gone with its last member. Only commands of one user share a lane; a gang cannot be in one.",
)
@click.option(
    "--lane-capacity",
    metavar="SIZE",
    help="How large the lane may grow; set by the command that creates it.  [default: half of the machine's memory]",
)
@click.option(
    "--lane-base",
    metavar="N",
    type=int,
    default=0,
    help="The next turn is of the command with the smallest BASE + WEIGHT * microseconds used; among equal ones, the "
    "one that waits longest. So with weight 0, the lower base goes first.  [default: 0]",
)
@click.option(
    "--lane-weight",
    metavar="N",
    type=int,
    default=0,
    help="See --lane-base. With base 0 and weight 1 for all, each gets the same time; one with weight 2 gets half of "
    "that.  [default: 0: the turns go round]",
)
@click.option(
    "--checkpoints",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the checkpoints of the command are; made if it is not there. Started again with the same folder, the "
    "command goes on from the last one.",
)
@click.option("--trust-checkpoint", "is_trusting", is_flag=True, help=TRUST)
@COMMAND
def exec_command(
    page: Path | None, checkpoints: Path | None, is_trusting: bool, command: tuple[str, ...], **bounding: Any
) -> int:
    """Run a command with weft's runtime in every Python interpreter it starts, and no daemon.

    The script needs no change: its training steps are found through PyTorch, and it can be paused between two of them.
    The exit code is the command's, or 128 + N if signal N ended it. 75 means that it was asked to leave, and did so
    after a checkpoint.

    \b
    Examples:
      weft exec -- python train.py --lr 0.1
      weft exec --page /dev/shm/mine.page --limit 8G -- python train.py
      weft exec --checkpoints runs/a -- torchrun --nproc-per-node 2 train.py
      weft exec --lane a -- python one.py & weft exec --lane a -- python other.py
    """
    if not command:
        raise InputError("no command is given", "e.g. weft exec -- python train.py")
    from weft.client.job_request import with_trust
    from weft.node.devices.preload import environment
    from weft.node.exec.command_limits import make_writable
    from weft.node.exec.runner import CommandError, run, signals_held
    from weft.node.task.control_page import new_task_page, step_of_leaving
    from weft.runtime.page.layout import LEFT_EXIT_CODE

    bounds = _bounds(**bounding)
    if checkpoints:
        make_writable(checkpoints, f"checkpoints cannot be written to {checkpoints}", "name another --checkpoints DIR")
    try:
        with signals_held() as mask, new_task_page(page) as made:
            path = Path(made.path)
            bounds.write(made)
            env = with_trust(environment(os.environ, path, checkpoints), is_trusting)
            code = run(command, made, env | bounds.environment(env), mask, bounds.process_bytes)
            step = step_of_leaving(path) if code in (0, LEFT_EXIT_CODE) else None
    except CommandError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        _end_as_interrupted()
        raise
    if step is None:
        return code
    click.echo(f"weft: checkpointed at step {step}; run the same command to continue", err=True)
    return LEFT_EXIT_CODE


def _bounds(
    limit: str | None,
    overflow: Path | None,
    is_strict: bool,
    duty: int,
    lane: str | None,
    lane_capacity: str | None,
    lane_base: int,
    lane_weight: int,
) -> CommandLimits:
    """What was asked for, or an error before anything is started."""
    from weft.node.devices.preload import Service
    from weft.node.exec import command_limits

    if is_strict and limit is None:
        raise InputError("there is no --limit to be strict about", "weft exec --limit 2G --strict -- CMD")
    if lane is None and (lane_capacity or lane_base or lane_weight):
        raise InputError("the --lane-... options need a lane", "weft exec --lane NAME -- CMD")
    library, why_not = command_limits.the_library()
    _refuse_without(
        library, why_not, {"--overflow": overflow, "--strict": is_strict, "--duty": duty < 100, "--lane": lane}
    )
    limit_bytes = command_limits.parsed_device_limit(limit, bool(library)) if limit is not None else 0
    tier = command_limits.overflow_folder(overflow) if library else ""
    if limit_bytes and not library:
        _say(f"{why_not}; the limit is that of all private memory of each process, and nothing overflows")
    elif limit_bytes and not tier and not is_strict:
        _say("no folder on disk to overflow to (--overflow DIR); what is over the limit fails")
    return command_limits.CommandLimits(
        Service(library, tier),
        limit_bytes,
        is_strict,
        duty,
        command_limits.lane_at(lane) if lane is not None else None,
        command_limits.lane_capacity(lane_capacity) if lane is not None else 0,
        command_limits.signed_word(lane_base, "--lane-base"),
        command_limits.signed_word(lane_weight, "--lane-weight"),
    )


def _refuse_without(library: str, why_not: str, asked: dict[str, object]) -> None:
    for option, is_asked in asked.items():
        if is_asked and not library:
            raise InputError(f"{option} is not available: {why_not}", "weft doctor lists what does not work without it")


def _say(text: str) -> None:
    click.echo(f"weft: {text}", err=True)


def _end_as_interrupted() -> None:
    """By the signal itself: a shell leaves its loop or script only if what it ran was ended by Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
