"""Entries of every kind and name in the folder of pages, where the coordinator looks at its start and all the time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from arrays import crowded_box
from box import Attack, Box
from damage import THINGS

from waiting import wait_until

NAMES = ("{}.1.0.page", "{}.1.0.page.1", "{}.1.1.sock", "lane-7-{}", ".weft-4194302-{}")
"""A page, a further rank's, a socket, a lane, a draft whose maker is dead."""
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
for argument in sys.argv[2:]:
    thing, _, path = argument.partition("=")
    THINGS[thing](Path(path))
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


def make(box: Box, things: dict[str, str]) -> None:
    """Things in the run folder, by their name there."""
    made = [f"{thing}={box.home.run / name}" for name, thing in things.items()]
    done = box.python(MAKE, str(Path(__file__).parent), *made)
    assert done.returncode == 0, done.stderr


def listing(box: Box) -> set[str]:
    return {path.name for path in box.sandbox.outside(box.home.run).iterdir()}


def names_of(thing: str) -> set[str]:
    return {name.format(900 + list(THINGS).index(thing)) for name in NAMES}


EVERYTHING = {name: thing for thing in THINGS for name in names_of(thing)}


def wait_until_cleared(box: Box, thing: str) -> None:
    wait_until(lambda: not listing(box) & names_of(thing), lambda: f"{thing} is cleared: {sorted(listing(box))}")


def test_entries_of_every_kind_are_survived_and_cleared(box: Box, attack: Attack) -> None:
    make(box, EVERYTHING)
    for thing in THINGS:
        with attack(f"run folder: {thing} in the place of a page, a socket, a lane, a draft"):
            wait_until_cleared(box, thing)


def test_entries_of_every_kind_are_survived_and_cleared_at_a_restart(box: Box, attack: Attack) -> None:
    box.send(box.pid("coordinator"), signal.SIGSTOP)
    make(box, EVERYTHING)
    box.kill("coordinator")
    for thing in THINGS:
        with attack(f"run folder at a restart: {thing} in the place of a page, a socket, a lane, a draft"):
            wait_until_cleared(box, thing)


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
        make(box, {f"{number + 1}.1.0.page": thing, f"{number + 1}.1.0.sock": thing})
        job_id = box.submit_python("print('hello')")
        job = box.wait_for(job_id)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1), job
