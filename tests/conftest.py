"""What all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import underweft
from attacks import show_attacks
from cpu_report import CpuReport
from tiers import TIERS, give_tiers, is_left_out

LEAN = str(Path(__file__).with_name("lean"))
IS_LEAN = os.environ.get("LEAN") != "no"
"""Without it, all that tests start loads PyTorch's compiler as it does for a user."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-report", action="store_true", help="print the CPU time of each folder, file and long test")


def pytest_configure(config: pytest.Config) -> None:
    """Whoever is started in the background, or by nohup, ignores some signals, and so would all that tests start.
    These find lean/sitecustomize.py."""
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry not in ("", LEAN)]
    os.environ["PYTHONPATH"] = ":".join([LEAN, *others] if IS_LEAN else others)
    for tier, means in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {means}")
    if config.getoption("cpu_report"):
        config.pluginmanager.register(CpuReport())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config.getoption("markexpr")) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_tiers(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Here and not in tests/hostile: the process that prints it collects no tests when others run them."""
    show_attacks(terminalreporter)


@pytest.fixture(scope="session", autouse=True)
def _bare_runs_are_shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Among the processes that pytest-xdist runs the tests in: the folder above theirs is the session's."""
    own = tmp_path_factory.getbasetemp()
    underweft.bare_runs = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
