"""What an id on the command line names: one job, or an array as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from weft.cli.shown import in_states, local_time, printable, show_json
from weft.client import ArrayError, Client

Answer = dict[str, Any]


def show_each(
    job_ids: tuple[str, ...],
    ask: Callable[[Client, str], Answer],
    lines: Callable[[Answer], Iterator[str]],
    is_json: bool,
) -> None:
    """One after the other, an array as a summary. As JSON, one object for one id, a list for several."""
    client = Client()
    if is_json:
        answers = [_asked(client, job_id, ask) for job_id in job_ids]
        show_json(answers[0] if len(answers) == 1 else answers)
        return
    for at, job_id in enumerate(job_ids):
        if at:
            click.echo()
        answer = _asked(client, job_id, ask)
        for line in array_lines(answer) if "elements" in answer else lines(answer):
            click.echo(line)


def _asked(client: Client, job_id: str, ask: Callable[[Client, str], Answer]) -> Answer:
    try:
        return ask(client, job_id)
    except ArrayError:
        return client.array(job_id)


def array_lines(array: Answer) -> Iterator[str]:
    """How many elements are in which state, and of those that do not run or have failed, why."""
    import shlex

    yield f"array {array['id']} ({printable(array['name'])}): {array['elements']:,} elements of {array['array']}"
    yield f"{in_states(array['states'])}"
    for group in array["groups"]:
        code = f"exit code {group['exit_code']}" if group["exit_code"] else ""
        why = printable(group["reason"]) or code
        if why and group["state"] != "SUCCEEDED":
            example = f" ({group['first']}{', …' if group['jobs'] > 1 else ''})" if group["first"] else ""
            yield f"  {group['jobs']:>5,} {group['state'].lower()}: {why}{example}"
    yield f"command: {printable(shlex.join(array['command']))}"
    times = {"submitted": array["submitted_at"], "started": array["started_at"], "finished": array["finished_at"]}
    yield ", ".join(f"{name} {local_time(at)}" for name, at in times.items() if at)
