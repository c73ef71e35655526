"""Installing weft: with a C compiler the native library is in it, without one all the rest is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from underweft import environment

pytestmark = pytest.mark.process

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[2]
BUILT_FROM = ("src", "native", "hatch_build.py", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")
LIBRARY = Path("src/weft/runtime/libweft.so")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "*.tmp")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what weft is built from, with nothing built in it."""
    for name in BUILT_FROM:
        source, target = ROOT / name, tmp_path / "tree" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=LEFT_OUT)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tmp_path / "tree"


def build(tree: Path, *targets: str, **env: str) -> tuple[list[Path], str]:
    """What was built, and what was said."""
    out = tree.parent / "dist"
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *(f"-t{target}" for target in targets)]
    done = subprocess.run(words, cwd=tree, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return sorted(out.iterdir()), done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_wheel_has_the_library_and_the_sources_what_it_is_built_from(tree: Path) -> None:
    (tree / LIBRARY).write_text("of an earlier build")
    (wheel, source), said = build(tree, "sdist", "wheel", CFLAGS="-O0")
    assert "without" not in said
    assert wheel.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    assert "weft/runtime/libweft.so" in zipfile.ZipFile(wheel).namelist()
    assert (tree / LIBRARY).read_bytes()[:4] == b"\x7fELF"  # which is where an editable install has it
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", "native/shim.c", "native/weft_page.h", "native/weft_native.h"} <= names
    assert str(LIBRARY) not in names


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"CC": "/bin/false"}, "/bin/false failed: exit code 1"),
        ({"CC": "/bin/no-such-compiler -m64"}, "/bin/no-such-compiler: No such file or directory"),
        ({"CC": "", "PATH": "/nowhere"}, "there is no C compiler (cc, gcc, clang; or name one: CC=...)"),
    ],
    ids=["fails", "gone", "none"],
)
def test_without_a_compiler_a_wheel_is_for_all_platforms_and_one_line_says_so(
    tree: Path, env: dict[str, str], why: str
) -> None:
    (tree / LIBRARY).write_text("of an earlier build")
    (wheel,), said = build(tree, "wheel", **env)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert not (tree / LIBRARY).exists()
    assert [line for line in said.splitlines() if "native" in line] == [
        f"weft is built without its native library: {why}; see weft doctor"
    ]


def test_weft_installs_and_works_without_a_compiler(tree: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(tmp_path / "there"), str(tree)],
        env={**environment(), "CC": "/bin/false"},
        check=True,
    )
    env = {**environment(), "PYTHONPATH": str(tmp_path / "there"), "WEFT_HOME": str(tmp_path / "home")}

    def weft(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weft.cli.main", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=tmp_path)

    done = weft("doctor")
    assert done.returncode == 1
    assert (
        "off  native library: weft was installed without its native library; not available: lanes, duty," in done.stdout
    )
    assert "hint: with a C compiler" in done.stdout
    for size, code in [(10**9, 1), (10**7, 0)]:
        done = weft("exec", "--limit", "256M", "--", sys.executable, "-I", "-S", "-c", f"x = bytearray({size})")
        assert done.returncode == code
        assert done.stderr.startswith(
            "weft: weft was installed without its native library; the limit is that of all private memory"
        )
        assert done.stderr.endswith("MemoryError\n" if code else "nothing overflows\n")
    done = weft("exec", "--lane", "a", "--", "true")
    assert (done.returncode, done.stderr.splitlines()[1]) == (
        2,
        "hint: weft doctor lists what does not work without it",
    )
