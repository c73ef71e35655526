"""Where a control page may be, and what is done with what is there already."""
# ruff: noqa: S108 - /dev/shm is what it is about

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from waiting import PATIENCE_S, wait_until
from weft.core.errors import InputError, WeftError
from weft.node.task.control_page import further_pages, make_page, new_task_page, remove_page, step_of_leaving
from weft.runtime.page import layout
from weft.runtime.page.page_file import Page, create, open_page, start_time
from weft.system import runtime_dir
from weft.system.files import UNKNOWN, file_system_in, is_in_memory

NOBODY = 2**22 + 1  # above any pid

MOUNTINFO = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /dev rw,nosuid - devtmpfs udev rw,size=4k
24 23 0:22 / /dev/shm rw,nosuid shared:3 master:2 propagate_from:1 - tmpfs tmpfs rw,size=1k
25 22 0:23 / /mnt/a\040disk\134\011x rw - tmpfs none rw
26 22 8:1 / /data rw - autofs systemd-1 rw
27 26 8:2 / /data rw - xfs /dev/sdb rw
28 27 0:30 /sub /data/fast rw - ramfs none rw
"""


@pytest.fixture
def made(shm: Path) -> Iterator[Callable[[Path | None], Page]]:
    """make_page, and what it made closed in the end."""
    with ExitStack() as closing:

        def make(path: Path | None) -> Page:
            page = make_page(path)
            closing.callback(page.close)
            return page

        yield make


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A tmpfs of one's own."""
    with ExitStack() as unmounting:

        def mount(options: str) -> Path:
            folder = tmp_path / "mounted"
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
            if os.getuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
                pytest.skip("needs the right to mount")
            unmounting.callback(subprocess.run, ["umount", str(folder)], check=True)
            return folder

        yield mount


def left_by_a_task(path: Path, pid: int = NOBODY, start: int = 1) -> None:
    page = create(str(path))
    page.words[layout.TASK_PID], page.words[layout.TASK_START] = pid, start
    page.words[layout.STEP] = 77
    page.close()


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        make_page(path)
    assert "--page /dev/shm/NAME" in raised.value.hint
    return raised.value.message


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/dev/shm", "tmpfs"),
        ("/dev/shm/x/y", "tmpfs"),
        ("/dev/shmoo", "devtmpfs"),
        ("/mnt/a disk\\\tx/y", "tmpfs"),
        ("/mnt/a disk", "ext4"),
        ("/data/x", "xfs"),
        ("/data/fast/x", "ramfs"),
    ],
)
def test_the_file_system_is_that_of_the_deepest_mount_and_of_the_last_one_there(path: str, kind: str) -> None:
    assert file_system_in(MOUNTINFO, Path(path)) == kind


def test_without_a_list_of_mounts_nothing_is_known_to_be_in_memory() -> None:
    assert file_system_in("", Path("/dev/shm")) == UNKNOWN


def test_a_new_page_names_its_launcher_and_is_nobody_elses_to_read(
    shm: Path, made: Callable[[Path | None], Page]
) -> None:
    page = made(shm / "a.page")
    assert page.path == str(shm / "a.page")
    assert page.words[layout.ATTEMPT] == 1
    assert page.words[layout.LAUNCHER_PID] == os.getpid()
    assert page.words[layout.LAUNCHER_START] == start_time(os.getpid())
    assert [each.name for each in shm.iterdir()] == ["a.page"]
    assert (shm / "a.page").stat().st_mode & 0o777 == 0o600
    assert (shm / "a.page").stat().st_nlink == 1


def test_a_page_without_a_path_is_in_a_folder_of_ours_and_goes_with_its_further_pages(
    shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_dir, "SHARED_MEMORY", shm)
    folder = shm / f"weft-{os.getuid()}"
    folder.mkdir(mode=0o755)
    with new_task_page(None) as page:
        path = Path(page.path)
        create(f"{path}.1").close()
        assert path == folder / f"exec-{os.getpid()}.page"
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []


def test_a_page_of_the_same_name_in_our_folder_may_be_another_containers_and_is_left_alone(
    shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_dir, "SHARED_MEMORY", shm)
    theirs = shm / f"weft-{os.getuid()}" / f"exec-{os.getpid()}.page"
    theirs.parent.mkdir()
    left_by_a_task(theirs)
    with new_task_page(None) as page:
        assert Path(page.path) == theirs.with_name(f"exec-{os.getpid()}-2.page")
    assert list(theirs.parent.iterdir()) == [theirs]


def test_a_folder_that_another_user_prepared_for_us_is_not_used(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shm / "trap").mkdir()
    (shm / f"weft-{os.getuid()}").symlink_to(shm / "trap")
    monkeypatch.setattr(runtime_dir, "SHARED_MEMORY", shm)
    with new_task_page(None) as page:
        folder = Path(page.path).parent
        assert folder.parent == shm
        assert folder.name.startswith(f"weft-{os.getuid()}-")
    with new_task_page(None) as page:
        assert Path(page.path).parent == folder, "every process finds the same one"
    assert list((shm / "trap").iterdir()) == []


def test_without_shared_memory_the_folder_is_the_login_sessions(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shm / "run").mkdir()
    monkeypatch.setattr(runtime_dir, "SHARED_MEMORY", Path("/proc/no such folder"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shm / "run"))
    with new_task_page(None) as page:
        assert Path(page.path).parent == shm / "run" / "weft"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(WeftError, match="no place in memory for control pages"):
        make_page(None)


def test_a_page_with_a_path_stays_and_shows_how_it_ended(shm: Path) -> None:
    with new_task_page(shm / "a.page") as page:
        page.words[layout.STEP] = 5
    page = open_page(str(shm / "a.page"))
    assert page.words[layout.STEP] == 5
    page.close()


def test_a_link_is_followed(shm: Path, made: Callable[[Path | None], Page], tmp_path: Path) -> None:
    (tmp_path / "link.page").symlink_to(shm / "a.page")
    assert made(tmp_path / "link.page").path == str(shm / "a.page")


def test_a_disk_is_no_place_for_a_page(tmp_path: Path) -> None:
    if is_in_memory(tmp_path):
        pytest.skip("needs a folder on a disk")
    assert "a control page must be in memory" in refusal(tmp_path / "a.page")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"my notes", b"x" * 4096])
def test_a_file_of_somebody_else_is_refused_and_untouched(shm: Path, content: bytes) -> None:
    (shm / "notes").write_bytes(content)
    assert "is not a control page" in refusal(shm / "notes")
    assert (shm / "notes").read_bytes() == content


def test_a_page_of_another_version_or_cut_short_is_refused_and_untouched(shm: Path) -> None:
    path = shm / "a.page"
    left_by_a_task(path)
    os.truncate(path, 100)
    assert "is a damaged control page" in refusal(path)
    path.unlink()
    left_by_a_task(path)
    content = bytearray(path.read_bytes())
    content[layout.VERSION * 8] = 9
    path.write_bytes(content)
    assert "is a control page of version 9; this weft knows 2" in refusal(path)
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused(shm: Path) -> None:
    os.mkfifo(shm / "pipe")
    assert "it is no regular file" in refusal(shm / "pipe")
    (shm / "folder").mkdir()
    assert "Is a directory" in refusal(shm / "folder")
    assert "there is no folder" in refusal(shm / "gone" / "a.page")
    (shm / "file").touch()
    assert "Not a directory" in refusal(shm / "file" / "a.page")


def test_a_name_that_is_too_long_is_refused(shm: Path) -> None:
    assert "File name too long" in refusal(shm / ("x" * 300))
    assert list(shm.iterdir()) == []


def test_the_page_of_an_ended_task_is_replaced_with_its_further_pages(
    shm: Path, made: Callable[[Path | None], Page]
) -> None:
    for name in ("a.page", "a.page.1", "a.page.2"):
        left_by_a_task(shm / name)
    page = made(shm / "a.page")
    assert page.words[layout.STEP] == 0
    assert list(shm.iterdir()) == [shm / "a.page"]


def test_a_pid_used_again_is_not_the_task(shm: Path, made: Callable[[Path | None], Page]) -> None:
    left_by_a_task(shm / "a.page", os.getpid(), start_time(os.getpid()) - 1)
    assert made(shm / "a.page").words[layout.TASK_PID] == 0


def test_a_task_that_only_waits_to_be_reaped_has_ended(shm: Path, made: Callable[[Path | None], Page]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as task:
        left_by_a_task(shm / "a.page", task.pid, start_time(task.pid))
        assert refusal(shm / "a.page").endswith(f"is in use by process {task.pid}")
        assert task.stdin
        task.stdin.close()
        os.waitid(os.P_PID, task.pid, os.WEXITED | os.WNOWAIT)
        assert made(shm / "a.page").words[layout.TASK_PID] == 0


@pytest.mark.parametrize("name", ["a.page", "a.page.1"])
def test_a_page_whose_rank_still_holds_it_is_in_use(shm: Path, name: str) -> None:
    left_by_a_task(shm / "a.page")
    left_by_a_task(shm / "a.page.1")
    code = "page = open_page(sys.argv[1]); print(page.claim(), input())"
    script = f"import sys; from weft.runtime.page.page_file import *; {code}"
    command = [sys.executable, "-c", script, str(shm / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank:
        rank_page = open_page(str(shm / name))
        wait_until(lambda: rank_page.claimant() == rank.pid)
        rank_page.close()
        assert refusal(shm / "a.page") == f"{shm / name} is in use by process {rank.pid}"
        assert rank.communicate("done\n", timeout=PATIENCE_S)[0] == "True done\n"
    assert (shm / "a.page.1").exists()


def test_a_page_whose_launcher_is_about_to_start_the_task_is_in_use(
    shm: Path, made: Callable[[Path | None], Page]
) -> None:
    made(shm / "a.page")
    assert refusal(shm / "a.page").endswith(f"is in use by process {os.getpid()}")


def test_of_several_who_want_the_same_page_one_gets_it(shm: Path) -> None:
    left_by_a_task(shm / "a.page")
    script = (
        "import sys; from pathlib import Path; from weft.core.errors import InputError;"
        "from weft.node.task.control_page import make_page\n"
        "print('ready', flush=True); input()\n"
        "try: make_page(Path(sys.argv[1])); print('got it', flush=True)\n"
        "except InputError as error: print(error.message, flush=True)\n"
        "input()"
    )
    command = [sys.executable, "-c", script, str(shm / "a.page")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with ExitStack() as cleanup:
        wanting = [cleanup.enter_context(subprocess.Popen(command, **pipes)) for _ in range(4)]  # type: ignore[call-overload]
        assert [each.stdout.readline() for each in wanting] == ["ready\n"] * 4
        for each in wanting:
            each.stdin.write("go\n")
        answers = [each.stdout.readline() for each in wanting]
        winner = wanting[answers.index("got it\n")].pid
        expected = [f"{shm / 'a.page'} is in use by process {winner}\n"] * 3
        assert sorted(answers) == sorted(["got it\n", *expected])
        for each in wanting:
            each.communicate("done\n", timeout=PATIENCE_S)
    assert list(shm.iterdir()) == [shm / "a.page"]


def test_a_strangers_file_with_the_name_of_a_further_page_stays(shm: Path) -> None:
    left_by_a_task(shm / "a.page")
    left_by_a_task(shm / "a.page.1")
    (shm / "a.page.2").write_text("mine")
    assert further_pages(shm / "a.page") == [shm / "a.page.1"]
    remove_page(shm / "a.page")
    assert [each.name for each in shm.iterdir()] == ["a.page.2"]


def test_a_full_file_system_is_an_error_before_anything_starts(mounted: Callable[[str], Path]) -> None:
    folder = mounted("size=4k")
    (folder / "all").write_bytes(b"x" * 4096)
    with pytest.raises(WeftError) as raised:
        make_page(folder / "a.page")
    assert raised.value.message == f"no room for the control page {folder / 'a.page'}: {folder} is full"
    assert "free some" in raised.value.hint
    assert [each.name for each in folder.iterdir()] == ["all"]


def test_a_folder_that_cannot_be_written_is_refused(mounted: Callable[[str], Path]) -> None:
    assert "Read-only file system" in refusal(mounted("ro") / "a.page")


def test_a_task_has_left_when_all_who_claimed_a_page_of_it_have(shm: Path) -> None:
    path = shm / "a.page"
    pages = [create(str(shm / name)) for name in ("a.page", "a.page.1", "a.page.2")]
    assert step_of_leaving(path) is None
    for page in pages[:2]:
        page.words[layout.CLAIM_PID] = 1
        assert step_of_leaving(path) is None
        page.words[layout.CHECKPOINT] = 8
        page.words[layout.STATE] = 3 << 8 | layout.RankState.LEAVING
        assert step_of_leaving(path) == 7
    pages[0].words[layout.STATE] = layout.RankState.ENDED
    assert step_of_leaving(path) is None
    for page in pages:
        page.close()
