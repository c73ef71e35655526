"""What mkdocs runs during a build: it adds the generated pages, and makes links to files outside docs/ plain text."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from generated import PAGES

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The site has no page for a source file: such a link becomes the file's name."""
    folder = Path("docs", page.file.src_uri).parent

    def put(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = unquote(target.partition("#")[0])
        if not path or "://" in target or target.startswith("mailto:"):
            return match.group()
        name = os.path.normpath(folder / path)
        if files.get_file_from_path(name.removeprefix("docs/")) or not (ROOT / name).exists():
            return match.group()  # a page, or a broken link: mkdocs knows what to do
        return f"`{name}`" if text.strip("`") in (name, Path(name).name, target) else f"{text} (`{name}`)"

    return LINK.sub(put, markdown)
