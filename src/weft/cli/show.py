"""Results on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from weft.core.text import count_of
from weft.sim.api import Results
from weft.sim.results.text_table import render_table


def show(results: Results, *, to_stderr: bool) -> None:
    console = Console(stderr=to_stderr)
    first = results[0]
    jobs, devices = count_of(len(first.jobs.ids), "job"), count_of(first.device_count, "device")
    world = first.parameters["world.name"]
    console.print(
        Text(f"{first.trace}: {jobs} on {first.cluster} ({devices}), world {world}, seed {first.seed}"), end="\n\n"
    )
    render_table(results.runs, console)
