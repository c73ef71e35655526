"""The native library as a job meets it: served from the import of torch on, and run without where it is not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from underweft import SCRIPTS, bare, environment, forked_under_weft, marked_steps, page_folder, under_weft
from waiting import PATIENCE_S, wait_until
from weft.core.errors import InputError
from weft.node.devices.preload import INJECT
from weft.node.exec.command_limits import the_library
from weft.node.task.gang_barrier import PauseRefusedError
from weft.node.task.handle import attach
from weft.runtime.allocator import SIGNATURES, VERSION, NativeState
from weft.runtime.page import lane_page, layout
from weft.runtime.page.page_file import claimed_beside, create

NATIVE = Path(__file__).parents[2] / "native"
LIBRARY, WHY_NOT = the_library()
served = pytest.mark.skipif(not LIBRARY, reason=WHY_NOT)
compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")

TRAINS = """
import os, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))  # 32 MiB
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    optimizer.zero_grad(); model(torch.ones(64, 1024)).square().mean().backward(); optimizer.step()
"""
UNTIL_TOLD = "while not os.path.exists(sys.argv[1]): step()\n"
SAYS_SUM = "print(sum(parameter.double().sum().item() for parameter in model.parameters()))\n"


def training(*words: str, code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", TRAINS + code, *words)


@pytest.fixture
def page() -> Iterator[Path]:
    with page_folder() as folder:
        create(str(folder / "a.page"), {layout.LIMIT: 1 << 30}).close()
        yield folder / "a.page"


def injected(page: Path, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**environment(), "WEFT_PAGE": str(page), "PYTHONPATH": INJECT, "WEFT_TIER": "", **more}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


# ---- twins ---------------------------------------------------------------------------------------------------------


def test_the_state_is_read_as_the_header_lays_it_out() -> None:
    text = (NATIVE / "weft_native.h").read_text()
    body = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).partition("struct weft_native_state {")[2].partition("}")[0]
    assert re.findall(r"\w+", body.replace("uint64_t", "")) == list(NativeState.NAMES)
    assert re.findall(r"WEFT_NATIVE_VERSION (\d+)", text) == [str(VERSION)]


def test_every_function_of_the_library_is_known_by_its_arguments() -> None:
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "weft_native.h").read_text(), flags=re.DOTALL)
    declared = re.findall(r"WEFT_EXPORT [^;]*?weft_native_(\w+)\(([^)]*)\)", text)
    counted = {name: 0 if words == "void" else words.count(",") + 1 for name, words in declared}
    del counted["version"]
    assert counted == {name: len(arguments) for name, (_, arguments) in SIGNATURES.items()}


@compiled
def test_the_c_header_lays_out_the_same_lane(tmp_path: Path) -> None:
    sizes = {"MEMBER_WORDS", "NO_MEMBER"}
    of_lane = {n: v for n, v in vars(lane_page).items() if n.isupper() and n not in sizes and not n.startswith("LANE_")}
    of_member = {n: v for n, v in vars(lane_page.Member).items() if n.isupper()}
    lines = [f"offsetof(struct weft_lane, {n.lower()}) / 8" for n in of_lane]
    lines += [f"offsetof(struct weft_member, {n.lower()}) / 8" for n in of_member]
    lines += ["sizeof(struct weft_member) / 8", "WEFT_NO_MEMBER", "WEFT_LANE_BYTES", "WEFT_LANE_MAGIC"]
    lines += ["WEFT_LANE_VERSION", "WEFT_LANE_MEMBERS"]
    body = "\n".join(f'printf("%llu\\n", (unsigned long long)({line}));' for line in lines)
    source = tmp_path / "lane.c"
    source.write_text(
        f"#include <stddef.h>\n#include <stdio.h>\n#include <{NATIVE}/weft_lane.h>\n"
        f"int main(void) {{\n{body}\nreturn 0; }}\n"
    )
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", str(source), "-o", str(tmp_path / "lane")], check=True)
    printed = subprocess.run([str(tmp_path / "lane")], capture_output=True, text=True, check=True).stdout
    fixed = [lane_page.MEMBER_WORDS, lane_page.NO_MEMBER, lane_page.LANE_BYTES, lane_page.LANE_MAGIC]
    in_python = [*of_lane.values(), *of_member.values(), *fixed, lane_page.LANE_VERSION, lane_page.LANE_MEMBERS]
    assert list(map(int, printed.split())) == in_python


# ---- without it ----------------------------------------------------------------------------------------------------


def test_a_process_that_lost_the_library_says_what_it_runs_without(page: Path) -> None:
    done = injected(page, "import torch; print(torch.ones(3).sum().item())", WEFT_LANE="/somewhere")
    assert (done.returncode, done.stdout) == (0, "3.0\n")
    assert done.stderr == (
        "weft: the native library is not under this process (was LD_PRELOAD changed?): "
        "it runs without its limit, its lane\n"
    )


@compiled
def test_a_library_of_another_version_is_said_and_not_used(tmp_path: Path, page: Path) -> None:
    (tmp_path / "other.c").write_text("unsigned long weft_native_version(void) { return 9; }\n")
    other = str(tmp_path / "libweft.so")
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", other], check=True)
    done = injected(page, "import torch; print(torch.ones(3).sum().item())", LD_PRELOAD=other)
    assert (done.returncode, done.stdout) == (0, "3.0\n")
    assert done.stderr.startswith(
        f"weft: the native library libweft.so is of version 9, and this weft knows {VERSION}: "
    )


# ---- with it -------------------------------------------------------------------------------------------------------


@served
def test_an_unmodified_script_computes_the_same_and_its_memory_is_known() -> None:
    script = SCRIPTS / "cnn.py"
    with under_weft(sys.executable, str(script)) as running:
        out, err, code = running.end()
        assert (out, code) == (bare(script), 0), err
        (rank,) = running.task.status().ranks
    assert rank.step == marked_steps(script)
    assert (rank.native_version, rank.can_swap, rank.overflow_bytes) == (VERSION, True, 0)
    assert 0 < rank.persistent_bytes < rank.peak_bytes <= rank.persistent_bytes + rank.ephemeral_bytes + (64 << 20)


@served
def test_what_is_over_the_limit_overflows_or_is_refused() -> None:
    command = (sys.executable, "-c", TRAINS + "for _ in range(9): step()\n" + SAYS_SUM)
    expected = subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout
    with forked_under_weft(*command, options=("--limit", "40M")) as running:
        assert running.end()[::2] == (expected, 0)
        (rank,) = running.task.status().ranks
    assert rank.overflow_bytes > 0
    with forked_under_weft(*command, options=("--limit", "40M", "--strict")) as running:
        _, err, code = running.end()
    assert code == 1
    assert re.search(r"weft: the limit refuses .* limit 40\.0 MiB", err)
    assert "can't allocate memory" in err


@served
def test_swapping_out_gives_memory_back_and_the_job_goes_on_where_it_was(tmp_path: Path) -> None:
    over = tmp_path / "over"
    with forked_under_weft(*training(str(over), code=UNTIL_TOLD)) as running:
        running.wait_for_steps()
        running.task.pause(grace_s=PATIENCE_S)
        before = running.task.status().ranks[0]
        assert before.can_swap
        for _ in range(2):
            pause = running.task.pause("swap-out")
            assert (pause.how, pause.depth, running.task.status().depth) == ("boundary", "swap-out", "swap-out")
        after = running.task.status().ranks[0]
        assert before.host_bytes - after.host_bytes > 0.9 * before.persistent_bytes
        with pytest.raises(PauseRefusedError, match=r"has not called weft\.init"):
            running.task.pause("checkpoint")
        wait_until(lambda: running.task.status().depth == "swap-out", "it is swapped out as it was")
        running.task.resume()
        wait_until(lambda: running.task.step > pause.step + 2, "it runs on")
        over.touch()
        assert running.end()[1:] == ("", 0)


@served
def test_a_strict_job_can_be_swapped_out(tmp_path: Path) -> None:
    over = tmp_path / "over"
    options = ("--limit", "1G", "--strict")
    with forked_under_weft(*training(str(over), code=UNTIL_TOLD), options=options) as running:
        wait_until(lambda: running.task.step > 1, "it trains")
        assert running.task.status().ranks[0].can_swap
        assert running.task.pause("swap-out", grace_s=PATIENCE_S).depth == "swap-out"
        running.task.resume()
        over.touch()
        assert running.end()[2] == 0


@served
def test_what_the_duty_inserts_is_in_no_step() -> None:
    """A job of a duty of 25 % rests three times as long as it computes; on a busy machine it waits besides."""
    code = """
began, computed = time.monotonic(), time.process_time()
for _ in range(41): step()
print(time.monotonic() - began, time.process_time() - computed)
"""
    with forked_under_weft(*training(code=code), options=("--duty", "25")) as running:
        out, err, status = running.end()
        assert status == 0, err
        lasted_s, computed_s = map(float, out.split())
        rank = running.task.status().ranks[0]
        steps_s = sum(running.task._pages[0].look().durations_ns) / 1e9
    assert rank.idle_s > 2 * computed_s
    assert steps_s + rank.idle_s <= lasted_s + 0.001


@served
@pytest.mark.parametrize(("limit", "overflows"), [("64M", True), ("1G", False)])
def test_a_burst_is_told_of_within_its_step(limit: str, overflows: bool, tmp_path: Path) -> None:
    """Whoever makes room for it can do so before it does not fit, or before the next one."""
    code = f"""
for _ in range(5): step()
burst = torch.ones(40_000_000)
open({str(tmp_path / "burst")!r}, "w").close()
while not os.path.exists({str(tmp_path / "over")!r}): time.sleep(0.01)
"""
    with forked_under_weft(*training(code=code), options=("--limit", limit)) as running:
        wait_until((tmp_path / "burst").exists, "it has burst")
        rank = running.task.status().ranks[0]
        assert (rank.ephemeral_bytes >= 160_000_000, rank.overflow_bytes >= 160_000_000) == (True, overflows)
        (tmp_path / "over").touch()
        assert running.end()[2] == 0


@served
@pytest.mark.parametrize("lane", ["/proc/self/a", "foreign"])
def test_a_lane_that_cannot_be_joined_is_said_and_the_job_runs_on(lane: str, page: Path) -> None:
    (page.parent / "foreign").write_bytes(b"not a lane" * 1000)
    path = str(page.parent / lane)
    code = TRAINS + "for _ in range(5): step()\nprint('done')"
    more = {"LD_PRELOAD": LIBRARY, "WEFT_LANE": path, "WEFT_LANE_CAPACITY": str(1 << 30)}
    done = injected(page, code, **more)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert re.fullmatch(r"weft: no lane: .*; continuing without\n", done.stderr)
    assert (page.parent / "foreign").read_bytes() == b"not a lane" * 1000
    with attach(page) as task:
        assert (task.step, task.status().ranks[0].turns) == (5, 0)


@served
def test_members_of_a_lane_take_turns_and_the_lane_goes_with_the_last_of_them() -> None:
    code = "for _ in range(30): step()\n" + SAYS_SUM
    expected = subprocess.run(training(code=code), capture_output=True, text=True, check=True, env=environment()).stdout
    with page_folder() as folder:
        options = ("--lane", str(folder / "lane"), "--lane-capacity", "256M")
        both = [forked_under_weft(*training(code=code), options=options) for _ in range(2)]
        with both[0] as one, both[1] as other:
            for running in (one, other):
                assert running.end() == (expected, "", 0)
                assert running.task.status().ranks[0].turns == 29  # the first update is not known to end a step
        assert list(folder.iterdir()) == []


@served
def test_a_forked_child_lets_its_parents_memory_alone() -> None:
    forks = """
for _ in range(5):
    step()
    pid = os.fork()
    if pid == 0:
        total = sum(parameter.sum().item() for parameter in model.parameters()) + torch.ones(10**6).sum().item()
        os._exit(3 if total == total else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
"""
    command = training(code=forks + SAYS_SUM)
    expected = subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout
    with forked_under_weft(*command) as running:
        assert running.end() == (expected, "", 0)
        assert len(running.task.status().ranks) == 1


@served
def test_threads_that_step_take_boundaries_one_after_the_other() -> None:
    threads = """
import threading
def work():
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad(); model(torch.ones(64, 256)).mean().backward(); optimizer.step()
workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print("done")
"""
    with (
        page_folder() as folder,
        forked_under_weft(*training(code=threads), options=("--lane", str(folder / "lane"))) as running,
    ):
        assert running.end() == ("done\n", "", 0)


# ---- from outside --------------------------------------------------------------------------------------------------


def test_duty_and_limit_are_set_for_all_ranks(page: Path) -> None:
    beside = create(claimed_beside(str(page), 1))
    with attach(page) as task:
        task.set_duty(40)
        task.set_limit(1 << 30)
        assert (beside.words[layout.DUTY], beside.words[layout.LIMIT]) == (40, 1 << 30)
        for wrong in (0, 101, 1.5, "50"):
            with pytest.raises(InputError, match="is no duty"):
                task.set_duty(wrong)  # type: ignore[arg-type]
        for wrong in (-1, 1 << 63, 1e9):
            with pytest.raises(InputError, match="is no limit"):
                task.set_limit(wrong)  # type: ignore[arg-type]
    beside.close()


def test_a_job_is_told_where_its_limit_lane_and_overflow_are(tmp_path: Path) -> None:
    if not LIBRARY:
        pytest.skip(WHY_NOT)
    code = "import os; print({n: t for n, t in os.environ.items() if n.startswith(('WEFT_', 'LD_PRE'))})"
    options = ("--overflow", str(tmp_path / "tier"), "--lane", "some", "--lane-capacity", "1G", "--lane-base", "-3")
    with under_weft(sys.executable, "-c", code, options=options, env={**environment(), "LD_PRELOAD": ""}) as running:
        out, _, status = running.end()
        words = running.task._pages[0].words
        assert (words[layout.LANE_BASE], words[layout.DUTY]) == (2**64 - 3, 100)
    assert status == 0
    said = eval(out)  # noqa: S307 - our own words
    assert said["LD_PRELOAD"] == LIBRARY
    assert (said["WEFT_TIER"], said["WEFT_LANE_CAPACITY"]) == (str(tmp_path / "tier"), str(1 << 30))
    assert Path(said["WEFT_LANE"]).name == "some.lane"
    assert not os.path.exists(said["WEFT_LANE"])  # noqa: PTH110
