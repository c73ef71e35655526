"""The page that a job and its coordinator share: laid out alike in C and Python, claimed by one process."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from underweft import page_folder
from waiting import wait_until
from weft.runtime.page import layout
from weft.runtime.page.layout import PAGE_BYTES
from weft.runtime.page.page_file import Page, PageError, create, open_page

pytestmark = pytest.mark.process

HEADER = Path(__file__).parents[2] / "native" / "weft_page.h"
NOT_WORDS = {
    "PAGE_BYTES",
    "PAGE_MAGIC",
    "PAGE_VERSION",
    "CAN_CHECKPOINT",
    "CAN_SWAP",
    "IN_LANE",
    "READABLE_VERSIONS",
    "LEFT_EXIT_CODE",
    "LOW_BITS",
}
SIZES = {"DURATIONS_LENGTH", "MESSAGE_BYTES", "METRICS_LENGTH", "METRIC_WORDS", "METRIC_NAME_BYTES"}


@pytest.fixture
def path() -> Iterator[Path]:
    with page_folder() as folder:
        yield folder / "a.page"


def in_another_process(code: str, path: Path) -> str:
    words = [
        sys.executable,
        "-c",
        f"from weft.runtime.page.page_file import *\npage = open_page({str(path)!r})\n{code}",
    ]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_c_header_lays_out_the_same_page(tmp_path: Path) -> None:
    words = {n: v for n, v in vars(layout).items() if n.isupper() and n not in NOT_WORDS | SIZES}
    assert len(words) > 30
    lines = [f'printf("{n} %zu\\n", offsetof(struct weft_page, {n.lower()}) / 8);' for n in words]
    constants = ("WEFT_PAGE_BYTES", "WEFT_PAGE_MAGIC", "WEFT_PAGE_VERSION")
    lines += [f'printf("{n[5:]} %llu\\n", (unsigned long long){n});' for n in constants]
    lines += [
        'printf("DURATIONS_LENGTH %zu\\n", sizeof(((struct weft_page *)0)->durations) / 8);',
        'printf("MESSAGE_BYTES %zu\\n", sizeof(((struct weft_page *)0)->message));',
        'printf("METRICS_LENGTH %zu\\n", sizeof(((struct weft_page *)0)->metrics) / sizeof(struct weft_metric));',
        'printf("METRIC_WORDS %zu\\n", sizeof(struct weft_metric) / 8);',
        'printf("METRIC_NAME_BYTES %zu\\n", offsetof(struct weft_metric, value));',
    ]
    source = tmp_path / "page.c"
    body = "\n".join(lines)
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{\n{body}\nreturn 0; }}\n'
    )
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]
    subprocess.run(["cc", *flags, str(source), "-o", str(tmp_path / "page")], check=True)
    printed = subprocess.run([str(tmp_path / "page")], capture_output=True, text=True, check=True).stdout
    in_c = {name: int(number) for name, number in map(str.split, printed.splitlines())}
    in_python = {n: v for n, v in vars(layout).items() if n in words or n in SIZES or n.startswith("PAGE_")}
    assert in_c == in_python


def test_no_two_words_of_the_page_are_the_same() -> None:
    lengths = {"DURATIONS": 64, "MESSAGE": 31, "METRICS": 32}
    taken: dict[int, str] = {}
    for name, first in vars(layout).items():
        if name.isupper() and name not in NOT_WORDS | SIZES:
            for word in range(first, first + lengths.get(name, 1)):
                assert word < PAGE_BYTES // 8
                assert taken.setdefault(word, name) == name


def test_a_page_is_claimed_by_one_process_until_that_ends(path: Path) -> None:
    page = create(str(path))
    assert page.claim()
    assert in_another_process("print(page.claim(), page.claimant())", path) == f"False {os.getpid()}"
    page.close()
    assert in_another_process("print(page.claim(), page.claimant())", path) == "True 0"
    assert open_page(str(path)).claim()


def test_a_claim_does_not_outlive_a_process_that_was_killed(path: Path) -> None:
    page = create(str(path))
    code = "import time; page.claim(); print('claimed', flush=True); time.sleep(600)"
    words = [
        sys.executable,
        "-c",
        f"from weft.runtime.page.page_file import *\npage = open_page({str(path)!r})\n{code}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "claimed\n"
        assert page.claimant() == holder.pid
        holder.kill()
    wait_until(lambda: page.claimant() == 0, "the claim is gone")
    page.close()


def test_a_forked_child_does_not_hold_its_parents_claim(path: Path) -> None:
    code = "import os; page.claim(); pid = os.fork()\nif pid == 0: print(page.claim()); os._exit(0)\nos.waitpid(pid, 0)"
    create(str(path)).close()
    assert in_another_process(code.replace("print(page.claim())", "os.write(1, b'%d' % page.claim())"), path) == "0"


def test_only_its_owner_can_read_a_page(path: Path) -> None:
    create(str(path)).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == PAGE_BYTES


def with_words(path: Path, **words: int) -> None:
    page = create(str(path))
    for name, number in words.items():
        page.words[getattr(layout, name)] = number
    page.close()


def test_a_file_that_is_no_page_is_refused_and_left_alone(path: Path) -> None:
    for content in (b"", b"WEFT", b"hello" * 1000, struct.pack("=QQQ", layout.PAGE_MAGIC, 1, 4096)):
        path.write_bytes(content)
        with pytest.raises(PageError, match="control page"):
            open_page(str(path))
        assert path.read_bytes() == content


def test_a_page_of_another_version_is_refused_by_its_number(path: Path) -> None:
    with_words(path, VERSION=9)
    with pytest.raises(PageError, match="version 9; this weft knows 2"):
        open_page(str(path))


def test_a_page_cut_short_is_refused(path: Path) -> None:
    with_words(path)
    os.truncate(path, 1000)
    with pytest.raises(PageError, match="damaged control page: 1000 bytes"):
        open_page(str(path))


def test_a_folder_or_nothing_is_no_page(path: Path) -> None:
    with pytest.raises(PageError, match="No such file"):
        open_page(str(path))
    with pytest.raises(PageError, match="Is a directory"):
        open_page(str(path.parent))


def test_a_message_too_long_is_cut_not_spilled(path: Path) -> None:
    page: Page = create(str(path))
    page.words[layout.METRICS_COUNT] = 5
    page.message = "é" * 500
    assert page.message == "é" * 124
    assert page.words[layout.METRICS_COUNT] == 5
    page.close()
