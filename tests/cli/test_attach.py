"""`weft attach`: a job that runs already, for one person or several."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from command import command_line
from livehome import Live
from typist import Typist

from waiting import PATIENCE_S, wait_until

CONTROL_C = "\x03"
At = Callable[..., Typist]
UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"


def at_weft(at: At, live: Live, *words: str) -> Typist:
    return at(*command_line(*words), **live.env)


def test_the_output_from_the_last_lines_on_and_the_exit_code_are_the_jobs(live: Live) -> None:
    job_id = live.submit("--", "sh", "-c", f"seq 20; {UNTIL_GO}; echo more; exit 9")
    wait_until(lambda: live.says("logs", job_id).endswith("20\n"), "it has printed")
    with live.starts("attach", "--tail", "2", job_id) as attached:
        assert attached.stdout
        assert [attached.stdout.readline() for _ in range(2)] == ["19\n", "20\n"]
        Path("go").touch()
        assert attached.stdout.read() == "more\n"
        assert attached.wait(PATIENCE_S) == 9
        assert attached.stderr
        assert attached.stderr.read().count(f"job {job_id} reads no input") == 1


def test_one_who_is_ended_or_has_no_reader_leaves_the_job_alone(live: Live) -> None:
    job_id = live.submit("--", "sh", "-c", f"echo here; {UNTIL_GO}; echo gone on")
    for number in (signal.SIGTERM, signal.SIGINT):
        with live.starts("attach", job_id) as attached:
            assert attached.stdout
            assert attached.stdout.readline() == "here\n"
            attached.send_signal(number)
            assert attached.wait(PATIENCE_S) == 128 + number
    reading, writing = os.pipe()
    os.close(reading)
    with live.starts("attach", job_id, stdout=writing) as attached:
        os.close(writing)
        assert attached.wait(PATIENCE_S) == 0
    assert live.job(job_id)["state"] == "RUNNING"
    Path("go").touch()
    assert live.says("logs", "-f", job_id) == "here\ngone on\n"


def test_a_person_detaches_comes_back_and_types(at: At, live: Live) -> None:
    person = at_weft(at, live, "run", "--", "sh", "-c", "echo here; read one; echo got $one; read two; exit $two")
    person.sees("here")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types("d")
    job_id = person.sees(r"weft attach (\d+)")[1]
    assert person.process.wait(PATIENCE_S) == 0
    first, second = (at_weft(at, live, "attach", job_id) for _ in range(2))
    first.sees("here")
    second.sees("here")
    first.types("hello\r")
    first.sees("got hello")
    second.sees("got hello")
    second.types("4\r")
    assert [each.process.wait(PATIENCE_S) for each in (first, second)] == [4, 4]


def test_control_c_asks_and_one_may_detach_or_cancel(at: At, live: Live) -> None:
    job_id = live.submit("--", "sh", "-c", "echo here; sleep 600")
    for key, code in (("d", 0), ("c", 130)):
        person = at_weft(at, live, "attach", job_id)
        person.sees("reads no input")
        person.sees("here")
        person.types(CONTROL_C)
        person.sees("detach or cancel")
        assert live.job(job_id)["state"] == "RUNNING"
        person.types(key)
        assert person.process.wait(PATIENCE_S) == code
    assert live.weft("wait", job_id).returncode == 143


def test_an_array_is_not_attached_to_as_a_whole(live: Live) -> None:
    array = live.submit("--array", "1-2", "--hold", "--", "true")
    done = live.weft("attach", array)
    assert (done.returncode, f"{array} is an array" in done.stderr, f"{array}_1" in done.stderr) == (2, True, True)
    live.says("cancel", array)
