"""The HTML report of simulated runs."""

from weft.sim.report.page import write_report

__all__ = ["write_report"]
