"""A Gantt chart of a run as a small SVG: which job held which device when, and which jobs waited meanwhile.

Nothing but text is needed to draw it, and the same bars give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 800
LEFT, RIGHT = 84, 14
TITLE_HEIGHT, DEVICE_HEIGHT, WAIT_HEIGHT, AXIS_HEIGHT = 30, 32, 13, 34
GAP = 4
LETTER = 6.6
"""Pixels that a letter of a label takes."""
TICKS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
MOST_TICKS = 10

STYLE = """
.paper{fill:#fff}.text{fill:#1f2328}.dim{fill:#59636e}.grid{stroke:#d1d9e0}.row{fill:#f3f5f7}
.k0{fill:#3b6fb6}.k1{fill:#d9772b}.k2{fill:#3f8f5b}.k3{fill:#8a5fb0}.w0{stroke:#3b6fb6}.w1{stroke:#d9772b}
.w2{stroke:#3f8f5b}.w3{stroke:#8a5fb0}.in{fill:#fff}.edge{stroke:#fff}
@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.text{fill:#f0f6fc}.dim{fill:#9198a1}.grid{stroke:#3d444d}
.row{fill:#161b22}.k0{fill:#4c86d6}.k1{fill:#d9772b}.k2{fill:#4aa36a}.k3{fill:#9d74c4}.w0{stroke:#6ba1ea}
.w1{stroke:#ec9450}.w2{stroke:#5cbb7e}.w3{stroke:#b592d8}.edge{stroke:#0d1117}}
text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:12px}
.name{font-size:11px;font-weight:600}.title{font-size:14px;font-weight:600}.small{font-size:10px}
""".replace("\n", "")


@dataclass(frozen=True)
class Bar:
    """What one job did from one time to another."""

    job: str
    kind: str
    """Jobs of one kind have one colour."""
    start_s: float
    end_s: float
    device: str | None
    """None: it waited."""
    is_guest: bool = False
    has_run: bool = False
    """Of a job that waits: it was preempted, and had not yet to start."""


@dataclass(frozen=True)
class Chart:
    """One run: its devices from top to bottom, and what each job did."""

    title: str
    devices: Sequence[str]
    bars: Sequence[Bar]

    @property
    def end_s(self) -> float:
        return max((bar.end_s for bar in self.bars), default=0.0)


def gantt_svg(charts: Sequence[Chart], title: str) -> str:
    """The charts below each other, on one time axis. `title` says what the picture shows in words."""
    end_s = max((chart.end_s for chart in charts), default=0.0) or 1.0
    kinds = list(dict.fromkeys(bar.kind for chart in charts for bar in chart.bars))
    parts, top = [], 6.0
    for chart in charts:
        drawn, height = _chart(chart, kinds, end_s, top)
        parts += drawn
        top += height
    parts += _legend(kinds, top + 4, any(bar.is_guest for chart in charts for bar in chart.bars))
    height = round(top + 24)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _chart(chart: Chart, kinds: Sequence[str], end_s: float, top: float) -> tuple[list[str], float]:
    lines = _lines([bar for bar in chart.bars if bar.device is None], end_s / 60)
    tops = {device: top + TITLE_HEIGHT + at * (DEVICE_HEIGHT + GAP) for at, device in enumerate(chart.devices)}
    wait_top = top + TITLE_HEIGHT + len(chart.devices) * (DEVICE_HEIGHT + GAP) + 2
    bottom = wait_top + max(1, len(lines)) * WAIT_HEIGHT + 2
    parts = [_text(LEFT, top + 20, chart.title, "text title")]
    parts += _axis(end_s, top + TITLE_HEIGHT, bottom)
    for device, y in tops.items():
        parts.append(
            f'<rect class="row" x="{LEFT}" y="{y:g}" width="{WIDTH - LEFT - RIGHT}" height="{DEVICE_HEIGHT}"/>'
        )
        parts.append(_text(LEFT - 8, y + DEVICE_HEIGHT / 2 + 4, device, "text", "end"))
    parts.append(_text(LEFT - 8, wait_top + 11, "waiting", "dim", "end"))
    for bar in sorted(chart.bars, key=lambda bar: bar.is_guest):
        if bar.device in tops:
            parts += _on_device(bar, kinds.index(bar.kind), end_s, tops[bar.device], _has_guest(bar, chart.bars))
    for at, line in enumerate(lines):
        for bar in line:
            parts += _waiting(bar, kinds.index(bar.kind), end_s, wait_top + at * WAIT_HEIGHT + WAIT_HEIGHT / 2)
    return parts, bottom + AXIS_HEIGHT - top


def _on_device(bar: Bar, kind: int, end_s: float, top: float, has_guest: bool) -> list[str]:
    """A holder fills the row; a guest is drawn over the lower part of its holder."""
    height = DEVICE_HEIGHT * (0.46 if bar.is_guest else 1.0)
    x, width = _x(bar.start_s, end_s), max(1.5, _x(bar.end_s, end_s) - _x(bar.start_s, end_s))
    y = top + DEVICE_HEIGHT - height
    tip = f"{bar.job}: {bar.start_s:.1f} to {bar.end_s:.1f} s{', as a guest' if bar.is_guest else ''}"
    parts = [
        f'<rect class="k{kind % 4} edge" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2">'
        f"<title>{escape(tip)}</title></rect>"
    ]
    if label := _label(bar.job, width - 4):
        middle = y + height / 2 - (DEVICE_HEIGHT * 0.23 if has_guest else 0)
        parts.append(_text(x + width / 2, middle + 4, label, "in name", "middle"))
    return parts


def _has_guest(bar: Bar, bars: Iterable[Bar]) -> bool:
    """Whether a guest is drawn over a part of it."""
    if bar.is_guest:
        return False
    beside = (other for other in bars if other.is_guest and other.device == bar.device)
    return any(other.start_s < bar.end_s and bar.start_s < other.end_s for other in beside)


def _waiting(bar: Bar, kind: int, end_s: float, y: float) -> list[str]:
    """Dotted before the first start, dashed after a preemption, with the job's name where it fits."""
    x, right = _x(bar.start_s, end_s), _x(bar.end_s, end_s)
    label = bar.job if len(bar.job) * LETTER <= right - x - 12 else ""
    begin = x + (len(label) * LETTER * 0.85 + 6 if label else 0)
    dashes = "7 3" if bar.has_run else "1.5 2.5"
    tip = f"{bar.job}: {'preempted' if bar.has_run else 'waits'}, {bar.start_s:.1f} to {bar.end_s:.1f} s"
    parts = [
        f'<line class="w{kind % 4}" x1="{begin:.1f}" y1="{y:.1f}" x2="{max(right, begin + 1):.1f}" y2="{y:.1f}" '
        f'stroke-width="3" stroke-dasharray="{dashes}"><title>{escape(tip)}</title></line>'
    ]
    if label:
        parts.append(_text(x, y + 3.5, label, "dim small"))
    return parts


def _lines(bars: Iterable[Bar], gap_s: float) -> list[list[Bar]]:
    """The bars of waiting jobs on as few lines as have room for them."""
    lines: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (bar.start_s, bar.end_s, bar.job)):
        for line in lines:
            if line[-1].end_s + gap_s <= bar.start_s:
                line.append(bar)
                break
        else:
            lines.append([bar])
    return lines


def _axis(end_s: float, top: float, bottom: float) -> list[str]:
    step_s = next((each for each in TICKS_S if end_s / each <= MOST_TICKS), TICKS_S[-1])
    parts = []
    for at_s in range(0, int(end_s) + 1, step_s):
        x = _x(at_s, end_s)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top:g}" x2="{x:.1f}" y2="{bottom:g}"/>')
        parts.append(_text(x, bottom + 14, f"{at_s} s" if at_s else "0", "dim", "middle"))
    return parts


def _legend(kinds: Sequence[str], y: float, has_guests: bool) -> list[str]:
    parts, x = [], float(LEFT)
    for at, kind in enumerate(kinds):
        parts.append(f'<rect class="k{at % 4}" x="{x:g}" y="{y:g}" width="12" height="12" rx="2"/>')
        parts.append(_text(x + 17, y + 10, f"{kind} job", "dim"))
        x += 17 + (len(kind) + 4) * LETTER + 12
    samples = (("waits for its first start", "1.5 2.5"), ("preempted, paused", "7 3"))
    for text, dashes in samples:
        parts.append(
            f'<line class="grid" x1="{x:g}" y1="{y + 6:g}" x2="{x + 30:g}" y2="{y + 6:g}" stroke-width="3" '
            f'stroke-dasharray="{dashes}" style="stroke:#8b949e"/>'
        )
        parts.append(_text(x + 36, y + 10, text, "dim"))
        x += 36 + len(text) * LETTER + 10
    if has_guests:
        parts.append(f'<rect class="row" x="{x:g}" y="{y:g}" width="24" height="12" rx="2" style="fill:#8b949e"/>')
        parts.append(f'<rect class="paper" x="{x + 4:g}" y="{y + 6:g}" width="16" height="5" rx="1.5"/>')
        parts.append(_text(x + 30, y + 10, "guest beside a holder", "dim"))
    return parts


def _label(job: str, width: float) -> str:
    """The job's name, or its last word, or nothing: what there is room for."""
    for text in (job, job.split()[-1]):
        if len(text) * LETTER <= width:
            return text
    return ""


def _x(at_s: float, end_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at_s / end_s


def _text(x: float, y: float, text: str, style: str, anchor: str = "start") -> str:
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'
