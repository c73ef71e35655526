"""The HTML report of simulated runs."""

from weft.sim.results.report.html import write_report

__all__ = ["write_report"]
