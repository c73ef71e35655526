"""`weft queue --watch`: in place on a terminal, one listing after the other elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import termios
from collections.abc import Callable

from command import command_line
from livehome import Live
from typist import Typist

from waiting import PATIENCE_S

CONTROL_C = "\x03"
At = Callable[..., Typist]


def sized(person: Typist, rows: int, columns: int) -> None:
    fcntl.ioctl(person.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_terminal_is_redrawn_until_control_c_and_never_wider_than_it_is(at: At, live: Live) -> None:
    ids = [live.submit("--hold", "--name", f"watched-{number}", "--", "true") for number in range(12)]
    script = 'stty cols 40 rows 8; exec "$@"'
    person = at("sh", "-c", script, "sh", *command_line("queue", "--watch", "0.2"), **live.env)
    person.sees(r"weft queue +\d\d:\d\d:\d\d")
    drawn = person.sees(r"(?s)\x1b\[K\n?(.*?)\x1b\[K\x1b\[J")[1]
    lines = [re.sub(r"\x1b\[[A-Z]", "", line) for line in drawn.replace("\r", "").split("\n")]
    assert max(map(len, lines)) < 40
    assert len(lines) <= 8
    assert re.search(r"and \d+ more", lines[-1])
    sized(person, 30, 100)
    person.process.send_signal(signal.SIGWINCH)
    person.sees(rf"{ids[-1]} +watched-11")
    live.says("cancel", *ids)
    person.sees("no jobs" if not live.says("queue", "--parsable") else r"weft queue")
    person.types(CONTROL_C)
    assert person.process.wait(PATIENCE_S) == 0


def test_elsewhere_listings_follow_each_other(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    with live.starts("queue", "--watch", "0.1") as watching:
        assert watching.stdout
        heads = 0
        while heads < 3:
            line = watching.stdout.readline()
            assert "\x1b" not in line
            heads += line.startswith("ID ")
        os.kill(watching.pid, signal.SIGINT)
        assert watching.wait(PATIENCE_S) == 0
    with live.starts("queue", "--watch", "0.1", "--json") as watching:
        assert watching.stdout
        listings = [json.loads(watching.stdout.readline()) for _ in range(2)]
        os.kill(watching.pid, signal.SIGINT)
    assert all(job_id in [job["id"] for job in jobs] for jobs in listings)
    live.says("cancel", job_id)
