"""Results on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from weft.cli.told import Told
from weft.sim.results import Results
from weft.sim.table import render_table


def show(results: Results, told: Told, *, to_stderr: bool) -> None:
    console = Console(stderr=to_stderr)
    first = results[0]
    console.print(
        Text(
            f"{told.trace_name}: {told.job_count:,} jobs on {first.cluster} ({first.device_count:,} devices), "
            f"world {first.parameters['world.name']}, seed {first.seed}"
        ),
        end="\n\n",
    )
    render_table(results.runs, console)
