from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_runs import job_table, make_run, synthetic_run

from waiting import PATIENCE_S
from weft.sim.results.report import write_report
from weft.sim.results.report.figures import bucket_means, bucket_peaks, cumulative
from weft.sim.results.summary import PolicyRun

RUNS = [
    synthetic_run("fifo", restart_s=30.0),
    synthetic_run("tiresias-g", slowness=0.1, queue_limits_device_s=[3250.0, 10_000.0], placement="consolidated"),
]
FIGURES = ["completion", "queueing", "kinds", "utilisation", "waiting"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """What the browser would fetch, and the text between the tags, script and style aside."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.words: list[str] = []
        self.styles = ""
        self.tags: list[str] = []
        self._tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, text: str) -> None:
        if self._tag == "style":
            self.styles += text
        elif self._tag != "script":
            self.words.append(text)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(tmp_path_factory.mktemp("report"), "Sample trace")


def report(folder: Path, title: str, runs: Sequence[PolicyRun] = RUNS) -> str:
    path = folder / "report.html"
    write_report(runs, path, title)
    return path.read_text(encoding="utf-8")


def figures_in(html: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html)
    assert found
    figures: list[dict[str, Any]] = json.loads(found[1])
    return figures


def test_the_page_loads_nothing_from_anywhere(html: str) -> None:
    page = Page(html)
    assert page.fetched == []
    assert "@import" not in page.styles
    assert "url(" not in page.styles


def test_plotlys_script_is_there_once(html: str) -> None:
    assert Page(html).tags.count("script") == 3  # the figures' values, plotly, and the page's own
    assert len(html) < 6_000_000


def test_the_headline_says_what_was_run(html: str) -> None:
    words = Page(html).words
    for word in ("Sample trace", "32x8", "256", "500", "7"):
        assert word in words


def test_every_policy_and_parameter_is_on_the_page(html: str) -> None:
    words = Page(html).words
    for word in ("fifo", "tiresias-g", "restart_s=30.0", "queue_limits_device_s=[3250.0, 10000.0]"):
        assert word in words
    assert "placement=consolidated" in words


def test_what_all_runs_have_in_common_is_said_once(tmp_path: Path) -> None:
    runs = [synthetic_run(policy, world="flat", own=at) for at, policy in enumerate(["fifo", "mine.py:Mine:own=1"])]
    words = Page(report(tmp_path, "Common", runs)).words
    assert words.count("world=flat") == 1
    assert {"own=0", "own=1", "Mine"} < set(words)
    assert words.count("mine.py:Mine:own=1") == 1


def test_the_same_runs_give_the_same_bytes(html: str, tmp_path: Path) -> None:
    assert report(tmp_path, "Sample trace") == html


def test_a_policy_has_one_colour_in_every_figure(html: str) -> None:
    figures = figures_in(html)
    assert [figure["name"] for figure in figures] == FIGURES
    for at in range(len(RUNS)):
        traces = [figure["traces"][at] for figure in figures]
        assert len({trace.get("line", trace.get("marker"))["color"] for trace in traces}) == 1


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    nasty = "</script><img src=x onerror=alert(1)>"
    run = make_run(job_table([0.0], [5.0], [5.0]), nasty, {nasty: nasty}, cluster=nasty)
    html = report(tmp_path, nasty, [run])
    page = Page(html)
    assert "img" not in page.tags
    assert page.words.count(nasty) >= 4
    assert nasty not in html
    assert figures_in(html)[0]["traces"][0]["name"] == escape(nasty)


def test_one_job_of_no_length_can_be_drawn(tmp_path: Path) -> None:
    assert figures_in(report(tmp_path, "Empty", [make_run(job_table([0.0], [0.0], [0.0]))]))


def test_a_large_run_is_thinned(tmp_path: Path) -> None:
    html = report(tmp_path, "Large", [synthetic_run("fifo", jobs=50_000)])
    assert max(len(figure["traces"][0]["x"]) for figure in figures_in(html)) <= 1_500


def test_thinning_keeps_the_peaks_of_the_queue() -> None:
    time_s = np.arange(100_000.0)
    waiting = np.ones(100_000, dtype=np.int64)
    waiting[[0, 12_345, 99_999]] = 700, 900, 800
    edges, peaks = bucket_peaks(time_s, waiting, 500)
    assert len(edges) == len(peaks) == 500
    assert sorted(peaks)[-3:] == [700, 800, 900]
    at = int(np.argmax(peaks))
    assert edges[at] <= 12_345 < edges[at + 1]


def test_a_bucket_without_decisions_keeps_the_value_that_held() -> None:
    time_s = np.concatenate([np.linspace(0, 1, 50), [100.0]])
    _, peaks = bucket_peaks(time_s, np.full(51, 6), 11)
    assert peaks.tolist() == [6.0] * 11


def test_thinning_keeps_the_area_under_the_utilisation() -> None:
    chance = np.random.default_rng(1)
    time_s = np.sort(chance.uniform(0, 1e6, 20_000))
    held = chance.integers(0, 9, 20_000)
    edges, means = bucket_means(time_s, held, 300)
    assert len(edges) == 300
    area = (held[:-1] * np.diff(time_s)).sum()
    assert (means[:-1] * np.diff(edges)).sum() == pytest.approx(area)


def test_short_lines_are_drawn_as_they_are() -> None:
    time_s, held = np.array([0.0, 5.0, 5.0, 9.0]), np.array([1, 3, 2, 0])
    for thin in (bucket_means, bucket_peaks):
        line = thin(time_s, held, 10)
        assert (line[0].tolist(), line[1].tolist()) == (time_s.tolist(), held.tolist())


def test_a_cdf_reaches_from_the_least_to_the_greatest_value() -> None:
    values = np.array([4.0, 1.0, 3.0, 2.0])
    x, share = cumulative(values, 100)
    assert (x.tolist(), share.tolist()) == ([1.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    x, share = cumulative(np.arange(10_000.0), 50)
    assert (x[0], x[-1], len(x)) == (0.0, 9_999.0, 50)


def test_plotly_is_loaded_only_when_a_report_is_written() -> None:
    code = "import sys, weft.sim.api; sys.exit('plotly' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_draws_every_figure_without_complaint(tmp_path: Path) -> None:
    report(tmp_path, "Sample trace")
    browser = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=4000", "--enable-logging=stderr",
        "--dump-dom", (tmp_path / "report.html").as_uri(),
    ]  # fmt: skip
    seen = subprocess.run(browser, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "CONSOLE" not in seen.stderr
    body = re.sub(r"<script.*?</script>", "", seen.stdout, flags=re.S)
    assert len(re.findall(r'class="[^"]*\bjs-plotly-plot\b', body)) == len(FIGURES)
    assert body.count('<svg class="main-svg"') >= len(FIGURES)
    drawn = dict(zip(FIGURES, re.split(r'class="figure[ "]', body)[1:], strict=True))
    for name, figure in drawn.items():
        for axis in ("xtick", "ytick"):
            labels = re.findall(rf'<g class="{axis}"><text[^>]*>(.*?)</text>', figure)
            assert len(labels) >= 2, (name, axis)
            assert all(labels)
    # A horizontal bar is drawn as a path from its foot to its length: all feet are one and the same place, zero.
    paths = re.findall(r'<g class="point"><path d="M([\d.]+),[\d.]+V[\d.]+H([\d.]+)V', drawn["kinds"])
    lengths = [float(end) - float(foot) for foot, end in paths]
    values = [x for trace in figures_in((tmp_path / "report.html").read_text())[2]["traces"] for x in trace["x"]]
    assert {float(foot) for foot, _ in paths} == {0.0}
    longest, most = max(lengths), max(values)
    assert lengths == pytest.approx([value / most * longest for value in values], abs=0.1)
