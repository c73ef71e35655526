"""`weft calibrate`: this machine as a world to simulate in."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.core.errors import InputError
from weft.system.extras import require_packages

if TYPE_CHECKING:
    from rich.console import Console

    from weft.calibration.measurements import MachineMeasurements


@click.command(short_help="Measure this machine, for a simulation that is like it.")
@click.option(
    "--devices",
    metavar="TEXT",
    default="cpu",
    help="Which devices it has, as in cpu=4: the first is measured, and a migration goes to the second.  "
    "[default: cpu, a device a core]",
)
@click.option("-o", "output", metavar="FILE", type=click.Path(), help="The world file.  [default: standard output]")
@click.option(
    "--quick", is_flag=True, help="Fewer models and shorter measurements, and no migration: less than a minute."
)
def calibrate(devices: str, output: str | None, quick: bool) -> None:
    """Measure this machine with real jobs of PyTorch, and write what was measured as a world file.

    Measured are a pause and a resume, a checkpoint and a new start from it, how fast a few small models run alone and
    beside each other on one device, and how much rates vary. It takes two minutes, and the machine should have nothing
    else to do. No daemon is needed.

    \b
    Examples:
      weft calibrate -o here.toml
      weft simulate sample --cluster 4x4:cpu --world here.toml
    """
    require_packages("weft calibrate", "numpy", "scipy", "rich")
    from rich.console import Console

    from weft.calibration.measurements import FULL, QUICK, measure, world_text
    from weft.node.devices.discovery import discover
    from weft.sim.results.result_files import check_writable

    if find_spec("torch") is None:
        raise InputError("there is no PyTorch here to measure with", "pip install torch, beside weft")
    if devices.strip().partition("=")[0] != "cpu":
        raise InputError(f'"{devices}" cannot be measured: only cpu devices so far', "e.g. --devices cpu=2")
    found = discover(devices, None)
    if output:
        check_writable(output)
    console = Console(stderr=True, highlight=False)
    with console.status("") as status:
        measured = measure(found, QUICK if quick else FULL, lambda words: status.update(words))
    _show(console, measured)
    text = world_text(measured)
    if output:
        Path(output).write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}", err=True)
    else:
        click.echo(text, nl=False)


def _show(console: Console, measured: MachineMeasurements) -> None:
    from rich.table import Table

    models, fit = list(measured.alone), measured.fit
    rates = Table(title="rate of a job beside another, relative to alone", title_justify="left")
    rates.add_column("job")
    for heading in ("alone", "busy", "weight", *models):
        rates.add_column(heading, justify="right")
    for model, alone in measured.alone.items():
        beside = [_beside(measured, model, other) for other in models]
        weight = f"{fit.profiles[model].weight:.2f}"
        rates.add_row(model, f"{alone.rate_hz:.1f}/s", f"{100 * alone.utilisation:.0f} %", weight, *beside)
    console.print(rates)
    console.print(
        f"contention {fit.fitted.contention:.3f}; the fitted model is off by {fit.root_mean_square:.3f} "
        f"(root mean square of {len(fit.errors)} relative rates); measured rates vary by {measured.rate_noise:.1%}"
    )
    costs = Table(title="what it costs a job", title_justify="left")
    costs.add_column("act")
    costs.add_column("time lost", justify="right")
    for act, lost_s in (
        ("pause and resume, at the gate", measured.gate_s),
        ("pause and resume, swapped out", measured.swap_s),
        ("checkpoint and launch, same device", measured.relaunch_s),
        ("migration to another device", measured.migration_s),
    ):
        costs.add_row(act, "not measured" if lost_s is None else _span(lost_s))
    console.print(costs)


def _beside(measured: MachineMeasurements, model: str, other: str) -> str:
    if (model, other) in measured.pairs:
        return f"{measured.pairs[model, other][0]:.2f}"
    return f"{measured.pairs[other, model][1]:.2f}" if (other, model) in measured.pairs else "–"


def _span(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
