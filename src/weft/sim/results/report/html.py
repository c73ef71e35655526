"""Runs as one HTML file that needs no network: the tables, the figures and every parameter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from weft.sim.request import SHOWN, Misfit
from weft.sim.results.report.figures import Figure, colour, dash, figures
from weft.sim.results.report.rows import ColumnGroup, common_parameters, groups, parameter_words, what_happened
from weft.sim.results.result_files import write_text
from weft.sim.results.summary import PolicyRun, Summary, short_labels, short_name, summarise


def write_report(runs: Sequence[PolicyRun], path: Path | str, title: str, skipped: Sequence[Misfit] = ()) -> None:
    """Write the page; the same runs and title give the same bytes. `skipped`: jobs that are in no run."""
    # Loaded here because it is slow to load and only this page needs it.
    from plotly.offline import get_plotlyjs

    write_text(path, _page(runs, title, skipped, get_plotlyjs()))


def _page(runs: Sequence[PolicyRun], title: str, skipped: Sequence[Misfit], plotly_script: str) -> str:
    names, summaries = short_labels([run.policy for run in runs]), [summarise(run) for run in runs]
    drawings = figures(runs, names, summaries)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_facts(runs, summaries)}
</header>
{_legend(names)}
<main>
{_narrative(summaries, names, skipped)}
{"".join(_table(group, names, summaries) for group in groups(summaries, names))}
<p class="note">Drag over a figure to look closer, double-click to go back.</p>
<noscript><p class="note">The figures need JavaScript.</p></noscript>
<div class="figures">
{"".join(_figure(drawing) for drawing in drawings)}
</div>
{_parameters(runs, names)}
</main>
<script type="application/json" id="figures">{_json_in_html(drawings)}</script>
<script>{plotly_script}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _facts(runs: Sequence[PolicyRun], summaries: Sequence[Summary]) -> str:
    facts = {
        "Cluster": _distinct(run.cluster for run in runs),
        "Devices": _distinct(f"{run.device_count:,}" for run in runs),
        "Jobs": _distinct(f"{summary.jobs:,}" for summary in summaries),
        "Tenants": _distinct(f"{len(set(run.jobs.tenants)):,}" for run in runs),
        "Seed": _distinct(str(run.seed) for run in runs),
    }
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _distinct(values: Iterable[str]) -> str:
    """Usually one; all of them when the runs differ, in the order of the runs."""
    return ", ".join(dict.fromkeys(values))


def _legend(names: Sequence[str]) -> str:
    buttons = "".join(
        f'<button type="button" aria-pressed="true" title="Hide or show in every figure">'
        f"{_swatch(index)}{escape(name)}</button>"
        for index, name in enumerate(names)
    )
    return f'<nav class="legend" aria-label="Policies">{buttons}</nav>'


def _swatch(index: int) -> str:
    return f'<i class="swatch {dash(index)}" style="color:{colour(index)}"></i>'


def _narrative(summaries: Sequence[Summary], names: Sequence[str], skipped: Sequence[Misfit]) -> str:
    first, *others = what_happened(summaries, names)
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in [*others, *map(_said_of_skipped, skipped[:SHOWN])])
    if len(skipped) > SHOWN:
        items += f"<li>{len(skipped) - SHOWN:,} more jobs that cannot run here are in no run.</li>"
    return f"""<section class="narrative">
<h2>What happened</h2>
<p>{escape(first)}</p>
<ul>{items}</ul>
</section>"""


def _said_of_skipped(misfit: Misfit) -> str:
    return f"Job {misfit.id} is in no run: it {misfit.why}."


def _table(group: ColumnGroup, names: Sequence[str], summaries: Sequence[Summary]) -> str:
    heads = "".join(f"<th>{escape(column.heading).replace(chr(10), '<br>')}</th>" for column in group.columns)
    body = ""
    for index, (name, row) in enumerate(zip(names, group.rows(summaries), strict=True)):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        body += f'<tr><th scope="row">{_swatch(index)}{escape(name)}</th>{cells}</tr>'
    return f"""<section>
<h2>{escape(group.title)}</h2>
<div class="wide"><table><thead><tr><th>Policy</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>
<p class="note">{escape(group.note)}</p>
</section>
"""


def _figure(figure: Figure) -> str:
    height = "" if figure.height_px is None else f' style="height:{figure.height_px}px"'
    return f"""<section>
<h2>{escape(figure.title)}</h2>
<div class="figure" id="{figure.name}"{height}></div>
<p class="note">{escape(figure.note)}</p>
</section>
"""


def _parameters(runs: Sequence[PolicyRun], names: Sequence[str]) -> str:
    common, blocks = common_parameters(runs), ""
    for index, (name, run) in enumerate(zip(names, runs, strict=True)):
        own = parameter_words({key: value for key, value in run.parameters.items() if key not in common})
        in_full = [] if run.policy == short_name(run.policy) else [run.policy]
        blocks += f"<dt>{_swatch(index)}{escape(name)}</dt><dd>{_codes([*in_full, *own]) or 'none'}</dd>"
    if common:
        blocks += f"<dt>All policies</dt><dd>{_codes(parameter_words(common))}</dd>"
    return f'<section><h2>Parameters</h2><dl class="parameters">{blocks}</dl></section>'


def _codes(words: Iterable[str]) -> str:
    return " ".join(f"<code>{escape(word)}</code>" for word in words)


def _json_in_html(drawings: Sequence[Figure]) -> str:
    """Plotly reads tags in names as markup, and the browser would read `</script>`, so both are escaped."""
    values = [
        {
            "name": drawing.name,
            "traces": [trace | {"name": escape(trace["name"])} for trace in drawing.traces],
            "layout": drawing.layout,
        }
        for drawing in drawings
    ]
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
