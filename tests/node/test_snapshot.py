"""A control page as hostile input: whatever 4096 bytes it has, a look at it gives sane values or says what is wrong."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waiting import wait_until
from weft.node.metrics.step_rate import Gauge, Pace, RateSample, with_sample
from weft.node.task.control_page import ControlPage, create_page, open_control_page
from weft.node.task.handle import attach
from weft.node.task.page_snapshot import BOUNDS, DamagedPageError, Snapshot, checked
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth, RankState, StepSource
from weft.runtime.page.page_file import PageError, create

EDGES = (0, 1, 0xFF, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
HEAD = {layout.MAGIC: layout.PAGE_MAGIC, layout.VERSION: 2, layout.SIZE: layout.PAGE_BYTES, layout.DUTY: 100}
words_of_a_page = st.dictionaries(st.sampled_from([word for word, _, _ in BOUNDS]), st.sampled_from(EDGES))


def page_with(words: dict[int, int]) -> bytes:
    content = bytearray(layout.PAGE_BYTES)
    for word, number in {**HEAD, **words}.items():
        struct.pack_into("=Q", content, 8 * word, number)
    return bytes(content)


def use_all_of(look: Snapshot) -> None:
    """What the coordinator makes of a snapshot: indices, kills, sums, JSON."""
    words = look.words
    names = (RankState.NAMES[look.state], Depth.NAMES[look.wanted], StepSource.NAMES[words[layout.SOURCE]])
    assert all(names)
    assert Depth.NAMES[words[layout.DEPTH]]
    assert 0 <= words[layout.CLAIM_PID] < 1 << 31
    assert 1 <= words[layout.DUTY] <= 100
    assert len(look.durations_ns) <= layout.DURATIONS_LENGTH
    assert all(math.isfinite(each / 1e9) for each in look.durations_ns)
    struct.pack("=Q", (words[layout.REQUEST] >> 8) + 1 << 8 | Depth.LEAVE)
    json.dumps([look.step, look.message, *look.metrics], allow_nan=False)
    assert look.message.isprintable()
    assert 1024 * words[layout.PERSISTENT] < 1 << 63


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=0, max_size=2 * layout.PAGE_BYTES))
def test_any_bytes_are_a_sane_page_or_a_reason(content: bytes) -> None:
    with suppress(DamagedPageError):
        use_all_of(checked("a.page", content))


@given(words_of_a_page, st.binary(min_size=256, max_size=256), st.integers(0, layout.PAGE_BYTES - 256))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_edge_values_and_noise_are_a_sane_page_or_a_reason(words: dict[int, int], noise: bytes, at: int) -> None:
    content = bytearray(page_with(words))
    content[at : at + 256] = noise
    for tried in (page_with(words), bytes(content)):
        with suppress(DamagedPageError):
            use_all_of(checked("a.page", tried))


@pytest.mark.parametrize("name", [name for _, name, _ in BOUNDS][:32])
def test_a_word_out_of_bounds_is_named(name: str) -> None:
    word, largest = next((word, largest) for word, each, largest in BOUNDS if each == name)
    with pytest.raises(DamagedPageError, match=f"{name} is {largest + 1}"):
        checked("a.page", page_with({word: largest + 1}))


def test_a_loss_that_is_no_number_damages_no_page() -> None:
    word = layout.METRICS
    content = bytearray(page_with({layout.METRICS_COUNT: 2}))
    for slot, (name, value) in enumerate(((b"loss", math.nan), (b"a\x1b[2Jb\xff", math.inf))):
        struct.pack_into("=24sd", content, 8 * (word + slot * layout.METRIC_WORDS), name, value)
    metrics = checked("a.page", bytes(content)).metrics
    assert math.isnan(metrics["loss"])
    assert metrics["a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}"] == math.inf


steps = st.tuples(st.integers(0, 1 << 53), st.floats(0, 1e10, allow_nan=False), st.floats(0, 1e10, allow_nan=False))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=30))
def test_steps_that_jump_and_go_back_give_a_finite_rate_or_none(seen: list[tuple[int, float, float]]) -> None:
    gauge, pace = Gauge(), Pace()
    for now_s, (step, stepped_s, _) in enumerate(seen):
        look = RateSample(now_s=now_s, step=step, stepped_s=min(now_s, stepped_s), is_held_back=step % 2 == 0)
        gauge, pace = with_sample(gauge, look), pace.seen(look)
        assert gauge.rate is None or 0 <= gauge.rate.rate_hz < 1e7
        assert pace.rate_hz is None or math.isfinite(pace.rate_hz)


# ---- the file


@pytest.fixture
def page(shm: Path) -> Iterator[ControlPage]:
    page = create_page(str(shm / "a.page"))
    yield page
    page.close()


def test_a_page_that_is_truncated_is_damaged_and_nothing_worse(page: ControlPage) -> None:
    for size in (4095, 100, 0):
        os.truncate(page.path, size)
        with pytest.raises(DamagedPageError, match=f"{size} bytes are left"):
            page.look()
        page.wake(layout.REQUEST)
        with pytest.raises(DamagedPageError, match="truncated"):
            page.wait(layout.PAGE_BYTES // 8 - 1, 0, 1.0)
    page.words[layout.DUTY] = 50
    with pytest.raises(DamagedPageError):
        page.look()


def test_a_waiter_is_woken_and_a_truncated_page_ends_its_wait(page: ControlPage) -> None:
    source = (
        "import sys; from weft.node.task.control_page import *; from weft.runtime.page import layout\n"
        "page = open_control_page(sys.argv[1]); print('waits', flush=True)\n"
        "while page.words[layout.STATE] == 0: page.wait(layout.STATE, 0, 60.0)\n"
        "print(page.words[layout.STATE])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", source, page.path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    page.words[layout.STATE] = 7
    wait_until(lambda: page.wake(layout.STATE) or process.poll() is not None, "it is woken")
    assert process.stdout.read() == "7\n"
    process.stdout.close()


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "link", "loop", "dangling", "zero", "short"])
def test_what_is_no_page_is_refused_without_waiting(shm: Path, kind: str) -> None:
    path = shm / "b.page"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
        case "link":
            create(str(shm / "c.page")).close()
            path.symlink_to(shm / "c.page")
        case "loop":
            path.symlink_to(path)
        case "dangling":
            path.symlink_to(shm / "nothing")
        case "zero":
            path.symlink_to("/dev/zero")
        case "short":
            path.write_bytes(b"WEFTPAGE")
    with pytest.raises(PageError):
        open_control_page(str(path))


# ---- processes


def sleeper(**env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], env={**os.environ, **env}, start_new_session=True)


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_page_that_names_a_stranger_has_it_stopped_by_nobody(page: ControlPage) -> None:
    stranger = sleeper()
    try:
        page.words[layout.TASK_PID], page.words[layout.TASK_START] = stranger.pid, start_of(stranger.pid)
        page.words[layout.CLAIM_PID], page.words[layout.CLAIM_START] = stranger.pid, start_of(stranger.pid)
        page.words[layout.LAUNCHER_PID], page.words[layout.LAUNCHER_START] = os.getppid(), start_of(os.getppid())
        with attach(page.path) as task:
            assert task.roots == set()
            assert task.stop() == 0
        assert Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()


def test_a_process_that_was_started_for_a_page_is_known_by_it_even_when_the_page_is_overwritten(
    page: ControlPage,
) -> None:
    own = sleeper(WEFT_PAGE=page.path)
    try:
        wait_until(lambda: b"WEFT_PAGE" in Path(f"/proc/{own.pid}/environ").read_bytes(), "it is another program")
        page.words[layout.TASK_PID], page.words[layout.TASK_START] = own.pid, start_of(own.pid)
        with attach(page.path) as task:
            assert task.roots == {own.pid}
            page.words[layout.TASK_PID] = 1
            assert task.roots == {own.pid}
    finally:
        own.send_signal(signal.SIGKILL)
        own.wait()
