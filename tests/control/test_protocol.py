"""The messages between daemon and coordinator: versioned, the same at both ends; what is odd is refused or left out."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from weft import protocol
from weft.protocol import (
    LARGEST,
    MOST_ENTRIES,
    TEXT_LETTERS,
    VERSION,
    DeviceReport,
    DevicesChanged,
    FromCoordinator,
    FromDaemon,
    Hello,
    JobProgress,
    KnownAttempt,
    Launch,
    MeasuredRate,
    PauseOrder,
    ProgressUpdate,
    ProtocolError,
    Refused,
    Report,
    RunOrder,
    SeatOrder,
    StopOrder,
    Synced,
    VersionError,
    from_coordinator,
    from_daemon,
    plain,
)

DEVICE = DeviceReport(0, "cpu", "cpu", "cpu0", 1 << 30, [0, 1])
LAUNCH = Launch(command=["true", "\udcff"], cwd="/", umask=0o22, tasks=1, devices_per_task=1, env={"A": "\udcfe"})
SAID = [
    Hello(VERSION, "here", "b", [DEVICE], [KnownAttempt("1_3", 2, 4, "running"), KnownAttempt("2", 1, ended=True)], 7),
    DevicesChanged([DEVICE]),
    ProgressUpdate({"1": JobProgress(attempt=1, step=5, metrics={"loss": None}, needs_bytes=(1, 2))}, ["few files"]),
    MeasuredRate("1", 1, 2, 4.0, 0.5, neighbours=["3"]),
    Report(serial=3, job="1", attempt=1, generation=1, what="ended", exit_code=None, progress=JobProgress(step=9)),
]
ORDERED = [
    RunOrder("1", 1, 1, [0], LAUNCH, SeatOrder(guest=True, lane=2)),
    PauseOrder("1", 1, 1, None, ["2"]),
    StopOrder("1", 1, 1),
    Synced(5.0, 10.0),
    protocol.Ack(3),
    protocol.Leave(),
    Refused(VERSION, "why"),
]


def on_the_wire(message: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(plain(message)))
    return read


@pytest.mark.parametrize("message", SAID, ids=lambda message: type(message).__name__)
def test_what_the_coordinator_sends_is_read_as_it_was(message: FromCoordinator) -> None:
    assert from_coordinator(on_the_wire(message)) == message


@pytest.mark.parametrize("message", ORDERED, ids=lambda message: type(message).__name__)
def test_what_the_daemon_sends_is_read_as_it_was(message: FromDaemon) -> None:
    assert from_daemon(on_the_wire(message)) == message


def test_every_message_is_tried_here() -> None:
    assert {type(message) for message in SAID} == set(get_args(FromCoordinator))
    assert {type(message) for message in ORDERED} == set(get_args(FromDaemon))


@pytest.mark.parametrize("message", SAID + ORDERED, ids=lambda message: type(message).__name__)
def test_fields_that_an_end_does_not_know_are_ignored(message: Any) -> None:
    read = from_coordinator if isinstance(message, FromCoordinator) else from_daemon
    assert read({**on_the_wire(message), "added later": [1]}) == message


@pytest.mark.parametrize("version", [1, VERSION + 1, None, "2", {"a": "x" * 100_000}])
def test_another_version_is_refused_with_both_versions_and_what_to_do(version: object) -> None:
    with pytest.raises(VersionError) as refused:
        from_coordinator({"type": "hello", "protocol": version})
    assert f"this daemon version {VERSION}" in refused.value.message
    assert repr(version)[:40] in refused.value.message
    assert "weft down, then weft up" in refused.value.hint
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "please"},
        {"type": None},
        {"job": 7},
        {"attempt": "1"},
        {"attempt": -1},
        {"pids": "none"},
        {"pids": [-1]},
        {"step": "5"},
        {"checkpoint_step": -1},
    ],
)
def test_a_malformed_report_is_none(changed: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        from_coordinator({"type": "report", "serial": 1, "job": "1", "attempt": 1, "what": "started", **changed})


def test_texts_numbers_and_lists_of_a_report_have_an_end() -> None:
    said = {"type": "report", "job": "1", "attempt": 1, "what": "ended", "message": "\ud800" + "x" * 9_000}
    report = from_coordinator({**said, "exit_code": 2**80, "waited_s": float("nan"), "pids": [1] * (MOST_ENTRIES * 3)})
    assert isinstance(report, Report)
    assert isinstance(report.message, str)
    assert isinstance(report.pids, list)
    assert report.message.startswith("\\ud800x")
    assert len(report.message) < TEXT_LETTERS + 10
    assert (report.exit_code, report.waited_s, len(report.pids)) == (LARGEST, None, MOST_ENTRIES + 1)


def test_of_progress_what_is_no_number_is_left_out() -> None:
    odd = {"attempt": 1, "step": "many", "metrics": [], "peak_bytes": 7, "duty": None, "needs_bytes": [1]}
    told = from_coordinator({"type": "progress", "jobs": {"1": odd, "2": 7}, "warnings": ["a", 7]})
    assert told == ProgressUpdate({"1": JobProgress(attempt=1, peak_bytes=7, duty=None)}, ["a"])
    with pytest.raises(ProtocolError):
        from_coordinator({"type": "progress", "jobs": 7})


def test_messages_do_not_change() -> None:
    with pytest.raises(AttributeError):
        StopOrder("1", 1, 1).job = "2"  # type: ignore[misc]


def test_whole_numbers_stay_whole_and_sizes_may_be_fractions() -> None:
    said = {"type": "measured", "job": "1", "attempt": 1, "generation": 1, "rate_hz": 3, "utilisation": 0.5}
    measured = from_coordinator({**said, "persistent_bytes": 7, "ephemeral_bytes": 1.5})
    assert [repr(each) for each in (measured.rate_hz, measured.persistent_bytes, measured.ephemeral_bytes)] == [
        "3",
        "7",
        "1.5",
    ]
    order = from_daemon({"type": "pause", "job": "1", "attempt": 1, "generation": 1, "needs_bytes": 5.5})
    assert order == PauseOrder("1", 1, 1, 5.5)
