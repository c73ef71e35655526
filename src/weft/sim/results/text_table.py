"""Runs as tables for a terminal, 80 columns and no colour included."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.sim.results.report import rows
from weft.sim.results.report.rows import what_happened
from weft.sim.results.summary import PolicyRun, short_labels, short_name, summarise


def render_table(runs: Sequence[PolicyRun], console: Console) -> None:
    """Print the summary, the breakdown by kind of job, and every parameter of every run."""
    summaries, names = [summarise(run) for run in runs], short_labels([run.policy for run in runs])
    _print_stripped(Text(what_happened(summaries, names)[0]), console)
    console.print()
    for group in rows.groups(summaries, names):
        console.print(Text(group.title, style="bold"))
        console.print(_table(group, names, group.rows(summaries)))
        _print_stripped(Text(group.note, style="dim"), console)
        console.print()
    console.print(Text("Parameters", style="bold"))
    _print_stripped(_parameters(names, runs), console)


def _print_stripped(shown: Text | Table, console: Console) -> None:
    """Without the blanks that padding and wrapping leave at the ends of lines."""
    with console.capture() as padded:
        console.print(shown)
    console.out("\n".join(line.rstrip() for line in padded.get().splitlines()), highlight=False)


def _table(group: rows.ColumnGroup, names: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    # Only the names may fold: a cut number or heading would be read wrongly.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("Policy", overflow="fold")
    for column in group.columns:
        table.add_column(Text(column.heading), justify="right", no_wrap=True)
    for name, row in zip(names, cells, strict=True):
        table.add_row(Text(name), *row)
    return table


def _parameters(names: Sequence[str], runs: Sequence[PolicyRun]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", min_width=8)
    table.add_column(overflow="fold")
    common = rows.common_parameters(runs)
    for name, run in zip(names, runs, strict=True):
        own = {key: value for key, value in run.parameters.items() if key not in common}
        in_full = "" if run.policy == short_name(run.policy) else f"{run.policy}\n"
        table.add_row(Text(name), Text(in_full + (", ".join(rows.parameter_words(own)) or "none")))
    if common:
        table.add_row(Text("all"), Text(", ".join(rows.parameter_words(common))))
    return table
