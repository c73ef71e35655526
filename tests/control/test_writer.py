"""The writer loop: many words make one instant, on disk before anybody is answered; or it has not happened."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from office import MACHINE, devices, lasting, on_the_wire, request

from weft.control.clock import Clock
from weft.control.loop import control_state as control_states
from weft.control.loop import writer as writers
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import AttemptReport, Cancel, Hold, NodeConnected, Order, ProgressReport
from weft.control.loop.writer import LeavingError, RejectedError, Writer
from weft.control.store.log_store import Batch, LogStore, StoreError
from weft.control.store.replay import load_control_state
from weft.core.errors import WeftError
from weft.core.snapshot import snapshot
from weft.policies.registry import POLICIES


class Bench:
    """A writer that runs, and what it sends."""

    def __init__(self, folder: Path, policy: str = "fifo", snapshot_rows: int = 5_000) -> None:
        self.store = LogStore(folder / "weft.db")
        self.policy = policy
        self.sent: list[dict[str, Any]] = []
        self.writer = Writer(self.store, Clock(self.store.last_mark()), self.load, self._send, 30.0, snapshot_rows)

    def _send(self, orders: Iterable[Order]) -> None:
        self.sent.extend(map(on_the_wire, orders))

    def load(self) -> ControlState:
        return load_control_state(self.store, POLICIES[self.policy](), {})

    @property
    def ask(self) -> Callable[..., Awaitable[Any]]:
        return self.writer.ask

    def check_disk(self) -> None:
        assert lasting(self.load()) == lasting(self.writer.control)
        assert str(snapshot(self.load().scheduler.ledger)) == str(snapshot(self.writer.control.scheduler.ledger))


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Callable[[Bench], Awaitable[None]]], None]:
    """Runs a story beside the writer loop, then checks what is on disk."""

    def run(story: Callable[[Bench], Awaitable[None]], policy: str = "fifo", snapshot_rows: int = 5_000) -> None:
        async def whole() -> None:
            loop = asyncio.create_task(bench.writer.run())
            try:
                await asyncio.wait_for(story(bench), 30)
                bench.check_disk()
                assert not loop.done(), "the writer has given up"
            finally:
                loop.cancel()
                await asyncio.gather(loop, return_exceptions=True)

        bench = Bench(tmp_path, policy, snapshot_rows)
        asyncio.run(whole())
        bench.store.close()  # now that no thread of the loop writes any more

    return run


Run = Callable[..., None]


def test_all_that_waits_is_one_instant(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    commit = LogStore.commit
    monkeypatch.setattr(LogStore, "commit", lambda self, batch: (commits.append(batch), commit(self, batch))[1])

    async def story(bench: Bench) -> None:
        answers = await asyncio.gather(
            *(bench.ask(request()) for _ in range(50)), bench.ask(Cancel("99")), return_exceptions=True
        )
        assert [answer["id"] for answer in answers[:-1]] == [str(number) for number in range(1, 51)]
        assert isinstance(answers[-1], WeftError)
        assert len(commits) == 1

    run(story)


def test_nothing_is_sent_or_answered_before_it_is_on_disk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Bench) -> None:
        await bench.ask(NodeConnected(MACHINE, devices(1)))
        bench.sent.clear()
        at_commit: list[tuple[bool, int]] = []
        commit = LogStore.commit

        def watched(self: LogStore, batch: Batch) -> int:
            seq = commit(self, batch)
            at_commit.append((answer.done(), len(bench.sent)))
            return seq

        monkeypatch.setattr(LogStore, "commit", watched)
        answer = asyncio.ensure_future(bench.ask(request()))
        await answer
        assert at_commit == [(False, 0)]
        assert [order["type"] for order in bench.sent] == ["run"]

    run(story)


def test_who_looks_sees_nothing_that_is_not_on_disk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Bench) -> None:
        await bench.ask(request(hold=True))
        commit = LogStore.commit
        seen: list[bool] = []
        is_written = False

        def watched(self: LogStore, batch: Batch) -> int:
            nonlocal is_written
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()  # others have had their turn
            seq = commit(self, batch)
            is_written = True
            return seq

        async def look() -> None:
            while not seen:
                if "2" in bench.writer.control.records:  # dirty
                    async with bench.writer.changed:
                        seen.append(is_written)
                await asyncio.sleep(0)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(LogStore, "commit", watched)
        await asyncio.gather(look(), bench.ask(request()))
        assert seen == [True]

    run(story)


def full(self: LogStore, batch: Batch) -> None:
    self._db.execute("INSERT INTO settings (name, value) VALUES ('half', 'written')")
    raise sqlite3.OperationalError("database or disk is full")


def test_what_cannot_be_written_has_not_happened_and_is_tried_anew_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)
    write = LogStore._write

    async def story(bench: Bench) -> None:
        await bench.ask(NodeConnected(MACHINE, devices(1)))
        await bench.ask(request())
        await bench.ask(request())
        bench.sent.clear()
        before = lasting(bench.writer.control), bench.store.all("live_jobs")
        monkeypatch.setattr(LogStore, "_write", full)
        wishes = (request(), Cancel("2"), AttemptReport("1", 1, "ended", {"exit_code": 0}))
        answers = await asyncio.gather(*map(bench.ask, wishes), return_exceptions=True)
        for answer in answers:
            assert isinstance(answer, StoreError)
            assert answer.message == "the log cannot be written: database or disk is full"
            assert answer.hint.startswith("free some space")
        assert bench.sent == []
        assert bench.store.setting("half") is None
        async with bench.writer.changed:
            assert (lasting(bench.writer.control), bench.store.all("live_jobs")) == before
            assert "disk is full" in bench.writer.trouble
            bench.check_disk()
        monkeypatch.setattr(LogStore, "_write", write)
        assert (await bench.ask(request()))["id"] == "3", "the number of what was refused is free again"
        await bench.ask(AttemptReport("1", 1, "ended", {"exit_code": 0}))
        assert [(order["type"], order["job"]) for order in bench.sent] == [("run", "2")]
        assert bench.writer.trouble == ""

    run(story)


def test_a_really_full_database_recovers_when_there_is_room(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)

    async def story(bench: Bench) -> None:
        await bench.ask(request())
        bench.store._db.execute("PRAGMA max_page_count = 1")  # it is set to what there is
        large = {"command": ["true", "x" * 100_000, "x" * 100_000]}
        with pytest.raises(StoreError, match="full"):
            await bench.ask(request(**large))
        assert list(bench.writer.control.records) == ["1"]
        bench.store._db.execute("PRAGMA max_page_count = 1000000")
        assert (await bench.ask(request(**large)))["id"] == "2"

    run(story)


def test_time_slices_go_on_after_a_failure_without_anybody_saying_a_word(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.0)
    write = LogStore._write

    async def story(bench: Bench) -> None:
        await bench.ask(NodeConnected(MACHINE, devices(1)))
        await bench.ask(request())
        wanted = bench.writer.control.wake_at
        assert wanted < float("inf")
        monkeypatch.setattr(LogStore, "_write", full)
        with pytest.raises(StoreError):
            await bench.ask(request())
        monkeypatch.setattr(LogStore, "_write", write)
        async with bench.writer.changed:
            await asyncio.wait_for(bench.writer.changed.wait_for(lambda: not bench.writer.trouble), 10)
        assert bench.writer.control.wake_at == pytest.approx(wanted)

    run(story, "tiresias-l")


def test_snapshots_are_taken_every_so_often_and_folded(run: Run) -> None:
    async def story(bench: Bench) -> None:
        for _ in range(12):
            await bench.ask(request(env={"A": "1"}))
        first = bench.store.last_snapshot()
        assert first is not None
        for number in range(1, 10):
            await bench.ask(Cancel(str(number)))
        last = bench.store.last_snapshot()
        assert last is not None
        assert last[0] > first[0]
        assert len(list(bench.store._reader.execute("SELECT * FROM snapshots"))) == 1
        await bench.ask(request(env={"A": "1"}))

    run(story, snapshot_rows=10)


def test_rows_from_before_a_restart_count_towards_the_next_snapshot(run: Run) -> None:
    async def story(bench: Bench) -> None:
        for _ in range(4):
            await bench.ask(request())

    run(story, snapshot_rows=10)

    async def goes_on(bench: Bench) -> None:
        assert bench.store.last_snapshot() is None
        for _ in range(7):
            await bench.ask(request())
        assert bench.store.last_snapshot() is not None
        assert bench.store.rows_since_snapshot() < 10

    run(goes_on, snapshot_rows=10)


def test_no_room_for_a_snapshot_harms_nobody(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the log cannot be written: database or disk is full")

    monkeypatch.setattr(LogStore, "put_snapshot", refuse)

    async def story(bench: Bench) -> None:
        for number in range(1, 6):
            assert (await bench.ask(request()))["id"] == str(number)
        assert bench.store.last_snapshot() is None

    run(story, snapshot_rows=2)


def test_a_limit_is_kept_though_nothing_else_happens(run: Run) -> None:
    async def story(bench: Bench) -> None:
        await bench.ask(NodeConnected(MACHINE, devices(1)))
        await bench.ask(request(time_s=0.05))
        async with bench.writer.changed:
            await asyncio.wait_for(bench.writer.changed.wait_for(lambda: bench.writer.control.is_stopping), 10)
        await bench.ask(AttemptReport("1", 1, "ended", {"exit_code": 143}))
        assert bench.store.all("ended_before", None, None, 9)[0]["reason"] == "ran past its limit of 0.05 s"
        assert [order["type"] for order in bench.sent] == ["synced", "run", "stop"]

    run(story)


def test_progress_is_neither_written_nor_decided_upon_but_for_a_first_step(run: Run) -> None:
    async def story(bench: Bench) -> None:
        await bench.ask(NodeConnected(MACHINE, devices(1)))
        await bench.ask(request())
        control, rows = bench.writer.control, bench.store.one("last_seq")
        version, mark = control.version, bench.store.last_mark()
        bench.writer.trouble = "the disk is full"
        said = {"attempt": 1, "generation": 1, "step": 5, "metrics": {"loss": 0.5}}
        await bench.ask(ProgressReport({"1": said, "99": said}))
        await bench.ask(ProgressReport({"1": {**said, "attempt": 7, "step": 77}}))
        assert (control.records["1"].steps, control.records["1"].metrics) == (5, {"loss": 0.5})
        assert (bench.store.one("last_seq"), bench.store.last_mark(), control.version) == (rows, mark, version)
        assert bench.writer.trouble, "which only what is written can disprove"
        bench.writer.trouble = ""
        control.records["1"].steps = 0  # as it is on disk

    run(story)


def test_who_has_gone_away_needs_no_answer(run: Run) -> None:
    async def story(bench: Bench) -> None:
        gone = asyncio.ensure_future(bench.ask(request()))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await bench.ask(Hold("1"))) == {"ids": ["1"]}

    run(story)


def test_a_restart_goes_on_with_time_and_numbers(tmp_path: Path, run: Run) -> None:
    async def first(bench: Bench) -> None:
        await bench.ask(request())

    async def second(bench: Bench) -> None:
        row = bench.store.one("job", "1")
        assert row is not None
        assert (await bench.ask(request()))["id"] == "2"
        again = bench.store.one("job", "2")
        assert again is not None
        assert again["submitted_at"] > row["submitted_at"]

    run(first)
    run(second)


def test_an_input_that_breaks_the_control_state_is_refused_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that came with it happen, once each; what it had changed by then is undone."""

    def broken(control: ControlState, word: Hold, now: float) -> None:
        control.records["1"].steps = 77
        raise KeyError("a fault of ours")

    monkeypatch.setitem(control_states.HANDLERS, Hold, broken)

    async def story(bench: Bench) -> None:
        await bench.ask(request())
        asked = [bench.ask(each) for each in (request(), Hold("1"), request())]
        first, refused, second = await asyncio.gather(*asked, return_exceptions=True)
        assert (first["id"], second["id"]) == ("2", "3")
        assert isinstance(refused, RejectedError)
        assert "KeyError" in refused.message
        assert bench.writer.control.records["1"].steps == 0

    run(story)


def test_orders_that_cannot_be_sent_undo_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Bench) -> None:
        def broken(orders: object) -> None:
            raise RuntimeError("no way to send them")

        monkeypatch.setattr(bench.writer, "_send", broken)
        assert (await bench.ask(request()))["id"] == "1"
        assert (await bench.ask(request()))["id"] == "2"

    run(story)


def test_a_writer_that_is_started_again_goes_on_from_what_is_on_disk(tmp_path: Path) -> None:
    async def whole() -> None:
        for number in ("1", "2"):
            loop = asyncio.create_task(bench.writer.run())
            await asyncio.sleep(0)
            assert (await bench.ask(request()))["id"] == number
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            with pytest.raises(LeavingError):
                await bench.ask(request())
            bench.check_disk()

    bench = Bench(tmp_path)
    asyncio.run(whole())
    bench.store.close()
