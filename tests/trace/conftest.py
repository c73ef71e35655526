"""Writing small trace files, and reading them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.sim.trace import read_trace

Write = Callable[..., Path]
Refusal = Callable[..., InputError]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "jobs.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture
def refusal(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """The error that reading a text raises; file names in it are relative."""

    def refusal(text: str, name: str = "jobs.csv", form: str | None = None) -> InputError:
        write(text, name)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InputError) as caught:
            read_trace([name], form=form)
        return caught.value

    return refusal
