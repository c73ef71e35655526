"""`make check`: names and sizes in src/weft. Prints each finding as path:line and ends with 1 if there is one.

A module has a name of its own, and so has a class: a reader who searches for either finds one place. Words that the
glossary retired do not return. Files stay short enough to be read in one sitting. A module that is named in a string,
as for `python -m`, exists: neither the type checker nor the linter looks there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "weft"
MOST_MODULES = 240
MOST_LINES = 400

RETIRED = {
    "spot": "candidate, seat or device",
    "comer": "new job",
    "comers": "new jobs",
    "company": "neighbours, or the jobs beside it",
    "wish": "request",
    "wishes": "requests",
    "standing": "paused, waiting or rank",
    "telling": "reporting or logging",
    "tending": "supervising",
    "tended": "supervised",
    "ground": "context or base",
    "house": "service",
    "floor": "inventory, or lower bound",
    "sights": "views",
    "whoever": "the job, guest, node or user",
    "nobody": "no job, no user",
    "somebody": "a job, a user",
}
"""What docs/glossary.md says instead."""
LOOKS_RETIRED = re.compile(r"(?<![A-Za-z])(?<!math\.)(?<!np\.)(" + "|".join(RETIRED) + r")(?![A-Za-z])", re.IGNORECASE)
MODULE_IN_TEXT = re.compile(r"weft((?:\.\w+)+)(?::\w+)?")
STORED = ('INVENTORY_SETTING = "floor"',)
"""A name in the log of each installation stays as it is: another one would make existing logs unreadable."""


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def findings() -> Iterator[str]:
    found = modules()
    yield from too_many(found)
    yield from repeated("module", [(path.stem, path, 1) for path in found if path.stem != "__init__"])
    classes = []
    for path in found:
        text = path.read_text(encoding="utf-8")
        yield from too_long(path, text)
        yield from retired(path, text)
        tree = ast.parse(text)
        yield from lost(path, tree)
        classes += [
            (node.name, path, node.lineno)
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ]
    yield from repeated("class", classes)


def too_many(found: list[Path]) -> Iterator[str]:
    count = sum(path.stem != "__init__" for path in found)
    if count > MOST_MODULES:
        yield f"{SOURCE.name}: {count} modules, more than {MOST_MODULES}"


def too_long(path: Path, text: str) -> Iterator[str]:
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{shown(path)}: {lines} lines, more than {MOST_LINES}"


def retired(path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if line in STORED:
            continue
        for word in LOOKS_RETIRED.findall(line):
            yield f"{shown(path)}:{number}: '{word}' is retired: say {RETIRED[word.lower()]}"


def lost(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        named = MODULE_IN_TEXT.fullmatch(node.value)
        if named and not is_there(named[1][1:].split(".")):
            yield f"{shown(path)}:{node.lineno}: there is no module {node.value}"


def is_there(parts: list[str]) -> bool:
    """Other texts begin with "weft." too, such as the name of a file: only those that begin with a package count."""
    inside = SOURCE.joinpath(*parts)
    return not (SOURCE / parts[0]).is_dir() or inside.is_dir() or inside.with_suffix(".py").is_file()


def repeated(kind: str, named: list[tuple[str, Path, int]]) -> Iterator[str]:
    places = defaultdict(list)
    for name, path, number in named:
        places[name].append(f"{shown(path)}:{number}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{where[0]}: {kind} {name} exists {len(where)} times: {', '.join(where[1:])}"


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE.parents[1]))


if __name__ == "__main__":
    problems = list(findings())
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
