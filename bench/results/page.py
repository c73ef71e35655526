"""The page: what it says before the tables, and the sections in their order."""

from __future__ import annotations

from collections.abc import Sequence

import papers_allox
import papers_cluster
import papers_salus
import published
from tables import Outcomes, Scale, Section

NAMES = ("philly", "helios", "pai", "generated", "guaranteed", "T1", "T4", "X1", "X3", "G6", "A4", "L1")

HEAD = """# Results

Every number on this page comes from a simulation; only the papers' figures and the goals are typed in. To make it
again, with the published traces in a folder (two processes; what is done already is remembered in `out/results`):

    TRACES=../shared/traces python bench/results

One section alone is printed by `python bench/results --section NAME`; the command is under each title.

All policies have their defaults, with one exception: on the month-long traces gandiva's quantum is two hours
(`gandiva:quantum_s=7200:quantum_steps=7200`), because a minute means tens of millions of switches. On the other
half of each trace, and on generated ones, those that did best stand for all. Policies with † are clairvoyant: they
know each job's duration, which nobody does. On these traces salus is backfill: nobody's memory is known before it has
run. Completion time is from arrival to end; *devices held* are device-seconds held over all there were in the makespan,
without guests; ρ is completion time over the time alone; a step is a second where a trace tells no steps.
"""


def sections(scale: Scale) -> list[Section]:
    return [
        *(published.trace_section(name, scale) for name in published.CLUSTERS),
        published.generated_section(scale),
        published.guaranteed_section(scale),
        papers_cluster.tiresias_testbed(scale),
        papers_cluster.tiresias_trace(scale),
        papers_allox.examples(scale),
        papers_allox.simulations(scale),
        papers_cluster.gandiva(scale),
        papers_cluster.antman(scale),
        papers_salus.section(scale),
    ]


def text(some: Sequence[Section], outcomes: Outcomes, scale: Scale) -> str:
    quick = f" {'--quick' if scale.name == 'quick' else ''}".rstrip()
    parts = [HEAD] if len(some) == len(NAMES) else []
    for section in some:
        parts.append(f"## {section.title}\n\n    python bench/results --section {section.name}{quick}\n")
        parts.append(section.text(outcomes))
    return "\n".join(parts)
