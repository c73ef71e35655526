"""Which process a page may name as its leader: real processes, in every state between fork and exec."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.node.fence.ownership import MARK, PAGE, was_launched_by
from weft.node.task.control_page import ControlPage, create_page
from weft.runtime.procfs import start_time
from weft.system import processes

LAUNCHER = """
import os, sys
page = open(sys.argv[1], "rb")
inside = dict(os.environ)
for word in sys.argv[2:]:
    name, _, value = word.partition("=")
    inside[name] = value
reading, writing = os.pipe()
if os.fork() == 0:
    os.set_inheritable(reading, True)
    if len(sys.argv) > 2:
        os.execvpe("sh", ["sh", "-c", f"echo $$; read line <&{reading}"], inside)
    print(os.getpid(), flush=True)
os.read(reading, 1)
"""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ControlPage]:
    made = create_page(str(tmp_path / "a.page"))
    yield made
    made.close()


def is_leader(page: ControlPage, *inside: str, outside: tuple[tuple[str, str], ...] = ()) -> bool:
    """Whether a launcher with `outside` launched the process that it started with `inside`, or has just forked."""
    words = [sys.executable, "-c", LAUNCHER, page.path, *inside]
    env = {**{name: text for name, text in os.environ.items() if name not in (MARK, PAGE)}, **dict(outside)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout
        pid = int(launcher.stdout.readline())
        found = processes.process(pid)
        assert found is not None
        try:
            return was_launched_by(found, launcher.pid, start_time(launcher.pid), page)
        finally:
            os.kill(pid, 9)
            launcher.kill()


def test_a_process_is_its_launchers_before_and_after_exec(page: ControlPage) -> None:
    assert is_leader(page)
    assert is_leader(page, f"{PAGE}={page.path}")


def test_a_launcher_inside_a_job_has_the_marks_of_that_job(page: ControlPage) -> None:
    outer = ((MARK, "/run/1.1.0"), (PAGE, "/run/1.1.0.page"))
    assert is_leader(page, outside=outer)
    assert is_leader(page, f"{PAGE}={page.path}", outside=outer)


@pytest.mark.parametrize("mark", [f"{MARK}=/run/2.1.0", f"{PAGE}=/run/2.1.0.page"])
def test_a_child_with_a_mark_of_its_own_is_another_tasks(page: ControlPage, mark: str) -> None:
    """As every shepherd is a child of the coordinator, which has every page open."""
    assert not is_leader(page, mark)
    assert not is_leader(page, mark, outside=((MARK, "/run/1.1.0"),))
