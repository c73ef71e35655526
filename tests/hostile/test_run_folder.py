"""Entries of every kind and name in the folder of pages, where the coordinator looks at its start and all the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from arrays import crowded_box
from box import Attack, Box
from damage import THINGS

from waiting import wait_until

NAMES = ("999.1.0.page", "999.1.0.page.1", "998.1.0.sock", "lane-7-7", ".weft-1-1")
ODD = {
    "a page of job 10**200": "1" + "0" * 200 + ".1.0.page",
    "a page of attempt 10**200": "1.1" + "0" * 200 + ".0.page",
    "a page of no job": "_._.0.page",
    "a page with digits of another script": "٣.١.0.page",
    "a draft of no process": ".weft-",
    "a draft of process 10**100": ".weft-1" + "0" * 100 + "-1",
    "a lane without an end": "lane-" + "9" * 200 + "-1",
    "a name that is no text": "999.1.0.page\udcff",
    "a name of line breaks": "999.1.0.page\n\n",
}
MAKE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from damage import THINGS
folder, thing, names = Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
for name in names:
    path = folder / name
    THINGS[thing](path)
"""
WRITE = """
import os, sys
for path in sys.argv[1:]:
    with open(os.fsencode(path), "wb") as file:
        file.write(b"WEFTPAGE" * 512)
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    yield from crowded_box(tmp_path_factory.mktemp("hostile"))


def make(box: Box, thing: str, *names: str) -> None:
    done = box.python(MAKE, str(Path(__file__).parent), str(box.home.run), thing, *names)
    assert done.returncode == 0, done.stderr


def listing(box: Box) -> set[str]:
    return {path.name for path in box.sandbox.outside(box.home.run).iterdir()}


def test_entries_of_every_kind_are_survived_and_cleared(box: Box, attack: Attack) -> None:
    """All at once: `attack` looks whether weft lives after each, and the restart finds them all again."""
    for thing in THINGS:
        with attack(f"run folder: {thing} in the place of a page, a socket, a lane, a draft"):
            make(box, thing, *NAMES)
            wait_until(lambda: not listing(box) & set(NAMES), lambda: f"they are cleared: {sorted(listing(box))}")


@pytest.mark.parametrize("thing", THINGS)
def test_entries_of_every_kind_are_survived_at_a_restart(box: Box, attack: Attack, thing: str) -> None:
    with attack(f"run folder at a restart: {thing}"):
        make(box, thing, *NAMES)
        box.kill("coordinator")
        wait_until(lambda: not listing(box) & set(NAMES), lambda: f"they are cleared: {sorted(listing(box))}")


def test_odd_names_are_survived(box: Box, attack: Attack) -> None:
    for what, name in ODD.items():
        with attack(f"run folder: {what}"):
            done = box.python(WRITE, str(box.home.run / name))
            assert done.returncode == 0, done.stderr
    box.kill("coordinator")
    with attack("run folder at a restart: all odd names at once"):
        box.remember_processes()


@pytest.mark.parametrize("thing", ["a folder", "a folder with a file in it", "a pipe", "a link to /dev/zero"])
def test_what_stands_where_the_next_page_belongs_is_put_aside(box: Box, attack: Attack, thing: str) -> None:
    with attack(f"run folder: {thing} where the page of the next job belongs"):
        number = int(box.submit_python("pass").split("_")[0])
        make(box, thing, f"{number + 1}.1.0.page", f"{number + 1}.1.0.sock")
        job_id = box.submit_python("print('hello')")
        job = box.wait_for(job_id)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), job
