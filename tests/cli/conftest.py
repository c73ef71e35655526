"""A folder with small traces and policies of the user's own, and `weft` to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command import BY_NAME, Weft
from livehome import Live
from typist import Typist

from weft.cli.main import weft as command


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(BY_NAME)
    Path("few.csv").write_text("arrival,duration,gang\n0,100,2\n10,50,4\n20,5,1\n")
    rows = (f"{i * 3},{(i * 37) % 200 + 1},{1 << i % 3}" for i in range(2500))
    Path("many.csv").write_text("arrival,duration,gang\n" + "\n".join(rows) + "\n")


@pytest.fixture
def at() -> Iterator[Callable[..., Typist]]:
    with ExitStack() as leaving:

        def at(*command: str, **env: str) -> Typist:
            typist = Typist(*command, **env)
            leaving.callback(typist.leaves)
            return typist

        yield at


@pytest.fixture
def weft() -> Weft:
    def weft(*words: str) -> Result:
        return CliRunner().invoke(command, words, catch_exceptions=False)

    return weft


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A weft with two devices, first come first served, for all tests that do it no harm."""
    live = Live(tmp_path_factory.mktemp("live"))
    live.up()
    yield live
    live.leave()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Live]:
    """A weft that is not up yet, for one test."""
    own = Live(tmp_path / "own")
    yield own
    own.leave()
