"""Programs that are no Python at all, of any make: under weft they do what they do without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compiled import compiler

from underweft import environment
from weft.runtime.allocator import library_path

pytestmark = pytest.mark.skipif(library_path() is None, reason="the native library was not built")

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    void *block;
    char *other = malloc(10);
    if (posix_memalign(&block, 64, 1 << 20) || (other = realloc(other, 99)) == NULL)
        return 1;
    free(block);
    free(other);
    printf("%s %d %s %s\\n", argv[0], argc, argv[argc - 1], getenv("KEPT"));
    return 7;
}
"""
OTHER = """
#include <stdlib.h>
__attribute__((constructor)) static void set(void)
{
    setenv("KEPT", "by it", 1);
}
"""
MAKES = {
    "plain": [],
    "address": ["-fsanitize=address"],
    "address, linked statically": ["-fsanitize=address", "-static-libasan"],
    "thread": ["-fsanitize=thread"],
    "leak": ["-fsanitize=leak"],
    "undefined": ["-fsanitize=undefined"],
    "static": ["-static"],
}
STEPS_ASIDE = {"address": "AddressSanitizer", "thread": "ThreadSanitizer", "leak": "LeakSanitizer"}
BY_PYTHON = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


def made(folder: Path, make: str, *, with_compiler: str | None = None) -> Path:
    source, program = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    command = [with_compiler or compiler(), *MAKES[make], str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this compiler makes none: {done.stderr[:200]}")
    return program


def run(*command: str, weft: bool, **variables: str) -> tuple[int, str, str]:
    before = [sys.executable, "-m", "weft.cli.main", "exec", "--"] if weft else []
    env = {**environment(), "KEPT": "kept", **variables}
    done = subprocess.run([*before, *command], capture_output=True, text=True, env=env, check=False)
    return done.returncode, done.stdout, done.stderr


def assert_the_same(make: str, *command: str, **variables: str) -> None:
    bare = run(*command, weft=False, **variables)
    assert bare[0] == 7, bare
    code, out, err = run(*command, weft=True, **variables)
    assert (code, out) == bare[:2], err
    lines = [line for line in err.splitlines() if line.startswith("weft:")]
    if make in STEPS_ASIDE:
        assert len(lines) == 1
        assert f"has {STEPS_ASIDE[make]} in it, which must be loaded first" in lines[0]
    else:
        assert lines == []


@pytest.mark.parametrize("make", MAKES)
def test_a_program_runs_as_it_would(tmp_path: Path, make: str) -> None:
    """As the command, below a shell, below Python, and under another name: libraries are looked for beside the file."""
    program = str(made(tmp_path, make))
    assert_the_same(make, program, "last")
    assert_the_same(make, "sh", "-c", f"{program} 'two words'; exit $?")
    assert_the_same(make, sys.executable, "-c", BY_PYTHON, program, "")
    (tmp_path / "link").symlink_to(program)
    assert_the_same(make, str(tmp_path / "link"), "last")


def test_a_program_of_another_libc_runs(tmp_path: Path) -> None:
    if shutil.which("musl-gcc") is None:
        pytest.skip("there is no musl-gcc")
    assert_the_same("plain", str(made(tmp_path, "plain", with_compiler="musl-gcc")), "last")


def test_what_else_is_preloaded_stays(tmp_path: Path) -> None:
    """Another library of the user's, before a program with a sanitizer in it and before one without."""
    source, other = tmp_path / "other.c", tmp_path / "libother.so"
    source.write_text(OTHER)
    subprocess.run([compiler(), "-shared", "-fPIC", str(source), "-o", str(other)], check=True)
    for make in ("plain", "leak"):
        program = made(tmp_path, make)
        code, out, _ = run(str(program), "last", weft=True, LD_PRELOAD=f"/usr/lib/libweft.so {other}")
        assert (code, out) == (7, f"{program} 2 last by it\n")
