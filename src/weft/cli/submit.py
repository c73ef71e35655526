"""`weft submit`: a job for later, without waiting for it."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.asking import asked, job_options
from weft.cli.ids import complete_awaited
from weft.core.text import count_of


@click.command(
    short_help="Put a command into the queue and return.", context_settings={"allow_interspersed_args": False}
)
@click.option("--array", metavar="1-10%4", help="One job for each index, as $WEFT_ARRAY_INDEX; %4: four at a time.")
@click.option(
    "--after",
    metavar="[KIND:]ID",
    multiple=True,
    shell_complete=complete_awaited,
    help="Start once these jobs have succeeded; afterany:ID once they are over, afternotok:ID once they have failed.",
)
@click.option("--parsable", is_flag=True, help="Print the id alone.")
@job_options
def submit(command: tuple[str, ...], parsable: bool, **said: Any) -> None:
    """Put a command into the queue. It gets this folder, umask and environment, and its output goes to a file.

    Starts weft if it is not running.

    \b
    Examples:
      weft submit -- python train.py
      weft submit --gpus 2 --time 2h --name big -- python train.py --lr 0.1
      weft submit --array 1-10%4 -- sh -c 'python train.py --seed $WEFT_ARRAY_INDEX'
      weft submit --after $(weft submit --parsable -- python prepare.py) -- python train.py
      weft submit --after afternotok:17 -- ./tell-me.sh
      weft submit --begin 22:00 --output 'logs/%x-%j.txt' --env SEED=7 -- python train.py
    """
    from weft.cli.sending import sent

    request = asked(command, **said)
    answer = sent(request)[1]
    if parsable:
        click.echo(answer["id"])
    elif "array" in request:
        first, last = answer["ids"][0], answer["ids"][-1]
        click.echo(f"submitted job {answer['id']}: {count_of(len(answer['ids']), 'element')}, {first} to {last}")
    else:
        click.echo(f"submitted job {answer['id']}")
