"""Traces: jobs with their arrival and true duration, from a file in one of several forms or from memory."""

from weft.sim.trace.formats import FORMS
from weft.sim.trace.jobs import Trace, TraceJob
from weft.sim.trace.reader import read_trace

__all__ = ["FORMS", "Trace", "TraceJob", "read_trace"]
