"""`weft trace`: inspect a trace, or generate one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from weft.cli.completion import complete_form, complete_like, complete_trace
from weft.system.extras import require_packages

if TYPE_CHECKING:
    from rich.console import Console

    from weft.sim.trace.overview import Overview


MOST_ROWS = 12
"""Of gang sizes, tenants and models, as many as are read at a glance; the rest is one row. --json has them all."""


@click.group(short_help="Inspect a trace, or generate one.")
def trace() -> None:
    """Inspect a trace, or generate one."""


@trace.command(short_help="Summarise a trace.")
@click.argument("file", metavar="FILE", type=click.Path(), shell_complete=complete_trace)
@click.option("--jobs", type=int, metavar="N", help="Only the first N jobs by arrival.")
@click.option(
    "--format",
    "form",
    metavar="FORM",
    shell_complete=complete_form,
    help="The form of the trace; found by itself if not given.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the figures as JSON.")
def inspect(file: str, jobs: int | None, form: str | None, is_json: bool) -> None:
    """Summarise a trace: durations, gang sizes, load and arrivals.

    FILE is in any form that weft simulate reads, or the word sample.

    \b
    Examples:
      weft trace inspect sample
      weft trace inspect jobs.csv --json | jq .busy_devices
    """
    require_packages("weft trace inspect", "numpy", "rich")
    from weft.cli.render.simulation import SimulationNotes
    from weft.sim.trace import read_trace
    from weft.sim.trace.overview import overview

    read = read_trace(file, form=form, first=jobs)
    SimulationNotes().begins(read, ())
    found = overview(read)
    if is_json:
        from dataclasses import asdict

        from weft.cli.render.tables import show_json

        show_json(asdict(found))
        return
    from rich.console import Console

    _show(found, Console())


@trace.command(short_help="Generate a trace like that of a published cluster.")
@click.option(
    "--like",
    required=True,
    metavar="philly|helios|pai",
    shell_complete=complete_like,
    help="The cluster whose jobs to imitate.",
)
@click.option("--jobs", type=int, default=1000, show_default=True, metavar="N", help="How many.")
@click.option(
    "--load",
    type=float,
    default=0.9,
    show_default=True,
    metavar="L",
    help="Offered load: the share of --devices that would be busy, on the average between the first arrival and the "
    "last, if no job waited. It sets how fast jobs arrive, so few jobs for many devices come in a rush.",
)
@click.option("--devices", required=True, type=int, metavar="D", help="Of the cluster; no gang is larger.")
@click.option("--tenants", type=int, default=1, show_default=True, metavar="N", help="The first has the most jobs.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same gives the same bytes.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), default="-", help="Instead of standard output.")
def generate(like: str, jobs: int, load: float, devices: int, tenants: int, seed: int, output: str) -> None:
    """Generate a trace like that of a published cluster, at a chosen load.

    Durations, gang sizes, and how arrivals go by hour and weekday are fitted to the traces of Microsoft's Philly,
    SenseTime's Helios (Venus) and Alibaba's PAI. Time starts on a Monday, 0:00.

    \b
    Examples:
      weft trace generate --like philly --jobs 5000 --load 0.9 --devices 128 -o jobs.csv
      weft simulate jobs.csv --cluster 16x8 --policy fifo,tiresias-l
    """
    require_packages("weft trace generate", "numpy", "scipy")
    from weft.sim.generate import LoadSpec, plain_csv
    from weft.sim.generate import generate as drawn
    from weft.sim.results.result_files import STDOUT, check_writable, write_text

    check_writable(output)
    write_text(output, plain_csv(drawn(LoadSpec(like, jobs, load, devices, seed, tenants))))
    if output != STDOUT:
        click.echo(f"wrote {output}", err=True)


def _show(found: Overview, console: Console) -> None:
    from rich.text import Text

    from weft.core.text import count_of
    from weft.sim.results.report.rows import duration

    busy = found.busy_devices
    load = "all jobs arrive at once" if busy is None else f"{busy:,.1f} devices busy on the average"
    rate = found.arrivals_per_hour
    console.print(Text(f"{found.trace}: {count_of(found.jobs, 'job')} over {duration(found.span_s)}"))
    console.print(Text(f"Offered load: {load}"))
    console.print(
        Text(f"Arrivals: {rate['mean']:,.1f} an hour on the average, {rate['peak']:,.0f} at most"), end="\n\n"
    )
    spread = zip(found.duration_s.items(), found.device_s.values(), strict=True)
    rows = [[level, duration(alone_s), duration(device_s)] for (level, alone_s), device_s in spread]
    _print_table(console, ["Jobs", "Duration", "Device-time"], rows)
    for heading, counts in (("Gang size", found.gangs), ("Tenant", found.tenants), ("Model", found.models)):
        if len(counts) > 1 or heading == "Gang size":
            _print_table(console, [heading, "Jobs", "Share"], _shares({str(key): n for key, n in counts.items()}))


def _shares(counts: Mapping[str, int]) -> list[list[str]]:
    """The most frequent, in the order given, and how many are not among them."""
    total = sum(counts.values())
    room = MOST_ROWS if len(counts) <= MOST_ROWS else MOST_ROWS - 1
    most = set(sorted(counts, key=lambda name: -counts[name])[:room])
    shown = [(name, count) for name, count in counts.items() if name in most]
    rest = total - sum(count for _, count in shown)
    others = [(f"{len(counts) - len(shown)} others", rest)] if rest else []
    return [[name, f"{count:,}", f"{count / total:.1%}"] for name, count in [*shown, *others]]


def _print_table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from weft.cli.render.tables import printable

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(heads[0], overflow="fold")
    for head in heads[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for first, *others in rows:
        table.add_row(Text(printable(first)), *others)
    console.print(table)
    console.print()
