"""What the pages name of the code exists: files by their path, in the repository or in src/weft, and modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from examples import ROOT

pytestmark = pytest.mark.unit

SOURCE = ROOT / "src" / "weft"
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED_PATH = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*/[\w.*-]+\.(?:py|c|h|sql|toml|txt))`")
NAMED_ALONE = re.compile(r"`([a-z_]+\.py)`")
"""In what is written for those who change weft; elsewhere it is a script of the reader's."""
NAMED_MODULE = re.compile(r"`weft((?:\.\w+)+)")


def exists(path: str) -> bool:
    return any(True for folder in (ROOT, SOURCE) for _ in folder.glob(path))


def leads_to_a_module(parts: list[str]) -> bool:
    """Whether the first part is a package and the second one a package or module of it, or a name that it has."""
    package, *rest = parts
    inner = SOURCE / package
    if not rest or not inner.is_dir():
        return True
    own = (inner / "__init__.py").read_text(encoding="utf-8")
    return (inner / rest[0]).is_dir() or (inner / f"{rest[0]}.py").is_file() or rest[0] in own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = NAMED_PATH.findall(text)
    if page.parent == ROOT or page.parent.name == "adr":
        named += NAMED_ALONE.findall(text)
    lost = [path for path in named if not exists(path)]
    lost += [f"weft{name}" for name in NAMED_MODULE.findall(text) if not leads_to_a_module(name[1:].split("."))]
    assert not lost, f"{page.name} names what is not there"


def test_a_file_that_was_moved_is_noticed() -> None:
    assert exists("core/ledger.py")
    assert exists("bench/run.py")
    assert not exists("core/words.py")
    assert not leads_to_a_module(["core", "words"])
