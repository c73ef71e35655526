"""Compiles the native library into the package, where there is a C compiler. Without one weft installs all the same."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "src/weft/runtime/libweft.so"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-D_GNU_SOURCE", "-pthread")
PRELOADED = ("-ftls-model=initial-exec",)  # or it needs glibc's own loader, which programs of another libc have not
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow")
# A symbol that nothing defines fails here, not in every job. First of all constructors: see native/aside.c.
LINKING = ("-ldl", "-Wl,-z,defs", "-Wl,-z,initfirst")


class NotBuiltError(Exception):
    """The library cannot be built here; the message says why."""


class NativeLibrary(BuildHookInterface):  # type: ignore[misc]
    """For wheels, editable ones too. One that has the library in it is for this platform, any other one for all."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        library = Path(self.root, LIBRARY)
        try:
            build(Path(self.root, "native"), library)
        except NotBuiltError as error:
            library.unlink(missing_ok=True)  # of an earlier build, perhaps from other sources
            self.app.display_warning(f"weft is built without its native library: {error}; see weft doctor")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(f"/{LIBRARY}")  # git ignores it, and so would the wheel
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


def build(native: Path, library: Path) -> None:
    """Compile all sources at once: in the job's process they are one library, and it takes a second."""
    if sys.platform != "linux":
        raise NotBuiltError(f"it is for Linux, and this is {sys.platform}")
    sources = sorted(map(str, native.glob("*.c")))
    if not sources:
        raise NotBuiltError(f"there are no sources in {native}")
    compiler = _compiler()
    # Under another name until it is whole: jobs may be running on the one that is there.
    handle, draft = tempfile.mkstemp(prefix=".libweft-", dir=library.parent)
    os.close(handle)
    try:
        _run(
            [
                *compiler,
                *FLAGS,
                *PRELOADED,
                *WARNINGS,
                *_words("CFLAGS"),
                *sources,
                "-o",
                draft,
                *_words("LDFLAGS"),
                *LINKING,
            ]
        )
        Path(draft).chmod(0o755)
        Path(draft).replace(library)
    finally:
        Path(draft).unlink(missing_ok=True)


def _compiler() -> list[str]:
    if chosen := _words("CC"):
        return chosen
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise NotBuiltError(f"there is no C compiler ({', '.join(COMPILERS)}; or name one: CC=...)")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    except OSError as error:
        raise NotBuiltError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.splitlines()
        errors = [line for line in said if "error:" in line or "undefined" in line] or said
        raise NotBuiltError(f"{command[0]} failed: {errors[0] if errors else f'exit code {done.returncode}'}")


def _words(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))
