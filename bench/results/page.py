"""The page: what it says before the tables, and the sections in their order."""

from __future__ import annotations

from collections.abc import Sequence

import papers_allox
import papers_cluster
import papers_salus
import published
from tables import Outcomes, Scale, Section, over_seeds

NAMES = ("philly", "helios", "pai", "generated", "guaranteed", "T1", "T4", "X1", "X3", "G6", "A4", "L1")

HEAD = """# Results

Every number on this page comes from a simulation; only the papers' figures and the goals are typed in. To make it
again, with the published traces in a folder (two processes; what is done already is remembered in a cache folder):

    TRACES=../shared/traces python bench/results

One section alone is printed by `python bench/results --section NAME`; the command is under each title.

What is drawn by chance is drawn with five seeds: of such tables each number is the median, with the least and the
largest in brackets. Published traces are not drawn, but what they do not tell of a job is: its utilisation, memory
and skew. Their tables of all policies are of seed 0; the goals are given for five other seeds as well. All policies
have their defaults. On the other half of each trace, and on generated ones, those that did best stand for all.
Policies with † are clairvoyant: they know each job's duration, which nobody does. On these traces salus is backfill:
nobody's memory is known before it has run. Completion time is from arrival to end; *devices held* are device-seconds
held over all there were in the makespan, without guests; ρ is completion time over the time alone; a step is a second
where a trace tells no steps.
"""


def sections(scale: Scale) -> list[Section]:
    return [
        *(published.trace_section(name, scale) for name in published.CLUSTERS),
        over_seeds(published.generated_section, scale),
        published.guaranteed_section(scale),
        over_seeds(papers_cluster.tiresias_testbed, scale),
        papers_cluster.tiresias_trace(scale),
        papers_allox.examples(scale),
        over_seeds(papers_allox.simulations, scale),
        over_seeds(papers_cluster.gandiva, scale),
        over_seeds(papers_cluster.antman, scale),
        over_seeds(papers_salus.section, scale),
    ]


def text(some: Sequence[Section], outcomes: Outcomes, scale: Scale) -> str:
    quick = f" {'--quick' if scale.name == 'quick' else ''}".rstrip()
    parts = [HEAD] if len(some) == len(NAMES) else []
    for section in some:
        parts.append(f"## {section.title}\n\n    python bench/results --section {section.name}{quick}\n")
        parts.append(section.text(outcomes))
    return "\n".join(parts)
