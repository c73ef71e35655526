"""The Gantt chart of a run: what it shows, and that it is well-formed and the same each time."""

from __future__ import annotations

from xml.etree import ElementTree

from weft.sim.results.report.gantt import WIDTH, Bar, Chart, gantt_svg

SVG = "{http://www.w3.org/2000/svg}"
DEVICES = ("device 0", "device 1")
BARS = (
    Bar("long 1", "long", 0.0, 20.0, "device 0"),
    Bar("long 2", "long", 5.0, 15.0, "device 0", is_guest=True),
    Bar("long 2", "long", 0.0, 5.0, None),
    Bar("a <b>", "short", 2.0, 9.0, None, has_run=True),
    Bar("a <b>", "short", 9.0, 9.2, "device 1"),
)


def drawn(*charts: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(gantt_svg(charts, "a run"))  # noqa: S314


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def test_devices_jobs_and_a_time_axis_are_labelled() -> None:
    found = texts(drawn(Chart("fifo", DEVICES, BARS)))
    for label in ("fifo", "device 0", "device 1", "waiting", "long 1", "long 2", "20 s", "long job", "short job"):
        assert label in found


def test_a_bar_says_which_job_when_and_whether_it_is_a_guest_or_waits() -> None:
    root = drawn(Chart("fifo", DEVICES, BARS))
    tips = [each.text for each in root.iter(f"{SVG}title")][1:]
    assert "long 1: 0.0 to 20.0 s" in tips
    assert "long 2: 5.0 to 15.0 s, as a guest" in tips
    assert "long 2: waits, 0.0 to 5.0 s" in tips
    assert "a <b>: preempted, 2.0 to 9.0 s" in tips


def test_all_charts_of_a_picture_have_one_scale() -> None:
    short = Chart("weft", DEVICES, [Bar("long 1", "long", 0.0, 10.0, "device 0")])
    root = drawn(Chart("fifo", DEVICES, BARS), short)
    widths = {
        title.text: float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") for title in bar.iter(f"{SVG}title")
    }
    assert abs(widths["long 1: 0.0 to 20.0 s"] - 2 * widths["long 1: 0.0 to 10.0 s"]) < 0.2


def test_nothing_is_drawn_outside_the_picture() -> None:
    for bar in drawn(Chart("fifo", DEVICES, BARS)).iter(f"{SVG}rect"):
        assert float(bar.attrib.get("x", 0)) + float(bar.attrib["width"]) <= WIDTH


def test_the_same_bars_give_the_same_bytes_and_nothing_is_fetched() -> None:
    chart = Chart("fifo", DEVICES, BARS)
    assert gantt_svg([chart], "a run") == gantt_svg([chart], "a run")
    assert gantt_svg([chart], "a run").count("http") == 1  # the name of the format


def test_a_run_without_jobs_is_drawn_empty() -> None:
    assert "device 0" in texts(drawn(Chart("fifo", DEVICES, ())))
