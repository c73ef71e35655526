"""What a hostile job does to its own control page and records, one damage each.

    python damage.py CLASS FOLDER

runs as an element of an array: its index says which damage. It waits for FOLDER/go, does the damage, makes
FOLDER/done-INDEX and waits to be ended. The tests name the damages by the same tables.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from weft.runtime.page import layout

sys.path.append(str(Path(__file__).parents[1]))  # a job runs this file, and finds nothing else of the tests
from extent import sample, sample_of_table

Damage = Callable[[Path], None]
ALL_ONES = (1 << 64) - 1


# ---- the page


def words(**numbers: int) -> Damage:
    def damage(page: Path) -> None:
        with page.open("r+b") as file:
            for name, number in numbers.items():
                file.seek(8 * getattr(layout, name))
                file.write(struct.pack("=Q", number))

    return damage


def content(of: Callable[[], bytes]) -> Damage:
    def damage(page: Path) -> None:
        with page.open("r+b") as file:
            file.write(of())

    return damage


def noise(seed: int, at: int = 0, length: int = layout.PAGE_BYTES) -> Damage:
    def damage(page: Path) -> None:
        with page.open("r+b") as file:
            file.seek(at)
            file.write(random.Random(seed).randbytes(length))

    return damage


def truncated(to: int, *, grown: bool = False) -> Damage:
    def damage(page: Path) -> None:
        os.truncate(page, to)
        if grown:
            os.truncate(page, layout.PAGE_BYTES)

    return damage


DAMAGED_PAGES: dict[str, Damage] = {
    "a claim and a source that does not exist": words(CLAIM_PID=1, SOURCE=99),
    "a state that does not exist": words(CLAIM_PID=1, STATE=200),
    "a state of all ones": words(STATE=ALL_ONES),
    "a request for a depth that does not exist": words(REQUEST=77),
    "a request of the last generation": words(REQUEST=ALL_ONES - 255),
    "a depth that does not exist": words(DEPTH=9),
    "a duty of 0": words(DUTY=0),
    "a duty of a million": words(DUTY=10**6),
    "a step of all ones": words(STEP=ALL_ONES),
    "a step to run to of all ones": words(RUN_TO=ALL_ONES),
    "a huge gang": words(CLAIM_PID=1, WORLD=1 << 63),
    "a huge rank": words(CLAIM_PID=1, RANK=1 << 63),
    "a claim by pid 2**64-1": words(CLAIM_PID=ALL_ONES),
    "a claim by pid 2**31": words(CLAIM_PID=1 << 31),
    "a claim that began in the far future": words(CLAIM_START=ALL_ONES),
    "a leader with pid 2**63": words(TASK_PID=1 << 63),
    "a leader with pid 2**32-1": words(TASK_PID=(1 << 32) - 1),
    "a launcher with pid 2**40": words(LAUNCHER_PID=1 << 40),
    "a stop of all ones": words(STOPPED=ALL_ONES),
    "a count of steps of all ones": words(DURATIONS_COUNT=ALL_ONES),
    "a step that took 500 years": words(DURATIONS=ALL_ONES, DURATIONS_COUNT=1),
    "a message of a gigabyte": words(MESSAGE_LENGTH=1 << 30),
    "a billion metrics": words(METRICS_COUNT=1 << 30),
    "a heartbeat of all ones": words(HEARTBEAT=ALL_ONES),
    "persistent memory of all ones": words(PERSISTENT=ALL_ONES),
    "ephemeral memory of all ones": words(EPHEMERAL=ALL_ONES),
    "host memory of all ones": words(HOST=ALL_ONES),
    "overflown memory of all ones": words(OVERFLOW=ALL_ONES),
    "a peak of all ones": words(PEAK=ALL_ONES),
    "a checkpoint of all ones": words(CHECKPOINT=ALL_ONES),
    "rests of all ones": words(IDLE=ALL_ONES, PAUSED=ALL_ONES, TURN_WAITED=ALL_ONES),
    "no magic": words(MAGIC=0),
    "another version": words(VERSION=99),
    "another size": words(SIZE=1 << 40),
    "zeros": content(lambda: bytes(layout.PAGE_BYTES)),
    "ones": content(lambda: b"\xff" * layout.PAGE_BYTES),
    "noise all over": noise(1),
    "noise in the job's half": noise(2, 8 * layout.CLAIM_PID, 1024),
    "noise in the coordinator's half": noise(3, 8 * layout.REQUEST, 64),
    "truncated to nothing": truncated(0),
    "truncated in the middle": truncated(100),
    "truncated by a byte": truncated(layout.PAGE_BYTES - 1),
    "truncated and grown again": truncated(0, grown=True),
}
DAMAGED_PAGES = sample_of_table(DAMAGED_PAGES, every=3)


# ---- things in the place of a file


def gone(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def folder(path: Path) -> None:
    gone(path)
    path.mkdir()


def full_folder(path: Path) -> None:
    folder(path)
    (path / "inside").touch()


def pipe(path: Path) -> None:
    gone(path)
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    gone(path)
    here = Path.cwd()
    os.chdir(path.parent)  # its whole path may be too long
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(here)


def link_to(target: str) -> Damage:
    def damage(path: Path) -> None:
        gone(path)
        path.symlink_to(target)

    return damage


def loop(path: Path) -> None:
    gone(path)
    path.symlink_to(path)


def device(path: Path) -> None:
    """Where only root may make one, a link to one is as near as a job comes to it."""
    gone(path)
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


def unreadable(path: Path) -> None:
    gone(path)
    path.touch(mode=0o000)


def text(said: str) -> Damage:
    def damage(path: Path) -> None:
        gone(path)
        path.write_text(said)

    return damage


def large(path: Path) -> None:
    gone(path)
    path.touch()
    os.truncate(path, 1 << 30)


def no_text(path: Path) -> None:
    gone(path)
    path.write_bytes(b"\xff\xfe" * 50)


THINGS: dict[str, Damage] = {
    "a folder": folder,
    "a folder with a file in it": full_folder,
    "a pipe": pipe,
    "a socket": bound_socket,
    "a link to nothing": link_to("/nonexistent"),
    "a link to /dev/zero": link_to("/dev/zero"),
    "a link to itself": loop,
    "a device": device,
}
GARBAGE: dict[str, Damage] = {
    **THINGS,
    "a gigabyte": large,
    "nothing in it": text(""),
    "half a record": text('{"pid": 1, "sta'),
    "a list": text("[1, 2, 3]"),
    "a number": text("1e999"),
    "another shape": text(
        '{"exit_code": "0", "at_s": NaN, "by": 7, "message": null, "pid": -1, "start": [], "job": {}}'
    ),
    "numbers out of bounds": text(
        '{"exit_code": 1e30, "at_s": Infinity, "by": "shepherd", "message": "", "pid": 4e18}'
    ),
    "deep nesting": text("[" * 100_000),
    "bytes that are no text": no_text,
}


# ---- records


def orphaned(status: Damage) -> Damage:
    """The job kills its shepherd, which would write the true status."""

    def damage(attempt: Path) -> None:
        status(attempt / "0" / "status.json")
        os.kill(os.getppid(), signal.SIGKILL)

    return damage


def in_record(name: str, damage: Damage) -> Damage:
    return lambda attempt: damage(attempt / name)


def forged(**changes: object) -> Damage:
    def damage(attempt: Path) -> None:
        path = attempt / "attempt.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))

    return damage


def forged_launch(**changes: object) -> Damage:
    def damage(attempt: Path) -> None:
        record = json.loads((attempt / "attempt.json").read_bytes())
        forged(launch={**record["launch"], **changes})(attempt)

    return damage


DAMAGED_STATUSES = {f"{name} in the place of status.json": damage for name, damage in GARBAGE.items()}
DAMAGED_RECORDS = {
    **{f"{name} in the place of attempt.json": in_record("attempt.json", each) for name, each in GARBAGE.items()},
    **{f"{name} in the place of shepherd.json": in_record("0/shepherd.json", each) for name, each in THINGS.items()},
    "another job's name in attempt.json": forged(job="1"),
    "a name that is no text in attempt.json": forged(job=7),
    "a negative generation": forged(generation=-5),
    "devices that are no numbers": forged(devices=["0", None]),
    "a billion tasks": forged_launch(tasks=10**9),
    "no task": forged_launch(tasks=0),
    "a launch that is none": forged(launch=None),
    "a command that is none": forged_launch(command={}),
    "a seat of another shape": forged(seat={"lane": "x"}),
}
DAMAGED_STATUSES = sample_of_table(DAMAGED_STATUSES, every=3)
DAMAGED_RECORDS = sample_of_table(DAMAGED_RECORDS, every=3)


def fuzz(seed: int) -> Damage:
    """Edge values and noise in the page, garbage in the records, anything in the run folder, for a while."""

    def damage(attempt: Path) -> None:
        chance, page = random.Random(seed), Path(os.environ["WEFT_PAGE"])
        numbers = (0, 1, 99, 1 << 31, 1 << 32, 1 << 53, 1 << 63, ALL_ONES)
        for _ in range(200):
            with page.open("r+b") as file:
                file.seek(8 * chance.randrange(8, 140))
                file.write(struct.pack("=Q", chance.choice(numbers)))
            if chance.random() < 0.1:
                name = chance.choice(["0/status.json", "0/shepherd.json", "attempt.json", "0/launch"])
                chance.choice(list(GARBAGE.values()))(attempt / name)
            if chance.random() < 0.1:
                name = chance.choice(
                    [f"{seed + 700}.1.0.page", f"lane-9-{seed}", f"{page.name}.1", f"{seed + 700}.1.0.sock"]
                )
                chance.choice(list(THINGS.values()))(page.with_name(name))
            time.sleep(0.01)

    return damage


FUZZ = {f"seed {seed}": fuzz(seed) for seed in sample(range(20), every=5)}


# ---- the job


def main(kind: str, shared: Path) -> None:
    index = int(os.environ["WEFT_ARRAY_INDEX"])
    attempt = Path(os.environ["WEFT_HOME"], "jobs", os.environ["WEFT_JOB_ID"], "attempts", os.environ["WEFT_ATTEMPT"])
    damages: dict[str, tuple[dict[str, Damage], Path]] = {
        "pages": (DAMAGED_PAGES, Path(os.environ["WEFT_PAGE"])),
        "records": (DAMAGED_RECORDS, attempt),
        "statuses": (DAMAGED_STATUSES, attempt / "0" / "status.json"),
        "logs": (THINGS, attempt.parents[1] / "task-0.log"),
        "fuzz": (FUZZ, attempt),
        "orphaned": ({name: orphaned(each) for name, each in DAMAGED_STATUSES.items()}, attempt),
    }
    table, path = damages[kind]
    (shared / f"ready-{index}").touch()
    while not (shared / "go").exists():
        time.sleep(0.02)
    list(table.values())[index](path)
    (shared / f"done-{index}").touch()
    if kind in ("statuses", "fuzz"):
        sys.exit(3)
    time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
