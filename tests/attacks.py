"""The attacks of tests/hostile, counted over all tests of a run and printed at its end."""

from __future__ import annotations

from collections import Counter

import pytest

from extent import IS_FULL

PROPERTY = "attack"
"""Of a test's report: the name of an attack, and whether weft held or fell."""


def show_attacks(terminalreporter: pytest.TerminalReporter) -> None:
    outcomes = {
        name: outcome
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, (name, outcome) in (one for one in getattr(report, "user_properties", ()) if one[0] == PROPERTY)
    }
    if not outcomes:
        return
    kinds = Counter(name.partition(":")[0] for name in outcomes)
    fallen = [name for name, outcome in outcomes.items() if outcome == "fell"]
    terminalreporter.section(
        "hostile suite" if IS_FULL else "hostile suite: a sample of each class; all: make test-all"
    )
    for kind, count in sorted(kinds.items()):
        terminalreporter.write_line(f"{count:5} {kind}")
    terminalreporter.write_line(
        f"{len(outcomes)} distinct attacks: {len(outcomes) - len(fallen)} held, {len(fallen)} fell"
    )
    for name in fallen:
        terminalreporter.write_line(f"fell: {name}")
