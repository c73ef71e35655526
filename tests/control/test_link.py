"""The daemon's end of the line to the coordinator: orders go out with their environment, reports are acknowledged."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from office import MACHINE, devices, request

from weft.control import coordinator_link as links
from weft.control import coordinator_session as sessions
from weft.control.api.listener import Listener
from weft.control.clock import Clock
from weft.control.coordinator_session import CoordinatorSession
from weft.control.daemon import _listen as listening_socket
from weft.control.loop import control_state as control_states
from weft.control.loop import writer as writers
from weft.control.loop.inputs import AttemptReport, Cancel
from weft.control.loop.writer import Writer
from weft.control.store.log_store import LogStore
from weft.control.store.replay import load_control_state
from weft.policies.registry import POLICIES
from weft.protocol import VERSION

GRACES = {"stop_grace_s": 5.0, "pause_grace_s": 10.0}
Message = dict[str, Any]


class Line:
    """The coordinator's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, **message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    def hello(self, protocol: int = VERSION) -> None:
        self.say(type="hello", protocol=protocol, node=MACHINE, boot_id="b", pid=7, devices=devices(1), attempts=[])

    def report(self, serial: int, what: str, **body: Any) -> None:
        self.say(type="report", serial=serial, job="1", attempt=1, generation=1, what=what, **body)

    async def hear(self) -> Message:
        line = await self.reader.readline()
        assert line, "the line was closed"
        heard: Message = json.loads(line)
        return heard

    async def hear_until(self, kind: str) -> list[Message]:
        heard = [await self.hear()]
        while heard[-1]["type"] != kind:
            heard.append(await self.hear())
        return heard


class Post:
    """A writer with a link, and somewhere to call it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "node.sock"
        self.store = LogStore(folder / "weft.db")
        self.session = CoordinatorSession(self.store.environment, GRACES, strict_memory=True)
        self.link = self.session.link
        self.writer = Writer(
            self.store,
            Clock(),
            lambda: load_control_state(self.store, POLICIES["fifo"](), {}),
            self.session.send,
            30.0,
            5_000,
        )
        self.session.join(self.writer)
        self.lines: list[Line] = []

    async def call(self) -> Line:
        self.lines.append(Line(*await asyncio.open_unix_connection(self.path)))
        return self.lines[-1]

    async def hang_up(self) -> None:
        for line in self.lines:
            line.writer.close()
            await line.writer.wait_closed()
        ours = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*ours, return_exceptions=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def run(folder: Path, story: Callable[[Post], Awaitable[None]]) -> None:
    async def whole() -> None:
        listener = Listener(post.path, listening_socket)
        listener.open()
        server = asyncio.create_task(listener.run(post.link.admit))
        loop = asyncio.create_task(post.writer.run())
        try:
            await asyncio.wait_for(story(post), 30)
            assert not loop.done()
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
            listener.close()
            loop.cancel()
            await post.hang_up()

    post = Post(folder)
    asyncio.run(whole())
    post.store.close()  # now that no thread of the loop writes any more


def test_a_coordinator_that_says_hello_hears_everything_with_its_environment(folder: Path) -> None:
    async def story(post: Post) -> None:
        assert stat.S_IMODE(post.path.stat().st_mode) == 0o600
        await post.writer.ask(request(env={"KEY": "value \udcff"}))
        line = await post.call()
        line.hello()
        run_it, synced = await line.hear_until("synced")
        assert (run_it["job"], run_it["devices"], run_it["launch"]["env"]) == ("1", [0], {"KEY": "value \udcff"})
        assert run_it["launch"]["strict"] is True
        assert "environment" not in run_it
        assert synced == {"type": "synced", **GRACES}
        assert post.link.is_up

    run(folder, story)


def test_a_report_is_acknowledged_once_it_is_on_disk(folder: Path) -> None:
    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        line.report(1, "started", pids=[11])
        line.report(2, "ended", exit_code=0, message="")
        assert [(await line.hear())["serial"] for _ in range(2)] == [1, 2]
        row = post.store.one("job", "1")
        assert row is not None
        assert row["state"] == "SUCCEEDED"
        line.report(2, "ended", exit_code=0, message="")  # its acknowledgement was lost
        assert await line.hear() == {"type": "ack", "serial": 2}

    run(folder, story)


def test_a_report_that_cannot_be_written_is_not_acknowledged_and_comes_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)
    write = LogStore._write

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        monkeypatch.setattr(LogStore, "_write", full)
        line.report(1, "ended", exit_code=0, message="")
        assert await line.reader.read() == b"", "the line is closed without a word"
        monkeypatch.setattr(LogStore, "_write", write)
        again = await post.call()
        again.hello()
        assert [order["type"] for order in await again.hear_until("synced")] == ["run", "synced"]
        again.report(1, "ended", exit_code=0, message="")
        assert (await again.hear())["type"] == "ack"

    run(folder, story)


@pytest.mark.parametrize("kind", ["hello", "devices"])
def test_a_word_about_devices_that_cannot_be_written_closes_the_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def story(post: Post) -> None:
        line = await post.call()
        if kind == "devices":
            line.hello()
            await line.hear_until("synced")
        monkeypatch.setattr(LogStore, "_write", full)
        line.hello() if kind == "hello" else line.say(type="devices", devices=devices(1, blocked_by="process 1"))
        assert await line.reader.read() == b""
        monkeypatch.undo()

    run(folder, story)


def test_who_says_hello_last_is_the_coordinator(folder: Path) -> None:
    async def story(post: Post) -> None:
        first, second = await post.call(), await post.call()
        first.hello()
        await first.hear_until("synced")
        second.hello()
        await second.hear_until("synced")
        await post.writer.ask(request())
        assert (await second.hear())["type"] == "run"
        first.writer.close()
        await post.writer.ask(Cancel("1"))
        assert (await second.hear())["type"] == "stop"
        assert post.link.is_up

    run(folder, story)


def test_another_protocol_is_not_spoken_with(folder: Path) -> None:
    async def story(post: Post) -> None:
        line = await post.call()
        line.hello(protocol=VERSION + 1)
        refused = await line.hear()
        assert (refused["type"], refused["protocol"]) == ("refused", VERSION)
        assert f"speaks version {VERSION + 1} of the protocol, this daemon version {VERSION}" in refused["message"]
        assert "weft down, then weft up" in refused["message"]
        assert await line.reader.read() == b""
        assert not post.link.is_up
        assert post.session.warnings() == [refused["message"]]
        again = await post.call()
        again.hello()
        await again.hear_until("synced")
        assert post.session.warnings() == []

    run(folder, story)


@pytest.mark.parametrize("noise", [b"{\n", b"\xff\n", b"\n"])
def test_noise_on_the_line_closes_it(folder: Path, noise: bytes) -> None:
    async def story(post: Post) -> None:
        line = await post.call()
        line.writer.write(noise)
        assert await line.reader.read() == b""
        assert (await post.writer.ask(request()))["id"] == "1"

    run(folder, story)


def test_progress_is_known_but_not_written(folder: Path) -> None:
    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        said = {"attempt": 1, "step": 5, "step_rate_hz": 2.0, "metrics": {"loss": 0.5}, "host_bytes": 9}
        line.say(type="progress", jobs={"1": said, "99": said})
        line.say(type="progress", jobs={"1": {**said, "attempt": 0, "step": 77}})
        line.report(1, "started", pids=[1])
        await line.hear()
        record = post.writer.control.records["1"]
        assert (record.steps, record.metrics, record.host_bytes) == (5, {"loss": 0.5}, 9)
        rows = [body for _, kind, body in post.store.log_after(0) if kind == "Reported"]
        assert [body["what"] for body in rows] == ["started"]

    run(folder, story)


def test_what_is_measured_is_written_if_it_makes_sense(folder: Path) -> None:
    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        said = {"type": "measured", "job": "1", "attempt": 1, "generation": 1, "rate_hz": 4.5, "utilisation": 0.5}
        said |= {"persistent_bytes": 10, "ephemeral_bytes": 20, "neighbours": []}
        for changed in ({"rate_hz": None}, {"rate_hz": float("nan")}, {"generation": 7}, {"job": "99"}, {}):
            line.say(**{**said, **changed})
        line.report(1, "started", pids=[1])
        await line.hear()
        rows = [body for _, kind, body in post.store.log_after(0) if kind == "Measured"]
        assert [row["rate_hz"] for row in rows] == [4.5]
        measured = post.writer.control.job("1").measured
        assert measured is not None
        assert measured.ephemeral_bytes == 20

    run(folder, story)


def test_that_a_job_has_grown_is_written_when_its_node_says_what_it_needs_by_now(folder: Path) -> None:
    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        said = {"job": "1", "attempt": 1, "generation": 1, "rate_hz": 4.5, "utilisation": 0.5}
        line.say(type="measured", **said, persistent_bytes=10, ephemeral_bytes=20)
        while post.writer.control.job("1").measured is None:
            await asyncio.sleep(0)
        for needs_bytes in ([10, 30], None, [5 << 20, 1 << 20]):
            line.say(type="progress", jobs={"1": {"attempt": 1, "generation": 1, "needs_bytes": needs_bytes}})
        while not (rows := [body for _, kind, body in post.store.log_after(0) if kind == "Grown"]):
            await asyncio.sleep(0)
        assert [(row["persistent_bytes"], row["ephemeral_bytes"]) for row in rows] == [(5 << 20, 1 << 20)]

    run(folder, story)


def test_what_is_measured_and_cannot_be_written_is_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)
    write = LogStore._write

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        monkeypatch.setattr(LogStore, "_write", full)
        sizes = {"persistent_bytes": 1, "ephemeral_bytes": 1, "neighbours": []}
        line.say(type="measured", job="1", attempt=1, generation=1, rate_hz=1.0, utilisation=1.0, **sizes)
        while not post.writer.trouble:
            await asyncio.sleep(0)
        monkeypatch.setattr(LogStore, "_write", write)
        line.report(1, "ended", exit_code=0, message="")
        assert await line.hear() == {"type": "ack", "serial": 1}

    run(folder, story)


def test_without_a_coordinator_nothing_is_sent_and_nobody_waits(folder: Path) -> None:
    async def story(post: Post) -> None:
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        line.writer.close()
        assert (await post.writer.ask(request()))["id"] == "1"
        await post.session.leave()

    run(folder, story)


def test_an_order_that_cannot_be_sent_fails_its_own_job_and_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ORDER_LINE_BYTES", 5_000)

    async def story(post: Post) -> None:
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        await post.writer.ask(request(env={"LARGE": "x" * 5_000}))
        assert (await line.hear())["type"] == "stop", "in case that it is there from before"
        await ended(post, "1")
        row = post.store.one("job", "1")
        assert row is not None
        assert row["state"] == "FAILED"
        assert row["reason"].startswith("cannot be started: its order cannot be sent to the node: it has 5,")
        await post.writer.ask(request())
        assert [(await line.hear())[key] for key in ("type",)] == ["run"]
        assert post.link.is_up

    run(folder, story)


def test_a_poisoned_order_among_all_that_are_sent_anew_fails_its_own_job(folder: Path) -> None:
    async def story(post: Post) -> None:
        await post.writer.ask(request(env={"A": "b"}))
        post.store._db.execute("UPDATE environments SET body = '{'")
        line = await post.call()
        line.hello()
        assert [order["type"] for order in await line.hear_until("synced")] == ["stop", "synced"]
        await ended(post, "1")
        assert post.link.is_up

    run(folder, story)


def test_an_environment_that_cannot_be_read_for_a_while_is_asked_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "TRY_AGAIN_S", 0.0)
    fails = [sqlite3.OperationalError("disk I/O error")] * 2

    async def story(post: Post) -> None:
        def environment(number: int) -> dict[str, str]:
            if fails:
                raise fails.pop()
            return post.store.environment(number)

        post.session._environment = environment
        await post.writer.ask(request())
        for expected in (b"", b"", b"run"):
            line = await post.call()
            line.hello()
            said = await line.reader.read() if not expected else await line.reader.readline()
            assert expected in said
        assert "1" in post.writer.control.records

    run(folder, story)


def test_the_coordinators_lines_that_are_no_messages_are_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "REPORT_LINE_BYTES", 10_000)
    noise = [b"{", b"\xff", b"", b"7", b'{"type": 7}', b"x" * 50_000, b'{"type": "devices", "devices": [1]}']
    noise += [b'{"type": "progress", "jobs": 7}', b'{"type": "progress", "jobs": {"1": {"attempt": 1, "metrics": 7}}}']
    noise += [b'{"type": "measured"}', b'{"type": "report"}', b'{"type": "report", "job": "1", "attempt": "x"}']

    async def story(post: Post) -> None:
        await post.writer.ask(request())
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        for each in noise:
            line.writer.write(each + b"\n")
        line.report(5, "started", pids="none")
        line.report(6, "left")
        line.report(7, "ended", exit_code=0, message="\ud800" + "x" * 9_000, progress={"step": "many", "metrics": []})
        heard = [await line.hear() for _ in range(3)]
        assert heard == [{"type": "ack", "serial": serial} for serial in (5, 6, 7)]
        await ended(post, "1")
        assert post.link.is_up
        assert post.link.skipped >= 9

    run(folder, story)


def test_a_report_that_breaks_the_control_state_loses_its_job_and_is_not_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = control_states.HANDLERS[AttemptReport]

    def broken(control: Any, report: AttemptReport, now: float) -> None:
        if report.what == "ended":
            raise IndexError("a fault of ours")
        take(control, report, now)

    monkeypatch.setitem(control_states.HANDLERS, AttemptReport, broken)

    async def story(post: Post) -> None:
        await post.writer.ask(request(requeue=False))
        line = await post.call()
        line.hello()
        await line.hear_until("synced")
        line.report(1, "ended", exit_code=0)
        assert await line.hear() == {"type": "ack", "serial": 1}
        row = post.store.one("job", "1")
        assert row is not None
        assert row["state"] == "FAILED"
        assert "IndexError" in row["reason"]

    run(folder, story)


def test_who_is_not_the_coordinator_is_not_listened_to(folder: Path) -> None:
    async def story(post: Post) -> None:
        post.link._is_coordinator = lambda pid: False
        line = await post.call()
        line.hello()
        assert await line.reader.read() == b""
        assert not post.link.is_up
        again = await post.call()
        again.report(1, "ended", exit_code=0)
        assert await again.reader.read() == b"", "nothing is said before a hello"

    run(folder, story)


async def ended(post: Post, job_id: str) -> None:
    """Its end is on disk."""
    while True:
        async with post.writer.changed:
            if job_id not in post.writer.control.records:
                return
        await asyncio.sleep(0)
