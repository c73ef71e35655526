"""Puts the figures of docs/figures into the README: `make figures`.

A measured figure stands in the README between `<!--f NAME-->` and `<!--/f-->`, NAME being its name in docs/figures.
Where no command has written it for this code, the old text stays, and a ° behind it says so.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from figures import FOLDER, ROOT, decisions, read

README = ROOT / "README.md"
MARKED = re.compile(r"<!--f ([^>]*?)-->(.*?)<!--/f-->")
EARLIER = " °"


def current(folder: Path = FOLDER) -> dict[str, str]:
    """The values of figures that a command has written for this code."""
    import weft

    values = {}
    for path in sorted(folder.glob("*.json")):
        found = read(path)
        is_current = found.get("decisions", decisions()) == decisions()
        for each in found["figures"] if is_current else ():
            if each["version"] == weft.__version__:
                values[each["name"]] = each["value"]
    return values


def rendered(text: str, values: dict[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        name, old = match.groups()
        new = values.get(name) or old.removesuffix(EARLIER) + EARLIER
        return f"<!--f {name}-->{new}<!--/f-->"

    return MARKED.sub(put, text)


def main() -> int:
    text = README.read_text(encoding="utf-8")
    README.write_text(rendered(text, current()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
