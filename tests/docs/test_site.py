"""The site builds without network from what is here, and a broken link or a page that the navigation lacks fails it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from examples import ROOT

MKDOCS = Path(sys.executable).with_name("mkdocs")
LINK = re.compile(r"\]\(([^()\s]+)\)")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Any use of the network fails: there is no other address than a closed port."""
    closed = "http://127.0.0.1:1"
    env = {"PATH": "/usr/bin:/bin", "http_proxy": closed, "https_proxy": closed, "NO_MKDOCS_2_WARNING": "1"}
    command = [str(MKDOCS), "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy whose pages a test may break."""
    for name in ("docs", "src"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored, symlinks=True)
    for name in ("tests", "bench", "native", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    return tmp_path


class Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video") and given.get("src"):
            self.fetched.append(str(given["src"]))
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.fetched.append(str(given["href"]))


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        parser = Addresses()
        parser.feed(page.read_text(encoding="utf-8"))
        elsewhere = [each for each in parser.fetched if re.match(r"(?:https?:)?//", each)]
        assert elsewhere == [], page.relative_to(site)


def test_the_reference_has_what_the_code_has(site: Path) -> None:
    from weft.cli.main import weft
    from weft.policies import POLICIES
    from weft.sim.trace.formats import FORMS
    from weft.system.settings import KEYS

    def shown(name: str) -> str:
        return (site / "reference" / f"{name}.html").read_text(encoding="utf-8")

    assert all(f"weft {verb}" in shown("cli") for verb in weft.commands)
    assert all(f"<code>{key}</code>" in shown("settings") for key in KEYS)
    assert all(f'id="{name}"' in shown("policies") for name in POLICIES)
    assert all(f"<code>{name}</code>" in shown("traces") for name in FORMS)
    assert "POST /v1/jobs" in shown("rest")
    assert "weft.Client" in shown("sdk")


def test_a_broken_link_fails_the_build(copied: Path, tmp_path: Path) -> None:
    (copied / "docs" / "status.md").write_text("# Status\n\nSee [this](nowhere.md).\n", encoding="utf-8")
    done = build(copied, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


def test_a_link_to_a_heading_that_is_not_there_fails_the_build(copied: Path, tmp_path: Path) -> None:
    (copied / "docs" / "status.md").write_text("# Status\n\nSee [this](glossary.md#nothing).\n", encoding="utf-8")
    assert build(copied, tmp_path / "site").returncode != 0


def test_a_page_without_a_place_in_the_navigation_fails_the_build(copied: Path, tmp_path: Path) -> None:
    (copied / "docs" / "lost.md").write_text("# Lost\n", encoding="utf-8")
    done = build(copied, tmp_path / "site")
    assert done.returncode != 0
    assert "lost.md" in done.stderr


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_of_the_pages_outside_the_site_lead_somewhere(name: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in LINK.findall(text) if "://" not in target]
    assert [target for target in targets if target and not (ROOT / target).exists()] == []
