"""Anything may happen, in any order. After every instant, what is on disk makes the very control state that lives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosting import Restless
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from office import MACHINE, Node, Office, devices, request

from weft.control.loop.inputs import (
    AttemptReport,
    Cancel,
    ChangePolicy,
    Hold,
    Input,
    InstantOutcome,
    Measurement,
    NodeConnected,
    NodeDevices,
    PauseByOwner,
    Release,
    StopAll,
    Submit,
    Tick,
)
from weft.control.loop.inventory import computing, place_of
from weft.control.loop.job_state import JobEnding, JobState
from weft.core.errors import InputError, WeftError
from weft.core.events import Measured
from weft.core.reasons import Code
from weft.core.view import Decider
from weft.policies.registry import POLICIES

EXPLORE = int(os.environ.get("EXPLORE", "0"))
PAUSES_S = st.sampled_from((0.001, 0.5, 1.0, 4.0, 30.0))
PLACES = st.integers(0, 9)
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"gpus": 2},
    {"gpus": 3, "ntasks": 3},
    {"array": "1-3"},
    {"array": "0-6:2%2"},
    {"retries": 2},
    {"requeue": False},
    {"hold": True},
    {"time_s": 5.0},
    {"steps": 50, "name": "known"},
    {"gpu_mem_bytes": 1 << 30, "tenant": "vision"},
    {"env": {"LANG": "C"}},
    {"gpu_mem_bytes": 3 << 30},
    {"gpu_mem_bytes": 5 << 30, "time_s": 20.0},
    {"gpu_mem_bytes": 2 << 30, "share": False},
)


class AnythingHappens(RuleBasedStateMachine):
    def __init__(self, policy: str | Callable[[], Decider]) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.office = Office(Path(self._folder.name), policy)
        self.submitted: set[str] = set()
        self.said: list[AttemptReport] = []
        self.asked_again: list[tuple[Submit, Any]] = []
        self.endings: dict[str, JobEnding] = {}

    # ---- one instant

    def instant(self, pause_s: float, *inputs: Input) -> InstantOutcome:
        outcome = self.office.instant(*inputs, after_s=pause_s)
        self.said += [word for word in inputs if isinstance(word, AttemptReport)]
        for wish, answer in zip(inputs, outcome.answers, strict=True):
            if isinstance(answer, WeftError):
                assert isinstance(answer, InputError), answer
                assert answer.hint
            elif isinstance(wish, Submit):
                self.submitted.update(answer["ids"])
        self.check(outcome)
        return outcome

    def check(self, outcome: InstantOutcome) -> None:
        office = self.office
        office.check_disk()
        states = office.states()
        assert states.keys() == self.submitted
        running = {job.id: job for job in computing(office.control.scheduler.ledger)}
        for record in office.control.records.values():
            assert record.is_alive or record.id not in running, f"{record.id} has devices for nothing"
            row = office.row(record.id)
            assert (row["state"], row["finished_at"]) == (states[record.id], None)
        last_words = {order["job"]: order for order in outcome.orders if order["type"] != "synced"}
        for order in last_words.values():
            if order["type"] == "run":
                job = running[order["job"]]
                held = office.control.inventory.held(office.control.scheduler.ledger, place_of(job).allocation)
                assert order["devices"] == [device["index"] for device in held]
                assert order["generation"] == job.generation
                assert order["seat"]["guest"] == (job.seating is not None)
            elif order["type"] == "pause":
                assert order["job"] not in running or order["generation"] < running[order["job"]].generation
            elif order["type"] == "stop":
                assert office.control.records[order["job"]].ending
        self.check_endings(states)
        assert not office.control.policy_error
        if office.control.next_time(office.now) <= office.now:  # something came due by this very instant
            self.instant(0.001, Tick())

    def check_endings(self, states: dict[str, str]) -> None:
        """Who is to end does so as was said first, once its processes are gone, and is not started again."""
        office, jobs = self.office, self.office.control.scheduler.ledger.jobs
        ending = {record.id: record.ending for record in office.control.records.values() if record.ending}
        assert office.control.is_stopping == bool(ending)
        for job_id, how in ending.items():
            assert office.control.records[job_id].is_alive
            assert states[job_id] in ("RUNNING", "PAUSED")
            assert jobs[job_id].is_running or Code.ENDING in {hold.code for hold in jobs[job_id].holds}
            assert self.endings.setdefault(job_id, how) == how
        for job_id in self.endings.keys() - ending.keys():
            how, row = self.endings.pop(job_id), office.row(job_id)
            assert (row["state"], row["reason"], row["exit_code"]) == (how.state, how.reason, how.exit_code)

    def live(self, at: int, state: JobState | None = None) -> str | None:
        ids = [
            job_id for job_id in self.office.control.records if state in (None, self.office.control.job_state(job_id))
        ]
        return ids[at % len(ids)] if ids else None

    def on_node(self, at: int) -> str:
        ids = sorted(self.office.node.attempts)
        return ids[at % len(ids)]

    # ---- people

    @rule(
        pause_s=PAUSES_S,
        asked=st.lists(st.sampled_from(ASKED), min_size=1, max_size=3),
        after=st.none() | st.lists(st.integers(1, 12), max_size=2),
        request_id=st.none() | st.sampled_from("abc"),
    )
    def submit(self, pause_s: float, asked: list[dict[str, Any]], after: list[int] | None, request_id: str) -> None:
        wishes: list[Submit] = []
        for at, one in enumerate(asked):
            more: dict[str, Any] = {"after": [str(number) for number in after]} if after and at == 0 else {}
            wishes.append(request(**one, **more, request_id=request_id if at == 0 else None))
        answers = self.instant(pause_s, *wishes).answers
        if request_id and not isinstance(answers[0], WeftError):
            self.asked_again.append((wishes[0], answers[0]))

    @precondition(lambda self: self.asked_again)
    @rule(at=PLACES, pause_s=PAUSES_S)
    def submit_again(self, at: int, pause_s: float) -> None:
        wish, answer = self.asked_again[at % len(self.asked_again)]
        assert self.instant(pause_s, wish, wish).answers == [answer, answer]

    @rule(
        pause_s=PAUSES_S,
        kinds=st.lists(
            st.sampled_from((Cancel, Hold, PauseByOwner, PauseByOwner, Release, Release)), min_size=1, max_size=2
        ),
        at=PLACES,
        is_array=st.booleans(),
    )
    def wish(self, pause_s: float, kinds: list[type], at: int, is_array: bool) -> None:
        job_id = self.live(at)
        if job_id is not None:
            wanted = job_id.partition("_")[0] if is_array else job_id
            self.instant(pause_s, *(kind(wanted) for kind in kinds))

    @precondition(lambda self: self.submitted)
    @rule(pause_s=PAUSES_S, at=PLACES)
    def cancel_one_of_all(self, pause_s: float, at: int) -> None:
        ids = sorted(self.submitted)
        self.instant(pause_s, Cancel(ids[at % len(ids)]))

    @rule(pause_s=PAUSES_S)
    def wait(self, pause_s: float) -> None:
        self.instant(pause_s, Tick())

    @rule(pause_s=PAUSES_S, name=st.sampled_from(("fifo", "srtf", "fair")))
    def change_policy(self, pause_s: float, name: str) -> None:
        self.instant(pause_s, ChangePolicy(name, POLICIES[name]()))

    # ---- the node

    @rule(count=st.sampled_from((3, 3, 3, 4, 2)), pause_s=PAUSES_S)
    def say_hello(self, count: int, pause_s: float) -> None:
        """What it had to say it says again afterwards."""
        self.office.node.hello()
        self.instant(pause_s, NodeConnected(MACHINE, devices(count), self.office.boot_id))

    @rule(count=st.sampled_from((3, 3, 4)), pause_s=PAUSES_S)
    def the_machine_is_started_anew(self, count: int, pause_s: float) -> None:
        self.office.boot_id += " again"
        self.office.node.attempts.clear()
        self.say_hello(count, pause_s)

    @precondition(lambda self: self.office.control.inventory.devices)
    @rule(pause_s=PAUSES_S, blocked=st.sets(st.integers(0, 3), max_size=2))
    def tell_of_devices(self, pause_s: float, blocked: set[int]) -> None:
        found = devices(len(self.office.control.inventory.devices))
        for device in found:
            device["blocked_by"] = "process 4711" if device["index"] in blocked else None
        self.instant(pause_s, NodeDevices(found))

    @precondition(lambda self: self.office.node.reports)
    @rule(count=st.integers(1, 4), pause_s=PAUSES_S, is_repeated=st.booleans())
    def report(self, count: int, pause_s: float, is_repeated: bool) -> None:
        reports = self.office.node.reports
        words, self.office.node.reports = reports[:count], reports[count:]
        self.instant(pause_s, *words, *(words if is_repeated else ()))

    @precondition(lambda self: self.said)
    @rule(at=PLACES, pause_s=PAUSES_S)
    def report_again(self, at: int, pause_s: float) -> None:
        """A word of long ago, of an attempt that is over; later words of one that lives were not yet acknowledged."""
        word = self.said[-1 - at % len(self.said)]
        record = self.office.control.records.get(word.job_id)
        if record is None or record.attempt != word.attempt or not record.is_alive:
            assert not self.instant(pause_s, word).answers[0]

    @precondition(lambda self: self.office.node.attempts)
    @rule(at=PLACES, how=st.sampled_from(("end", "end", "fail", "lose")))
    def something_ends(self, at: int, how: str) -> None:
        node, job_id = self.office.node, self.on_node(at)
        if how == "lose":
            node.lose(job_id)
        else:
            node.end(job_id, exit_code=int(how == "fail"))

    @precondition(lambda self: self.office.node.attempts)
    @rule(at=PLACES, pause_s=PAUSES_S, is_alone=st.booleans())
    def measure(self, at: int, pause_s: float, is_alone: bool) -> None:
        """It may be of a lease that is over by now."""
        here = self.office.node.attempts[self.on_node(at)]
        neighbours = () if is_alone else ("1",)
        measured = Measured(here.job_id, here.generation, 2.0, 0.5, 1 << 29, 1 << 28, neighbours)
        self.instant(pause_s, Measurement(here.number, measured))

    @rule(leaves=st.booleans())
    def pauses_from_now_on(self, leaves: bool) -> None:
        self.office.node.leaves = leaves

    @rule(lingers=st.booleans())
    def stops_from_now_on(self, lingers: bool) -> None:
        self.office.node.lingers = lingers

    # ---- the machine

    @rule(pause_s=PAUSES_S, listens=st.booleans())
    def weft_goes_down(self, pause_s: float, listens: bool) -> None:
        """Nobody starts any more, and who was told to stop may outlive the daemon."""
        assert not any(order["type"] == "run" for order in self.instant(pause_s, StopAll()).orders)
        if listens:
            words, self.office.node.reports = self.office.node.reports, []
            assert not self.instant(pause_s, *words).orders
        self.restart(says_hello=True)

    @rule(says_hello=st.booleans())
    def restart(self, says_hello: bool) -> None:
        self.office.restart()
        if says_hello and self.office.control.inventory.devices:
            self.say_hello(len(self.office.control.inventory.devices), 1.0)

    @rule(pause_s=PAUSES_S, asked=st.sampled_from(ASKED))
    def an_instant_is_not_written(self, pause_s: float, asked: dict[str, Any]) -> None:
        """The disk is full, or the daemon is killed just before: it never was."""
        office = self.office
        before = office.states()
        office.now += pause_s
        office.control.handle([request(**asked), StopAll(), *office.node.reports[:1]], office.now)
        office.restart()
        assert office.states() == before
        office.check_disk()

    @rule(keep_s=st.sampled_from((0.0, 5.0, 1e6)))
    def take_a_snapshot(self, keep_s: float) -> None:
        office = self.office
        office.take_snapshot(keep_s)
        office.check_disk()
        forgotten = [
            (wish, answer) for wish, answer in self.asked_again if office.store.one("request", wish.request_id) is None
        ]
        for one in forgotten:
            self.asked_again.remove(one)
            for job_id in one[1]["ids"]:
                assert office.row(job_id)["finished_at"] < office.now - keep_s, "it may be sent again"

    # ---- in the end

    def teardown(self) -> None:
        """If the node is there and everybody is let go, every job comes to its end."""
        office = self.office
        try:
            self.instant(1.0, ChangePolicy("backfill", POLICIES["backfill"]()))
            self.say_hello(4, 1.0)
            for _ in range(200):
                if not office.control.records:
                    break
                self.instant(1.0, *(Release(job_id) for job_id in office.control.records))
                words, office.node.reports = office.node.reports, []
                self.instant(400.0, *words)
                for job_id in list(office.node.attempts):
                    office.node.end(job_id)
            assert not office.control.records, "somebody waits for ever"
            assert office.control.scheduler.ledger.devices_held == 0
            rows = office.store.all("ended_before", None, None, 10_000)
            assert {row["id"] for row in rows} == self.submitted
            assert len(rows) == len(self.submitted)
        finally:
            office.store.close()
            self._folder.cleanup()


@pytest.mark.parametrize(
    "policy",
    [
        "fifo",
        "tiresias-l:thresholds=3/9",
        "las:quantum_s=2",
        "srtf",
        pytest.param(lambda: Restless("fifo"), id="fifo with guests"),
        pytest.param(lambda: Restless("tiresias-l:thresholds=3/9"), id="tiresias-l with guests"),
    ],
)
def test_the_control_state_bears_anything_and_its_log_is_the_truth(policy: str | Callable[[], Decider]) -> None:
    run_state_machine_as_test(
        lambda: AnythingHappens(policy),
        settings=settings(
            phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if EXPLORE else ())),
            max_examples=14 * max(1, EXPLORE),
            stateful_step_count=30,
            derandomize=not EXPLORE,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_node_of_these_tests_launches_nobody_twice() -> None:
    node = Node()
    run = {
        "type": "run",
        "job": "1",
        "attempt": 1,
        "generation": 1,
        "devices": [0],
        "launch": {"tasks": 1, "devices_per_task": 1},
    }
    node.take([run, run])
    assert [report.what for report in node.reports] == ["started"]
    node.end("1")
    node.take([run])
    assert node.attempts == {}
    with pytest.raises(AssertionError):
        node.take([{**run, "attempt": 3}])
