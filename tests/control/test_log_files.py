"""How much a process logs, and what becomes of a log that grows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAYS = """
import logging, sys
from pathlib import Path
from weft.system import process_log
process_log.LARGEST_BYTES = 200
process_log.RotatingHandler.__init__.__defaults__ = (200, 2)
process_log.configure_log(Path(sys.argv[1]), sys.argv[2] or None)
for number in range(30):
    logging.getLogger("weft.test").info("line %d", number)
    logging.getLogger("weft.test").debug("detail %d", number)
print("to standard output", flush=True)
"""


def logged(file: Path, level: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    with file.open("ab") as log:
        command = [sys.executable, "-c", SAYS, str(file), level]
        return subprocess.run(command, check=False, stdout=log, stderr=log, text=True, env=env, timeout=60)


def test_a_log_is_rotated_and_its_last_lines_are_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "daemon.log"
    assert logged(file).returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert all(each.stat().st_size < 400 for each in tmp_path.iterdir())
    assert file.read_text().endswith("to standard output\n")
    assert "INFO weft.test: line 29\n" in file.read_text() + (tmp_path / "daemon.log.1").read_text()


def test_a_log_that_is_not_the_file_stays_where_it_goes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYS, str(tmp_path / "daemon.log"), ""], check=True, capture_output=True, text=True
    )
    assert done.stderr.count("line ") == 30
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("level", "env", "lines"),
    [("", {}, 30), ("debug", {}, 60), ("warning", {"WEFT_LOG": "debug"}, 0), ("", {"WEFT_LOG": "DEBUG"}, 60)],
)
def test_the_level_is_the_flag_or_the_variable(tmp_path: Path, level: str, env: dict[str, str], lines: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYS, str(tmp_path / "no.log"), level],
        check=True, capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert len(done.stderr.splitlines()) == lines


def test_a_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYS, str(tmp_path / "no.log"), ""],
        check=False, capture_output=True, text=True, env={"WEFT_LOG": "loud"},
    )  # fmt: skip
    assert 'there is no log level "loud"' in done.stderr
