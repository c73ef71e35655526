"""Every public method of `weft.Client` has an example, and the example runs against a real daemon."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from livehome import Live

import weft
from weft.client import Client

METHODS = [
    name
    for base in reversed(Client.__mro__[:-2])  # but for Transport, which only closes
    for name, member in vars(base).items()
    if callable(member) and not name.startswith("_")
]
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF


def test_each_method_says_what_it_does_and_shows_it() -> None:
    without = [name for name in METHODS if ">>>" not in (getattr(Client, name).__doc__ or "")]
    assert len(METHODS) > 20
    assert not without


def test_the_examples_run_as_they_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(tmp_path / "home")
    monkeypatch.setenv("WEFT_HOME", str(live.home.root))
    try:
        live.up()
        with Client(live.home) as client:
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            for name in ["", *METHODS]:  # shutdown is the last
                shown = (getattr(Client, name) if name else Client).__doc__
                names = {"client": client, "weft": weft}
                runner.run(doctest.DocTestParser().get_doctest(shown, names, f"Client.{name}", None, 0))
            assert METHODS[-1] == "shutdown"
            assert runner.summarize().failed == 0
    finally:
        live.leave()
