"""`weft exec` as a person at a terminal sees it: its words, Ctrl-C, Ctrl-Z, and what it loads."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Weft, command_line
from typist import Typist

from waiting import PATIENCE_S, state_of, wait_until
from weft.node.exec import command_limits
from weft.runtime.page import lane_page

MEMORY = "/dev/shm"  # noqa: S108 - a tmpfs
PYTHON = f"{sys.executable} -I -S"
CONTROL_C, CONTROL_Z, CONTROL_BACKSLASH = "\x03", "\x1a", "\x1c"
ANSWERS = """
import os
print(f"<{os.getpid()}>", flush=True)
for line in open("/dev/tty"):
    print("<" + line.strip().upper() + ">", flush=True)
    if line == "bye\\n":
        break
"""
LEAVES = """
import os, struct, sys
from weft.runtime.page import layout
from weft.runtime.page.page_file import claimed_beside, create, open_page
path = os.environ["WEFT_PAGE"]
page = create(claimed_beside(path, 1)) if "beside" in sys.argv else open_page(path)
page.words[layout.STATE] = 5 << 8 | (layout.RankState.ENDED if "ended" in sys.argv else layout.RankState.LEAVING)
page.words[layout.CLAIM_PID], page.words[layout.CHECKPOINT] = os.getpid(), 43
sys.exit(75)
"""


@pytest.fixture
def shell(at: Callable[..., Typist]) -> Typist:
    """A person at bash, with `weft` on the path and answers.py in the folder."""
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    Path("answers.py").write_text(ANSWERS)
    Path("bin").mkdir()
    Path("bin/weft").write_text(f'#!/bin/sh\nexec {" ".join(command_line())} "$@"\n')
    Path("bin/weft").chmod(0o755)
    path = f"{Path.cwd() / 'bin'}:{os.environ['PATH']}"
    shell = at("bash", "--norc", "--noprofile", "--noediting", "-i", PS1="at-prompt: ", PATH=path)
    shell.sees("at-prompt: ")
    return shell


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command_line("exec", *words), check=False, capture_output=True, text=True, timeout=PATIENCE_S)


def test_an_interactive_program_works_as_without_weft(shell: Typist) -> None:
    shell.types(f"weft exec -- {PYTHON} -q\n")
    shell.sees(">>> ")
    shell.types("6 * 7\n")
    shell.sees("42\r\n>>> ")
    shell.types(CONTROL_C + "\n")  # the line end, because Python misses an interrupt just before it reads
    shell.sees("KeyboardInterrupt\r\n>>> ")
    shell.types("raise SystemExit(3)\n")
    shell.sees("at-prompt: ")
    shell.types("echo code=$?\n")
    shell.sees("code=3")


def test_control_c_ends_the_command_and_the_loop_around_it(shell: Typist) -> None:
    shell.types(f"for i in 1 2; do weft exec -- {PYTHON} answers.py; done\n")
    shell.pid()
    shell.types(CONTROL_C)
    shell.sees("KeyboardInterrupt")
    shell.sees("at-prompt: ")
    shell.types("echo code=$?\n")
    shell.sees("code=130")


def test_control_c_ends_the_script_around_the_command(shell: Typist) -> None:
    Path("script.sh").write_text(f"weft exec -- {PYTHON} answers.py\necho went on\n")
    shell.types("bash script.sh; echo code=$?\n")
    shell.pid()
    shell.types(CONTROL_C)
    assert "went on" not in shell.sees(r"(?s)KeyboardInterrupt.*at-prompt: ")[0]


def test_a_quit_ends_the_command(shell: Typist) -> None:
    shell.types(f"ulimit -c 0; weft exec -- {PYTHON} answers.py; echo code=$?\n")
    shell.pid()
    shell.types(CONTROL_BACKSLASH)
    shell.sees("code=131")


def test_control_z_gives_the_shell_back_and_fg_the_command(shell: Typist) -> None:
    shell.types(f"weft exec -- {PYTHON} answers.py; echo code=$?\n")
    pid = shell.pid()
    for word in ("once", "twice"):
        shell.types(CONTROL_Z)
        shell.sees("Stopped")
        shell.sees("at-prompt: ")
        assert state_of(pid) == "T"
        shell.types("fg\n")
        shell.types(f"{word}\n")
        shell.sees(f"<{word.upper()}>")
    shell.types("bye\n")
    shell.sees("<BYE>\r\nat-prompt: ")


def test_control_z_stops_a_pipeline_and_a_script_as_a_whole(shell: Typist) -> None:
    Path("script.sh").write_text(f"weft exec -- {PYTHON} answers.py\n")
    shell.types("bash script.sh | cat\n")
    pid = shell.pid()
    shell.types(CONTROL_Z)
    shell.sees("Stopped")
    shell.sees("at-prompt: ")
    shell.types("fg\n")
    shell.types("hello\n")
    shell.sees("<HELLO>")
    shell.types("bye\n")
    shell.sees("<BYE>\r\nat-prompt: ")
    assert not Path(f"/proc/{pid}").exists()


def test_in_the_background_it_runs_until_it_wants_the_terminal(shell: Typist) -> None:
    shell.types(f"weft exec -- {PYTHON} answers.py &\n")
    pid = shell.pid()
    wait_until(lambda: state_of(pid) == "T")
    shell.types("wait\n")
    shell.sees("Stopped")
    shell.sees("at-prompt: ")
    shell.types("fg\n")
    shell.types("hello\n")
    shell.sees("<HELLO>")
    shell.types("bye\n")
    shell.sees("<BYE>\r\nat-prompt: ")


def test_a_command_at_the_end_of_a_pipe_may_still_ask_the_terminal(shell: Typist) -> None:
    shell.types(f"true | weft exec -- {PYTHON} answers.py\n")
    shell.pid()
    shell.types("hello\n")
    shell.sees("<HELLO>")
    shell.types(CONTROL_Z)
    shell.sees("Stopped")
    shell.sees("at-prompt: ")
    shell.types("fg\n")
    shell.types("bye\n")
    shell.sees("<BYE>\r\nat-prompt: ")


def test_a_pause_that_stops_the_command_does_not_disturb_the_shell(shell: Typist) -> None:
    shell.types(f"weft exec -- {PYTHON} answers.py\n")
    pid = shell.pid()
    os.killpg(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == "T")
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    wait_until(lambda: state_of(parent) == "S")
    os.killpg(pid, signal.SIGCONT)
    shell.types("bye\n")
    shell.sees(r"<BYE>\r\nat-prompt: ")
    assert "Stopped" not in shell._seen


def test_without_a_shell_control_z_does_nothing(at: Callable[..., Typist]) -> None:
    Path("answers.py").write_text(ANSWERS)
    typist = at(*command_line("exec", "--", *PYTHON.split(), "answers.py"))
    typist.pid()
    typist.types(CONTROL_Z)
    typist.types("hello\n")
    typist.sees("<HELLO>")
    typist.types("bye\n")
    typist.sees("<BYE>")
    assert typist.process.wait(PATIENCE_S) == 0


def test_a_command_that_cannot_start_gives_the_terminal_back(shell: Typist) -> None:
    shell.types("weft exec -- gone; echo code=$?\n")
    shell.sees('error: there is no command "gone"')
    shell.sees("code=127")
    shell.sees("at-prompt: ")


@pytest.mark.parametrize("words", [["--"], []])
def test_options_after_the_command_are_the_commands(words: list[str]) -> None:
    ended = run(*words, "printf", "%s,", "--page", "--help", "--", "-x")
    assert (ended.returncode, ended.stdout) == (0, "--page,--help,--,-x,")


@pytest.mark.parametrize("where", ["", "beside"])
def test_a_command_that_left_after_a_checkpoint_says_where_it_goes_on(where: str) -> None:
    Path("leaves.py").write_text(LEAVES)
    ended = run("--", sys.executable, "leaves.py", where)
    assert (ended.returncode, ended.stdout) == (75, "")
    assert ended.stderr == "weft: checkpointed at step 42; run the same command to continue\n"


def test_an_exit_code_of_75_alone_says_nothing() -> None:
    Path("leaves.py").write_text(LEAVES)
    for command in (["sh", "-c", "exit 75"], [sys.executable, "leaves.py", "ended"]):
        ended = run(*command)
        assert (ended.returncode, ended.stdout, ended.stderr) == (75, "", "")


def test_the_folder_of_checkpoints_is_made_and_named_in_full() -> None:
    ended = run("--checkpoints", "runs/a", "--", "sh", "-c", 'echo "$WEFT_CHECKPOINTS"; ls -A "$WEFT_CHECKPOINTS"')
    assert ended.stdout == f"{Path.cwd() / 'runs' / 'a'}\n"


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([], "no command is given", "weft exec -- python train.py"),
        (["--page", "few.csv"], "no command is given", "weft exec -- python train.py"),
        (["--pge", "x", "true"], "No such option '--pge'", "--help"),
        (["--limit", "much", "true"], '"much" is not a size', "512M"),
        (["--checkpoints", "few.csv", "true"], "checkpoints cannot be written to few.csv: file exists", "another"),
        (["--checkpoints", "few.csv/a", "true"], "few.csv/a: not a directory", "another"),
        (["--checkpoints", "/proc/self", "true"], "checkpoints cannot be written to /proc/self: ", "another"),
        (["--page", "/dev", "true"], "", "--page /dev/shm/NAME"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(
    weft: Weft, words: list[str], error: str, hint: str
) -> None:
    result = weft("exec", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    said_error, said_hint = result.stderr.splitlines()
    assert error in said_error.removeprefix("error: ")
    assert hint in said_hint.removeprefix("hint: ")


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["--limit", "256"], "with a limit of 256 PyTorch could hardly do anything", "did you mean 256M?"),
        (["--limit", "1023K"], "with a limit of 1023K PyTorch could hardly do anything", "at least 1M"),
        (["--strict"], "there is no --limit to be strict about", "--limit 2G --strict"),
        (["--limit", "1G", "--overflow", MEMORY], f"{MEMORY} is on tmpfs, in memory", "--overflow /var/tmp"),
        (["--overflow", "few.csv"], "nothing can overflow to few.csv: file exists", "--overflow DIR"),
        (["--overflow", "/proc/self"], "nothing can overflow to /proc/self: ", "another folder"),
        (["--duty", "0"], "0 is not in the range 1<=x<=100", "--help"),
        (["--lane-weight", "2"], "the --lane-... options need a lane", "--lane NAME"),
        (["--lane", ""], '"" is no lane', "a plain name"),
        (["--lane", "./a"], "a lane's page must be in memory", "--lane /dev/shm/NAME"),
        (["--lane", f"{MEMORY}/gone/a"], "there is no folder /dev/shm/gone", "a plain name"),
        (["--lane", MEMORY], "", "--lane /dev/shm/NAME"),
        (["--lane", "a", "--lane-capacity", "much"], '"much" is not a size', "512M"),
        (["--lane", "a", "--lane-capacity", "5"], "a lane of 5 would hold next to nothing", "1M or more"),
        (["--lane", "a", "--lane-base", str(1 << 63)], f"--lane-base {1 << 63} is too large", "64 bits"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, words: list[str], error: str, hint: str
) -> None:
    monkeypatch.setattr(command_limits, "the_library", lambda: ("/somewhere/libweft.so", ""))
    test_what_cannot_be_done_is_refused_before_anything_starts(weft, [*words, "true"], error, hint)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not a lane" * 1000, "is not a lane of weft"),
        (b"WEFT", "is not a lane of weft"),
        (
            struct.pack("=QQQ", lane_page.LANE_MAGIC, 9, lane_page.LANE_BYTES),
            "is a lane of version 9; this weft knows 1",
        ),
        (struct.pack("=QQQ", lane_page.LANE_MAGIC, 1, lane_page.LANE_BYTES), "is a damaged lane: 24 bytes long"),
    ],
)
def test_a_foreign_file_is_no_lane_and_stays_as_it_is(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.setattr(command_limits, "the_library", lambda: ("/somewhere/libweft.so", ""))
    with tempfile.NamedTemporaryFile(dir=MEMORY, prefix="weft-test-") as file:
        file.write(content)
        file.flush()
        result = weft("exec", "--lane", file.name, "true")
        assert (result.exit_code, Path(file.name).read_bytes()) == (2, content)
    assert f"error: {file.name} {said}\nhint: it is left as it was" in result.stderr


@pytest.mark.parametrize(
    "words",
    [["--lane", "a"], ["--duty", "50"], ["--overflow", "."], ["--limit", "1G", "--strict"]],
    ids=lambda it: it[0],
)
def test_what_needs_the_library_is_refused_without_it(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(command_limits, "the_library", lambda: ("", "weft was installed without its native library"))
    option = next(word for word in reversed(words) if word.startswith("--"))
    error = f"{option} is not available: weft was installed without"
    test_what_cannot_be_done_is_refused_before_anything_starts(weft, [*words, "true"], error, "weft doctor")
    for limit in ("256", "63M"):
        error = f"with a limit of {limit} no Python interpreter could start"
        test_what_cannot_be_done_is_refused_before_anything_starts(weft, ["--limit", limit, "true"], error, "64M")


def test_the_limit_is_explained_as_it_is(weft: Weft) -> None:
    said = " ".join(weft("exec", "--help").stdout.split())
    assert "bounds what PyTorch allocates in each process of the command, and nothing else" in said
    assert "all private memory (RLIMIT_DATA) of each process instead" in said


def test_it_loads_nothing_that_takes_long() -> None:
    said = subprocess.run(
        [sys.executable, "-X", "importtime", *command_line("exec", "true")[3:]],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    ).stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in said.splitlines()}
    assert "click" in loaded
    assert not loaded & {"numpy", "scipy", "plotly", "rich", "pandas", "tempfile", "subprocess", "asyncio"}
