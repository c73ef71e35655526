"""`weft run`: it feels as if the command ran right here, whoever is at the other end of its three files."""

from __future__ import annotations

import fcntl
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from command import command_line
from livehome import Live, has_gone
from typist import Typist

from waiting import PATIENCE_S, wait_until

CONTROL_C, CONTROL_D = "\x03", "\x04"
At = Callable[..., Typist]

STEPS = """
import sys, time, weft
print(sys.argv[1].encode().decode("unicode_escape"), end="", flush=True)
for number in range(int(sys.argv[2])):
    with weft.step():
        time.sleep(0.01)
    weft.report(loss=1.5)
print("over")
"""


def at_run(at: At, live: Live, *words: str) -> Typist:
    return at(*command_line("run", *words), **live.env)


def latest(live: Live) -> str:
    """The id of the job submitted last."""
    return str(max((job["id"] for job in live.json("queue", "--all")), key=lambda job_id: int(job_id.split("_")[0])))


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stdout, stderr


def test_output_goes_where_it_would_go_and_the_exit_code_is_the_jobs(live: Live) -> None:
    done = live.weft("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    first, *rest = done.stderr.splitlines()
    assert first == "err"
    assert all("failed" in line for line in rest)


def test_a_job_that_succeeds_says_nothing_of_weft(live: Live) -> None:
    done = live.weft("run", "--", "echo", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")


def test_one_place_for_both_outputs_keeps_their_order(live: Live) -> None:
    with Path("both").open("w") as both:
        process = live.starts("run", "--", "sh", "-c", "echo 1; echo 2 >&2; echo 3", stdout=both, stderr=both)
        assert process.wait(PATIENCE_S) == 0
    assert Path("both").read_text() == "1\n2\n3\n"


def test_a_signal_that_ended_the_job_is_in_the_exit_code(live: Live) -> None:
    assert live.weft("run", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_ends_as_in_a_shell(live: Live, command: str, code: int) -> None:
    done = live.weft("run", "--", command)
    assert done.returncode == code
    assert command in done.stderr


def test_what_is_piped_in_arrives_and_ends(live: Live) -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    done = live.weft("run", "--", "cat", text=text)
    assert (done.returncode, done.stdout == text) == (0, True)


def test_nothing_piped_in_is_an_end_at_once(live: Live) -> None:
    assert live.weft("run", "--", "cat").returncode == 0
    assert live.weft("run", "--", "wc", "-c", text="").stdout.strip() == "0"


def test_a_closed_input_is_none(live: Live) -> None:
    closed = [sys.executable, "-c", "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"]
    words = [*closed, *command_line("run", "--", "cat")]
    done = subprocess.run(words, env=live.env, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reader_that_goes_away_ends_the_job_as_it_would_without_weft(live: Live) -> None:
    process = live.starts("run", "--", "yes")
    assert process.stdout
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 130
    assert process.stderr
    assert "broken pipe" in process.stderr.read()
    process.stderr.close()
    assert live.job(latest(live))["state"] == "CANCELLED"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_nobody_can_be_asked_an_interrupt_cancels(live: Live, number: signal.Signals) -> None:
    process = live.starts("run", "--", "sh", "-c", "echo here; sleep 600")
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    process.send_signal(number)
    code, _, stderr = end(process)
    assert code == 128 + number
    assert "was cancelled" in stderr
    assert live.job(latest(live))["state"] == "CANCELLED"


def test_what_a_cancelled_job_has_yet_to_say_is_shown_and_its_end_is_waited_for(live: Live) -> None:
    program = "trap 'sleep 0.3; echo out; echo err >&2; exit 3' TERM; echo here $$; while :; do sleep 0.01; done"
    process = live.starts("run", "--", "sh", "-c", program)
    assert process.stdout
    pid = int(process.stdout.readline().split()[1])
    process.send_signal(signal.SIGTERM)
    code, stdout, stderr = end(process)
    assert has_gone(pid)
    assert (code, stdout) == (128 + signal.SIGTERM, "out\n")
    assert "err\n" in stderr  # the shell may say first that its sleep was terminated
    job = live.job(latest(live))
    assert (job["state"], job["exit_code"]) == ("CANCELLED", None)


def test_whoever_interrupts_twice_does_not_wait_for_the_end(live: Live) -> None:
    program = "trap '' TERM; echo here; while [ ! -e go ]; do sleep 0.01; done"
    process = live.starts("run", "--", "sh", "-c", program)
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: live.job(latest(live))["reason"] == "cancelled; its processes are being stopped")
    process.send_signal(signal.SIGINT)
    code, _, stderr = end(process)
    assert code == 130
    assert "is being cancelled; not waiting for its end" in stderr
    assert live.job(latest(live))["state"] == "RUNNING"
    Path("go").touch()
    live.is_("CANCELLED", latest(live))


def test_a_hangup_detaches(live: Live) -> None:
    process = live.starts("run", "--", "sh", "-c", "echo here; while [ ! -e go ]; do sleep 0.01; done; echo gone on")
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGHUP)
    assert end(process)[0] == 0
    Path("go").touch()
    assert live.says("logs", "-f", latest(live)) == "here\ngone on\n"


def test_while_it_waits_the_reason_is_said_once_a_change(live: Live) -> None:
    blocking = live.submit("--gpus", "2", "--", "sleep", "600")
    live.is_("RUNNING", blocking)
    process = live.starts("run", "--", "echo", "at last")
    assert process.stderr
    line = process.stderr.readline()
    assert re.match(r"weft: job \d+  pending  position 1  \S", line)
    live.says("cancel", blocking)
    code, stdout, stderr = end(process)
    assert (code, stdout) == (0, "at last\n")
    assert line not in stderr


def test_a_job_has_a_terminal_where_we_have_one(at: At, live: Live) -> None:
    person = at_run(at, live, "--", "sh", "-c", "tty; stty size; read line; echo got $line; exit 4")
    person.sees("/dev/pts/")
    person.types("some words\r")
    person.sees("got some words\r\n")
    assert person.process.wait(PATIENCE_S) == 4


def test_the_end_of_what_is_typed_reaches_the_job(at: At, live: Live) -> None:
    person = at_run(at, live, "--", "cat")
    wait_until(lambda: live.job(latest(live))["command"] == ["cat"])
    person.types("word\r")
    person.sees("word\r\nword\r\n")
    person.types(CONTROL_D)
    assert person.process.wait(PATIENCE_S) == 0


def test_a_terminals_size_is_the_jobs_and_so_are_its_changes(at: At, live: Live) -> None:
    program = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done"
    person = at_run(at, live, "--", "sh", "-c", program)
    person.sees("ready")
    fcntl.ioctl(person.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    person.process.send_signal(signal.SIGWINCH)
    person.sees("33 77")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types("c")
    assert person.process.wait(PATIENCE_S) == 130


def test_control_c_asks_and_one_may_detach(at: At, live: Live) -> None:
    person = at_run(at, live, "--", "sh", "-c", "echo here; while [ ! -e go ]; do sleep 0.01; done; echo gone on")
    person.sees("here")
    person.types(CONTROL_C)
    person.sees(r"detach or cancel\?")
    person.types("d")
    job_id = person.sees(r"continues: weft attach (\d+)")[1]
    assert person.process.wait(PATIENCE_S) == 0
    Path("go").touch()
    assert live.says("logs", "-f", job_id).split() == ["here", "gone", "on"]


def test_a_second_control_c_cancels(at: At, live: Live) -> None:
    person = at_run(at, live, "--", "sh", "-c", "echo here; sleep 600")
    person.sees("here")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types(CONTROL_C)
    person.sees(r"job \d+ was cancelled")
    assert person.process.wait(PATIENCE_S) == 130


def test_control_c_may_be_sent_to_the_job_itself(at: At, live: Live) -> None:
    person = at_run(
        at, live, "--", "sh", "-c", "trap 'echo caught; exit 5' INT; echo here; while :; do sleep 0.01; done"
    )
    person.sees("here")
    person.types(CONTROL_C)
    person.sees("s: send Ctrl-C to the job, any other key: continue")
    person.types("s")
    person.sees("caught")
    assert person.process.wait(PATIENCE_S) == 5


def test_another_key_goes_on_as_before(at: At, live: Live) -> None:
    person = at_run(at, live, "--", "sh", "-c", "echo here; read line; echo $line")
    person.sees("here")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types("n")
    person.types("word\r")
    person.sees("word\r\nword\r\n")
    assert person.process.wait(PATIENCE_S) == 0


def test_control_c_asks_while_the_job_still_waits(at: At, live: Live) -> None:
    person = at_run(at, live, "--hold", "--", "true")
    person.sees(r"job (\d+)  pending")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types("c")
    person.sees("was cancelled")
    assert person.process.wait(PATIENCE_S) == 130


def test_the_terminal_is_as_it_was_afterwards(at: At, live: Live) -> None:
    person = at("sh", "-c", f"{' '.join(command_line('run', '--', 'true'))}; stty -a", **live.env)
    assert " icanon" in person.sees(r"(?s)speed.*echoke")[0]


def test_control_c_asks_at_the_terminal_though_the_input_is_none(at: At, live: Live) -> None:
    words = " ".join(command_line("run", "--", "sh", "-c", "'echo here; sleep 600'"))
    person = at("sh", "-c", f"trap : INT; {words} < /dev/null; echo code $?", **live.env)
    person.sees("here")
    person.types(CONTROL_C)
    person.sees("detach or cancel")
    person.types("c")
    person.sees("code 130")


def test_progress_is_shown_between_the_jobs_lines_and_never_in_them(at: At, live: Live) -> None:
    Path("steps.py").write_text(STEPS)
    person = at_run(at, live, "--", sys.executable, "steps.py", "printed\\n", "1000000")
    person.sees("printed\r\n")
    person.sees(r"\r\x1b\[Kjob \d+  step [\d,]+  \d+(\.\d+)? steps/s  loss 1.5")
    person.types(CONTROL_C)
    person.sees(r"\r\x1b\[Kdetach or cancel")
    person.types("c")
    assert person.process.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("printed", ["\\x1b[2J\\n", "half a line", "a bar\\r"])
def test_no_progress_is_shown_where_it_would_be_in_the_jobs_way(at: At, live: Live, printed: str) -> None:
    Path("steps.py").write_text(STEPS)
    person = at_run(at, live, "--", sys.executable, "steps.py", printed, "150")
    assert "steps/s" not in person.sees("(?s).*over\r\n")[0]
    assert person.process.wait(PATIENCE_S) == 0


def test_a_daemon_that_is_killed_is_waited_for_and_the_exit_code_is_not_lost(own: Live) -> None:
    own.up()
    program = "echo here; while [ ! -e go ]; do sleep 0.01; done; echo gone on; exit 9"
    process = own.starts("run", "--", "sh", "-c", program)
    assert process.stdout
    assert process.stdout.readline() == "here\n"
    own.kill_daemon()
    Path("go").touch()
    assert process.stdout.readline() == "gone on\n"  # without a daemon
    assert process.stderr
    assert "the daemon does not answer" in process.stderr.readline()
    own.says("up")
    assert end(process)[0] == 9


def test_it_starts_weft_if_none_runs_and_of_two_at_once_only_one_does(own: Live) -> None:
    both = [own.starts("run", "--", "echo", "out") for _ in range(2)]
    ends = [end(process) for process in both]
    assert [(code, stdout) for code, stdout, _ in ends] == [(0, "out\n")] * 2
    assert sum("weft started: process" in stderr for _, _, stderr in ends) == 1
