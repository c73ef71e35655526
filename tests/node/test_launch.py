"""A launched command: what it finds around itself, how it ends, and which signals reach it. With real processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from waiting import PATIENCE_S, state_of, wait_until
from weft.core.errors import InputError, WeftError
from weft.node.devices.preload import INJECT, environment
from weft.node.exec.runner import run, signals_held
from weft.node.task.control_page import new_task_page
from weft.runtime.page import layout
from weft.runtime.page.page_file import open_page, start_time
from weft.system.units import parsed_bytes

PYTHON = [sys.executable, "-I", "-S"]
WEFT_EXEC = [sys.executable, "-W", "error", "-m", "weft.cli.main", "exec"]
SAYS_AND_WAITS = """
import os, signal, sys
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, frame: (print(signal.Signals(number).name), sys.exit(7)))
%s
print(os.getpid(), os.getpgrp(), flush=True)
while True:
    signal.pause()
"""
READS_ITS_PAGE = """
import os, struct
page = open(os.environ["WEFT_PAGE"], "rb").read()
start = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
print(*struct.unpack_from("12Q", page), os.getpid(), start, os.getppid())
"""
ULIMITS = "ulimit -Sd; ulimit -Hd"
SIGNALS_AND_FILES = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd; ulimit -d; umask; pwd"


class Launched:
    """`weft exec` at work on a command that has said its pid."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout
        self.pid, self.group = map(int, process.stdout.readline().split())

    def ended(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@pytest.fixture
def launched() -> Iterator[Callable[..., Launched]]:
    with ExitStack() as cleanup:

        def launch(
            *handled: str,
            before: str = "",
            before_waiting: str = "",
            options: tuple[str, ...] = (),
            new_session: bool = True,
        ) -> Launched:
            command = [*WEFT_EXEC, *options, "--", *PYTHON, "-c", SAYS_AND_WAITS % before_waiting, *handled]
            shell = ["sh", "-c", f'{before}\nexec "$@"', "sh", *command]
            process = subprocess.Popen(
                shell,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=new_session,
                process_group=None if new_session else 0,
            )
            cleanup.callback(process.communicate, timeout=PATIENCE_S)
            found = Launched(process)
            cleanup.callback(_end, found.group)
            return found

        yield launch


@pytest.fixture
def page() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="weft-test-", dir="/dev/shm") as folder:
        yield Path(folder) / "a.page"


def weft_exec(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    arguments = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "stdin": subprocess.DEVNULL, **more}
    if "input" in more:
        arguments.pop("stdin")
    return subprocess.run([*WEFT_EXEC, *words], check=False, **arguments)  # type: ignore[call-overload, no-any-return]


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, INJECT),
        ("", INJECT),
        ("/a:/b", f"{INJECT}:/a:/b"),
        ("/a::/b", f"{INJECT}:/a::/b"),
        ("/a:", f"{INJECT}:/a:"),
        (INJECT, INJECT),
        (f"{INJECT}:/a", f"{INJECT}:/a"),
        (f"/a:{INJECT}:/b", f"{INJECT}:/a:/b"),
    ],
)
def test_the_runtime_comes_first_and_what_was_on_the_path_stays(before: str | None, after: str) -> None:
    base = {} if before is None else {"PYTHONPATH": before}
    assert environment(base, Path("/p"), None)["PYTHONPATH"] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/a/libweft.so", None),
        ("/a/libweft.so:/b.so", "/b.so"),
        ("/b.so /a/libweft.so", "/b.so"),
        ("/b.so /c.so", "/b.so /c.so"),
        ("", ""),
    ],
)
def test_what_a_weft_exec_around_us_said_to_the_library_is_not_said_again(before: str, after: str | None) -> None:
    base = {"LD_PRELOAD": before, "WEFT_TIER": "/t", "WEFT_STRICT": "1", "WEFT_LANES": "/l", "WEFT_LANE_CAPACITY": "9"}
    said = environment(base, Path("/p"), None)
    assert said.get("LD_PRELOAD") == after
    assert not set(said) & {"WEFT_TIER", "WEFT_STRICT", "WEFT_LANES", "WEFT_LANE_CAPACITY"}


def test_a_weft_exec_inside_another_has_a_page_and_checkpoints_of_its_own() -> None:
    base = {"A": "1", "LD_PRELOAD": "/lib/x.so", "WEFT_FAIL_AT": "renamed"}
    outer = environment(base, Path("/outer"), Path("runs"))
    assert outer == {
        **base, "WEFT_PAGE": "/outer", "WEFT_CHECKPOINTS": str(Path.cwd() / "runs"), "PYTHONPATH": INJECT,
    }  # fmt: skip
    assert environment(outer, Path("inner"), None) == {
        **base, "WEFT_PAGE": str(Path.cwd() / "inner"), "PYTHONPATH": INJECT,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("268435456", 256 << 20), ("256M", 256 << 20), ("256 MiB", 256 << 20), ("1.5g", 3 << 29), ("2T", 2 << 40),
        ("64k", 64 << 10), ("100B", 100), ("0", 0),
    ],
)  # fmt: skip
def test_a_size_counts_by_1024(text: str, size_bytes: int) -> None:
    assert parsed_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "M", "-1G", "1GB", "1e9", "1,5G", "8 GiB of it", "inf", "٣G", "9" * 400])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(InputError) as raised:
        parsed_bytes(text)
    assert "512M" in raised.value.hint


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_the_commands(script: str, code: int) -> None:
    ended = weft_exec("sh", "-c", script)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_the_page_knows_the_task_before_the_task_runs() -> None:
    ended = weft_exec("--limit", "1G", "--", *PYTHON, "-c", READS_ITS_PAGE)
    *words, pid, start, parent = map(int, ended.stdout.split())
    assert words[layout.MAGIC] == layout.PAGE_MAGIC
    assert words[layout.ATTEMPT] == 1
    assert words[layout.LAUNCHER_PID] == parent
    assert (words[layout.TASK_PID], words[layout.TASK_START]) == (pid, start)
    assert words[layout.LIMIT] == 1 << 30


def test_a_command_finds_signals_and_files_as_without_weft() -> None:
    bare = subprocess.run(["sh", "-c", SIGNALS_AND_FILES], check=False, capture_output=True, text=True, stdin=0)
    under_weft = weft_exec("sh", "-c", SIGNALS_AND_FILES, stdin=0)
    assert bare.stdout
    assert under_weft.stdout == bare.stdout


def test_input_and_output_are_the_commands_own() -> None:
    ended = weft_exec("sh", "-c", "cat; echo oops >&2", input="to\0\nfro")
    assert (ended.stdout, ended.stderr) == ("to\0\nfro", "oops\n")


def test_a_named_page_is_there_afterwards_and_any_other_is_gone(page: Path) -> None:
    assert weft_exec("--page", str(page), "--", "true").returncode == 0
    opened = open_page(str(page))
    assert opened.words[layout.TASK_PID] > 0
    assert start_time(opened.words[layout.TASK_PID]) != opened.words[layout.TASK_START]
    opened.close()
    assert weft_exec("--page", str(page), "--", "true").returncode == 0
    private = weft_exec("sh", "-c", 'echo "$WEFT_PAGE"').stdout.strip()
    assert Path(private).name.startswith("exec-")
    assert not Path(private).exists()


def test_the_command_has_a_process_group_of_its_own_and_to_stop_it_stops_nobody_else(
    launched: Callable[..., Launched],
) -> None:
    job = launched("SIGTERM")
    assert job.group == job.pid != os.getpgid(job.process.pid)
    os.killpg(job.group, signal.SIGSTOP)
    wait_until(lambda: state_of(job.pid) == "T")
    os.kill(job.process.pid, signal.SIGUSR1)  # it still listens, and it does not wake the stopped job
    wait_until(lambda: "SIGUSR1" in pending(job.pid))
    assert state_of(job.process.pid) == "S"
    assert state_of(job.pid) == "T"


def pending(pid: int) -> set[str]:
    """Signals sent to a process that has not taken them yet."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return {each.name for each in signal.Signals for mask in masks if mask >> (each - 1) & 1}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"])
def test_a_signal_to_weft_reaches_the_command(launched: Callable[..., Launched], name: str) -> None:
    job = launched(name)
    os.kill(job.process.pid, getattr(signal, name))
    assert job.ended() == (7, f"{name}\n")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130), ("SIGUSR1", 138)])
def test_a_command_that_does_not_handle_a_signal_dies_of_it(
    launched: Callable[..., Launched], name: str, code: int
) -> None:
    job = launched()
    os.kill(job.process.pid, getattr(signal, name))
    assert job.ended() == (code, "")


def test_a_stopped_command_can_be_ended(launched: Callable[..., Launched]) -> None:
    job = launched("SIGTERM")
    os.killpg(job.group, signal.SIGSTOP)
    wait_until(lambda: state_of(job.pid) == "T")
    os.kill(job.process.pid, signal.SIGTERM)
    assert job.ended() == (7, "SIGTERM\n")


def test_continuing_weft_does_not_end_a_pause(launched: Callable[..., Launched], page: Path) -> None:
    job = launched("SIGTERM", "SIGUSR2", options=("--page", str(page)))
    opened = open_page(str(page))
    opened.words[layout.STOPPED] = 3
    os.killpg(job.group, signal.SIGSTOP)
    wait_until(lambda: state_of(job.pid) == "T")
    os.kill(job.process.pid, signal.SIGCONT)
    os.kill(job.process.pid, signal.SIGUSR2)
    wait_until(lambda: "SIGUSR2" in pending(job.pid))  # handled after the first
    assert state_of(job.pid) == "T"
    opened.words[layout.STOPPED] = 0
    opened.close()
    os.kill(job.process.pid, signal.SIGCONT)
    assert job.ended() == (7, "SIGUSR2\n")


def test_ending_weft_ends_a_pause_in_every_session_of_the_command(
    launched: Callable[..., Launched], page: Path
) -> None:
    job = launched("SIGTERM", before_waiting="os.fork() or os.setsid()", options=("--page", str(page)))
    assert job.process.stdout
    pids = {job.pid, int(job.process.stdout.readline().split()[0])}
    opened = open_page(str(page))
    leader = opened.words[layout.TASK_PID]
    (rank,) = pids - {leader}
    opened.words[layout.STOPPED] = 1
    opened.close()
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(leader) == state_of(rank) == "T")
        os.kill(job.process.pid, signal.SIGTERM)
        wait_until(lambda: state_of(rank) == "S")
    finally:
        os.kill(rank, signal.SIGKILL)
    assert job.ended()[0] == 7


def test_what_was_ignored_stays_ignored_unless_the_command_handles_it(launched: Callable[..., Launched]) -> None:
    job = launched("SIGUSR1", before="trap '' HUP INT USR1")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
        os.kill(job.process.pid, number)
    assert job.ended() == (7, "SIGUSR1\n")


def test_a_parent_that_ignores_the_end_of_children_changes_nothing() -> None:
    ignoring = "from signal import *; import os, sys; signal(SIGCHLD, SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    asking = "from signal import *; import sys; print(getsignal(SIGCHLD) == SIG_IGN); sys.exit(7)"
    command = [*PYTHON, "-c", ignoring, *WEFT_EXEC, *PYTHON, "-c", asking]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "True\n", "")


def test_weft_that_is_told_to_stop_stops_with_its_command_and_goes_on_with_it(
    launched: Callable[..., Launched],
) -> None:
    job = launched("SIGUSR1", new_session=False)
    os.kill(job.process.pid, signal.SIGTSTP)
    wait_until(lambda: state_of(job.process.pid) == state_of(job.pid) == "T")
    os.kill(job.process.pid, signal.SIGCONT)
    os.kill(job.process.pid, signal.SIGUSR1)
    assert job.ended() == (7, "SIGUSR1\n")


def test_where_no_shell_could_continue_it_nothing_stops(launched: Callable[..., Launched]) -> None:
    job = launched("SIGUSR1", new_session=True)
    os.kill(job.process.pid, signal.SIGTSTP)
    os.kill(job.process.pid, signal.SIGUSR1)
    assert job.ended() == (7, "SIGUSR1\n")


def test_a_lower_limit_that_is_there_already_stays() -> None:
    limits = (
        f"import os; from weft.node.shepherd.command import *; limit_memory({1 << 30})\n"
        f"os.execvp('sh', ['sh', '-c', '{ULIMITS}'])"
    )
    said = subprocess.run(
        ["sh", "-c", 'ulimit -Sd 524288; exec "$@"', "sh", sys.executable, "-c", limits],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == ["524288", "1048576"]


def test_a_machine_that_can_start_no_more_processes_is_an_error(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    with (
        new_task_page(page) as made,
        signals_held() as mask,
        pytest.raises(WeftError, match="no process can be started: Resource temporarily unavailable"),
    ):
        run(["true"], made, os.environ, mask)


@pytest.mark.parametrize(
    ("name", "content", "mode", "code", "error", "hint"),
    [
        ("gone", None, 0, 127, 'there is no command "gone"', "PATH"),
        ("train.py", None, 0, 127, 'there is no command "train.py"', "weft exec -- python train.py"),
        ("python train.py", None, 0, 127, 'there is no command "python train.py"', "without quotes"),
        ("./train.py", "", 0o644, 126, "./train.py cannot be run: permission denied", "weft exec -- python ./train.py"),
        ("./run", "", 0o644, 126, "./run cannot be run: permission denied", "chmod +x ./run"),
        (".", None, 0, 126, ". cannot be run: it is a folder", "a program in it"),
        ("./run", "echo", 0o755, 126, "./run cannot be run: exec format error", "#!/bin/sh"),
        ("./run", "#!/gone", 0o755, 126, "./run cannot be run: what its first line names is not there", "first line"),
    ],
)
def test_a_command_that_cannot_start_is_answered_as_a_shell_would(
    tmp_path: Path, name: str, content: str | None, mode: int, code: int, error: str, hint: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    ended = weft_exec("--", name, "--flag", cwd=tmp_path)
    assert ended.returncode == code
    said_error, said_hint = ended.stderr.splitlines()
    assert said_error == f"error: {error}"
    assert said_hint.startswith("hint: ")
    assert hint in said_hint
