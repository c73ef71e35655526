"""Cgroups as fences: found by trying, killed as a whole, removed with all that was made in them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from waiting import wait_until
from weft.core.errors import WeftError
from weft.node.fence import cgroups
from weft.node.fence.cgroups import Fences, find_fences, own_cgroups
from weft.node.handles.children import end_leftover_cgroups
from weft.node.shepherd import command
from weft.node.shepherd.command import enter, fork_into

UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw"
HYBRID = (
    "33 32 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n34 32 0:30 / /sys/fs/cgroup/cpu rw - cgroup cpu rw"
)
PART = "40 23 0:26 /user.slice /mnt/with\\040blank rw - cgroup2 cgroup2 rw"
BREEDING = """
import os, time
until = time.monotonic() + 20
for _ in range(300):  # a bound, should nothing kill it
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.001)
    elif time.monotonic() > until:
        break
time.sleep(20)
"""


@pytest.mark.parametrize(
    ("mountinfo", "own", "found"),
    [
        (UNIFIED, "0::/\n", ["/sys/fs/cgroup"]),
        (UNIFIED, "0::/user.slice/me\n", ["/sys/fs/cgroup/user.slice/me"]),
        (HYBRID, "4:cpu:/x\n0::/deep/down\n", ["/sys/fs/cgroup/unified/deep/down"]),
        (PART, "0::/user.slice/me\n", ["/mnt/with blank/me"]),
        (PART, "0::/system.slice\n", []),
        (f"{PART}\n{UNIFIED}", "0::/user.slice\n", ["/mnt/with blank", "/sys/fs/cgroup/user.slice"]),
        (UNIFIED, "0::/../outside\n", []),
        (UNIFIED, "4:cpu:/x\n", []),
        ("", "0::/\n", []),
    ],
)
def test_the_own_cgroup_is_found_where_it_is_mounted(mountinfo: str, own: str, found: list[str]) -> None:
    assert own_cgroups(mountinfo, own) == [Path(each) for each in found]


def test_turned_off_there_is_no_cgroup_and_required_it_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_fences("scan", tmp_path).folder == ""
    monkeypatch.setattr(cgroups, "OUR_CGROUPS", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("4:cpu:/\n")
    assert find_fences("auto", tmp_path) == Fences("", "cgroup v2 is not mounted")
    with pytest.raises(WeftError) as refused:
        find_fences("cgroup", tmp_path)
    assert "systemd-run" in refused.value.hint


@pytest.fixture
def fences(tmp_path: Path) -> Iterator[Fences]:
    found = find_fences("auto", tmp_path)
    if not found.folder:
        pytest.skip(f"no cgroup can be had here: {found.why_not}")
    yield found
    end_leftover_cgroups(found.left_over(()))
    found.remove()


@pytest.fixture
def cgroup(fences: Fences) -> str:
    path = f"{fences.folder}/1.1.0"
    cgroups.make(path)
    return path


def inside(cgroup: str, source: str) -> int:
    """The pid of a Python that runs this in the cgroup."""
    pid, is_inside = fork_into(cgroup)
    if pid == 0:
        if not is_inside:
            enter(cgroup)
        os.execv(sys.executable, [sys.executable, "-c", source])  # noqa: S606
    return pid


def assert_killed(cgroup: str, pid: int, *, by_one_call: bool = True) -> None:
    """The processes may be there for a moment longer."""

    def is_empty() -> bool:
        if not by_one_call:
            cgroups.kill(cgroup)
        return not cgroups.is_populated(cgroup)

    cgroups.kill(cgroup)
    wait_until(is_empty, "it is empty")
    os.waitpid(pid, 0)
    cgroups.remove(cgroup)
    assert not Path(cgroup).exists()


@pytest.mark.parametrize("has_kill_file", [True, False])
def test_all_in_it_die_at_once_even_those_being_forked(
    cgroup: str, monkeypatch: pytest.MonkeyPatch, has_kill_file: bool
) -> None:
    if not has_kill_file:
        monkeypatch.setattr(cgroups, "_kill_all", lambda cgroup: False)
    pid = inside(cgroup, BREEDING)
    wait_until(lambda: len(cgroups.pids(cgroup)) > 20, "it breeds")
    assert_killed(cgroup, pid, by_one_call=has_kill_file)


def test_a_child_is_in_it_from_its_first_instant_and_without_clone3_before_its_command(
    cgroup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "import os; os._exit('/1.1.0\\n' not in open('/proc/self/cgroup').read())"
    assert os.waitpid(inside(cgroup, says), 0)[1] == 0
    monkeypatch.setattr(command, "CLONE3", 100_000)
    assert os.waitpid(inside(cgroup, says), 0)[1] == 0


@pytest.mark.parametrize("what", ["frozen", "threaded", "with cgroups in it"])
def test_whatever_its_processes_make_of_it_they_are_killed_and_it_is_removed(cgroup: str, what: str) -> None:
    pid = inside(cgroup, "import time; time.sleep(20)")
    if what == "frozen":
        Path(cgroup, "cgroup.freeze").write_text("1")
    elif what == "threaded":
        Path(cgroup).parent.joinpath("cgroup.procs").write_text(str(pid))
        Path(cgroup, "cgroup.type").write_text("threaded")
        Path(cgroup, "cgroup.threads").write_text(str(pid))
    else:
        cgroups.make(f"{cgroup}/a/b")
        Path(cgroup, "a/b/cgroup.procs").write_text(str(pid))
    assert cgroups.pids(cgroup) == {pid}
    assert_killed(cgroup, pid)


def test_one_who_kills_the_cgroup_it_was_moved_into_leaves_it_first(cgroup: str) -> None:
    source = f"from weft.node.fence import cgroups; cgroups.kill({cgroup!r}); print('lives')"
    moved = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdin.readline(); {source}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    Path(cgroup, "cgroup.procs").write_text(str(moved.pid))
    assert moved.communicate("go\n")[0] == "lives\n"
    assert not cgroups.is_populated(cgroup)


def test_two_homes_never_touch_each_others_cgroups(fences: Fences, cgroup: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = find_fences("auto", tmp_path / "other")
    assert other.folder != fences.folder
    cgroups.make(f"{other.folder}/1.1.0")
    assert other.left_over(()) == [f"{other.folder}/1.1.0"]
    assert other.left_over({("1", 1)}) == []
    end_leftover_cgroups(other.left_over(()))
    other.remove()
    assert not Path(other.folder).exists()
    assert Path(cgroup).exists()
    assert fences.of_job("1") == [cgroup]
    assert fences.of_job("2") == []


AS_A_USER = """
import os, sys
from pathlib import Path
from weft.node.shepherd.command import enter
from weft.node.fence.cgroups import find_fences
if sys.argv[1]:
    enter(sys.argv[1])
os.setgid(1000), os.setuid(1000)
fences = find_fences("auto", Path("/"))
print(fences.folder and "cgroup" or fences.why_not)
fences.remove()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_has_cgroups_where_one_was_delegated_to_him_and_else_not(fences: Fences) -> None:
    def said(inside: str) -> str:
        done = subprocess.run([sys.executable, "-c", AS_A_USER, inside], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert "permission denied" in said("")
    delegated = Path(fences.folder, "delegated")
    delegated.mkdir()
    try:
        for path in (delegated, delegated / "cgroup.procs", delegated / "cgroup.subtree_control"):
            os.chown(path, 1000, 1000)
        assert said(str(delegated)) == "cgroup"
    finally:
        deadline_s = time.monotonic() + 5
        while cgroups.is_populated(str(delegated)) and time.monotonic() < deadline_s:
            time.sleep(0.001)
        cgroups.remove(str(delegated))
