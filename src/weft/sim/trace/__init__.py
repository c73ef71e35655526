"""Traces: jobs with their arrival and true duration, from a file in one of several forms or from memory."""

from weft.sim.trace.forms import FORMS
from weft.sim.trace.job import TraceJob
from weft.sim.trace.read import read_trace
from weft.sim.trace.trace import Trace

__all__ = ["FORMS", "Trace", "TraceJob", "read_trace"]
