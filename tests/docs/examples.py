"""The fenced blocks of README and docs/, and how they are run: from top to bottom, as a reader would type them.

A `python` block that begins with `# name.py` and a `toml` block that begins with `# weft.toml` are files; so is a block
below `<!-- file: NAME -->`. Blocks of `text` are shown, not run. What cannot be run in its place says so in a comment
above it: `<!-- not run: reason -->`, or `<!-- run by test_name -->` for a test of test_examples.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
WEFT = Path(sys.executable).with_name("weft")
RUN = ("sh", "python")
FILES = ("toml", "csv")
SHOWN = "text"
WRITTEN = ("adr/", "results.md", "performance.md")
"""Records of the past, and pages that a command wrote."""
NOTE = re.compile(r"^<!-- (?:(not run): (.+)|run by (test_\w+)|file: (\S+)) -->$")
FENCE = re.compile(r"^(?P<note><!-- [^\n]*-->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    reason: str = ""
    """Why it is not run in its place."""
    test: str = ""
    """The test that runs it instead."""
    file: str = ""
    """It is this file's content."""


def pages() -> list[Path]:
    docs = ROOT / "docs"
    found = [path for path in sorted(docs.rglob("*.md")) if not path.relative_to(docs).as_posix().startswith(WRITTEN)]
    return [README, *found]


def blocks(page: Path) -> list[Block]:
    return list(_blocks(page.read_text(encoding="utf-8")))


def _blocks(markdown: str) -> Iterator[Block]:
    for match in FENCE.finditer(markdown):
        language, text = match["language"], match["text"]
        noted = NOTE.match(match["note"].strip()) if match["note"] else None
        _, reason, test, file = noted.groups() if noted else (None, None, None, None)
        if language == "python" and (named := re.match(r"# (\w+\.py)\n", text)):
            file = named[1]
        if language == "toml" and text.startswith("# weft.toml\n"):
            file = "weft.toml"
        yield Block(language, text, reason or "", test or "", file or "")


def block(page: Path, beginning: str) -> str:
    """The one block that begins so."""
    (found,) = [each.text for each in blocks(page) if each.text.startswith(beginning)]
    return found


def environment(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return {**env, "WEFT_HOME": str(home), "PATH": f"{WEFT.parent}:{os.environ['PATH']}"}


def write_files(page: Path, folder: Path, home: Path) -> None:
    """What the page shows as files: settings into the home, all others beside the reader."""
    for each in blocks(page):
        if each.file:
            (home if each.file == "weft.toml" else folder).joinpath(each.file).write_text(each.text, encoding="utf-8")


def run_page(page: Path, folder: Path, home: Path) -> str:
    """Run its blocks in order; what they print."""
    env = environment(home)
    printed = []
    for each in blocks(page):
        if each.language in RUN and not (each.reason or each.test or each.file):
            shell = ["bash", "-eu", "-o", "pipefail", "-c"]
            command = [*shell, each.text] if each.language == "sh" else [sys.executable, "-c", each.text]
            done = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == 0, f"{each.text}\n{done.stdout}\n{done.stderr}"
            printed.append(done.stdout)
    return "".join(printed)
