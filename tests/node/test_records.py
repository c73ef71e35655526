"""Records as hostile input: whatever a file has, reading it gives a record or says what is wrong with it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.core.errors import WeftError
from weft.node.attempt.records import (
    AttemptRecord,
    DamagedRecordError,
    TaskExit,
    attempts_on_disk,
    read_record,
    read_shepherd,
    read_status,
    record_of,
    remove,
    shepherd_of,
    status_of,
    write_record,
)
from weft.node.fence.cgroups import identity
from weft.system.home import Home

on_a_loaded_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LAUNCH = {"command": ["true"], "env": {}, "cwd": "/", "umask": 18, "tasks": 1, "devices_per_task": 1}
RECORD = AttemptRecord("7", 1, 3, (0,), "boot", 0, LAUNCH)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
RIGHT: list[dict[str, Any]] = [
    json.loads(json.dumps(asdict(RECORD))),
    {"pid": 5, "start": 7, "boot_id": "boot"},
    {"exit_code": 0, "at_s": 1.5, "by": "shepherd", "message": "x"},
]
READING = (record_of, shepherd_of, status_of)


@pytest.mark.parametrize("which", range(3))
@on_a_loaded_machine
@given(data=st.data())
def test_a_record_with_anything_in_its_fields_is_read_or_refused(which: int, data: st.DataObject) -> None:
    said = dict(RIGHT[which])
    READING[which](said)  # type: ignore[operator]
    for name in data.draw(st.lists(st.sampled_from(sorted(said)), max_size=3)):
        said[name] = data.draw(anything)
    if which == 0 and data.draw(st.booleans()) and isinstance(said["launch"], dict):
        said["launch"] = {**said["launch"], data.draw(st.sampled_from(sorted(LAUNCH))): data.draw(anything)}
    content = json.dumps(said).encode()
    with suppress(ValueError, TypeError, KeyError, OverflowError, WeftError):
        found = READING[which](json.loads(content))  # type: ignore[operator]
        json.dumps(asdict(found), allow_nan=False)


@on_a_loaded_machine
@given(content=st.binary(max_size=200) | anything.map(lambda said: json.dumps(said).encode()))
def test_any_file_is_a_record_or_a_reason(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("records")
    for name, read in (("status.json", read_status), ("shepherd.json", read_shepherd)):
        (folder / name).write_bytes(content)
        with suppress(DamagedRecordError):
            read(folder)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "jobs").mkdir()
    write_record(home, RECORD)
    assert read_record(home, "7", 1) == RECORD
    assert attempts_on_disk(home) == [("7", 1)]
    remove(home, "7", 1)
    assert read_record(home, "7", 1) is None


def test_a_record_is_of_the_attempt_whose_folder_it_is_in(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_record(home, RECORD)
    (tmp_path / "jobs/7").rename(tmp_path / "jobs/8")
    with pytest.raises(DamagedRecordError, match="it is of job '7', attempt 1"):
        read_record(home, "8", 1)


@pytest.mark.parametrize("folder", ["/", "/etc", "/sys/fs/cgroup", "relative", "/sys/fs/cgroup/../../../etc", "/a\0b"])
def test_a_record_names_no_cgroup_that_is_not_its_homes(tmp_path: Path, folder: str) -> None:
    """What is in the cgroup of a task is killed with it."""
    home = Home(tmp_path)
    write_record(home, replace(RECORD, cgroups=folder))
    with pytest.raises(DamagedRecordError, match="cgroups is"):
        read_record(home, "7", 1)
    inside = tmp_path / f"weft-{identity(tmp_path)}"
    write_record(home, replace(RECORD, cgroups=str(inside)))
    with pytest.raises(DamagedRecordError, match="cgroups is"):
        read_record(home, "7", 1)


def test_folders_that_are_links_are_replaced_and_what_they_lead_to_is_left(tmp_path: Path) -> None:
    home, precious = Home(tmp_path / "home"), tmp_path / "precious"
    precious.mkdir()
    (precious / "attempt.json").write_text("precious")
    (tmp_path / "home/jobs/7").mkdir(parents=True)
    (tmp_path / "home/jobs/7/attempts").symlink_to(precious)
    write_record(home, RECORD)
    assert read_record(home, "7", 1) == RECORD
    (tmp_path / "home/jobs/7/attempts/2").symlink_to(precious)
    remove(home, "7", 2)
    remove(home, "7", 1)
    assert (precious / "attempt.json").read_text() == "precious"


def test_a_status_of_a_shepherd_is_read(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(json.dumps(RIGHT[2]))
    assert read_status(tmp_path) == TaskExit(0, 1.5, "shepherd", "x")
