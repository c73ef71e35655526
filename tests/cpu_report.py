"""The CPU time of tests, by folder and by file: `pytest --cpu-report`. Unlike wall time it is that of an idle machine.

A test is charged what its own process computed meanwhile and what the children computed that ended meanwhile. A process
that outlives its parent, as a daemon does, is not in it; what a fork of tests/forkserver.py computed is.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

PROPERTY = "cpu_s"
"""Of a test's report, as a number of seconds."""
SHOWN_FILES = 40

forked_s = 0.0
"""What forks have computed that were not children of this process."""


def used_s() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both) + forked_s


class CpuReport:
    """Charges each test in the process that runs it; the sums are printed by the process that has all reports."""

    def __init__(self) -> None:
        self._began_s = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._began_s = used_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now_s = used_s()
        report.user_properties.append((PROPERTY, (call.when, now_s - self._began_s)))
        self._began_s = now_s
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: Counter[str] = Counter()
        files: Counter[str] = Counter()
        tests: Counter[str] = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                for _, (_, seconds) in (one for one in getattr(report, "user_properties", ()) if one[0] == PROPERTY):
                    path = report.nodeid.partition("::")[0]
                    folders[str(Path(path).parent)] += seconds
                    files[path] += seconds
                    tests[report.nodeid] += seconds
        terminalreporter.section("CPU seconds")
        for sums, most in ((folders, None), (files, SHOWN_FILES), (tests, SHOWN_FILES)):
            for name, seconds in sums.most_common(most):
                terminalreporter.write_line(f"{seconds:8.1f} {name}")
            terminalreporter.write_line("")
        terminalreporter.write_line(f"{sum(folders.values()):8.1f} in all")
