"""When a job will start, why it waits, and what a preemption cost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hosting import Word, hosting, seated
from office import Office, Open, devices, request

from weft.control.api import views as viewing
from weft.control.api.explain import preemptions, why_ended, why_live, with_estimate
from weft.control.api.forecast import starts_in_s
from weft.control.api.views import Views
from weft.control.loop.inputs import Tick
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.snapshot import snapshot
from weft.core.view import View
from weft.policies.registry import POLICIES
from weft.system.home import Home

JOBS = [(1, 40.0), (2, 90.0), (1, 15.0), (2, 30.0), (1, 60.0), (1, 5.0), (2, 20.0)]
"""Gang sizes and how long each runs in all."""


def why(office: Office, job_id: str) -> dict[str, Any]:
    views = Views(Home(Path("/nowhere")))
    if job_id in office.control.records:
        answer = why_live(office.control, office.store, views, job_id, office.now, office.new_policy)
    else:
        answer = why_ended(office.row(job_id), office.store)
    return asyncio.run(with_estimate(answer))


def first_starts(office: Office, total_s: dict[str, float], most: int = 500) -> dict[str, float]:
    """Drive the control state and its node, each job ending when it has run its time; when each first started."""
    started: dict[str, float] = {}
    ledger = office.control.scheduler.ledger
    for _ in range(most):
        for job in ledger.running.values():
            started.setdefault(job.id, office.now)
        if not office.control.records:
            return started
        ends = [(office.now + total_s[job.id] - job.run_s(office.now), job.id) for job in ledger.running.values()]
        at = min([*(at for at, _ in ends), office.control.next_time(office.now)])
        for ends_at, job_id in ends:
            if ends_at <= at + 1e-6:
                office.node.end(job_id)
        reports, office.node.reports = office.node.reports, []
        office.instant(*reports, Tick(), after_s=at - office.now)
    raise AssertionError("no end in sight")


@pytest.mark.parametrize("policy", ["fifo", "backfill", "tiresias-l:thresholds=20", "srtf"])
def test_a_forecast_comes_true_if_jobs_run_as_long_as_expected(office: Open, policy: str) -> None:
    control = office(2, policy)
    control.instant(*(request(gpus=gpus) for gpus, _ in JOBS))
    total_s = {str(number): total_s for number, (_, total_s) in enumerate(JOBS, 1)}
    waiting = [job.id for job in control.control.scheduler.ledger.jobs.values() if job.generation == 0]
    taken, asked_at = snapshot(control.control.scheduler.ledger), control.now
    told = {job_id: starts_in_s(taken, control.new_policy(), asked_at, job_id, total_s.get) for job_id in waiting}
    assert snapshot(control.control.scheduler.ledger) == taken, "the living ledger was touched"
    started = first_starts(control, total_s)
    assert len(waiting) >= 4
    for job_id in waiting:
        assert told[job_id] == pytest.approx(started[job_id] - asked_at, abs=0.01), job_id


def test_a_guest_is_told_when_it_has_devices_of_its_own_and_others_when_they_begin(office: Open) -> None:
    words: list[Word] = []
    control = office(1, hosting(words))
    control.submit(gpu_mem_bytes=1 << 30)
    words.append(seated("2", speed=0.5))
    control.submit(gpu_mem_bytes=1 << 30)
    control.submit(gpu_mem_bytes=1 << 30)
    taken = snapshot(control.control.scheduler.ledger)
    ran_s = {job.id: job.run_s(control.now) for job in control.control.scheduler.ledger.jobs.values()}
    total_s = {"1": ran_s["1"] + 60.0, "2": ran_s["2"] + 50.0, "3": 10.0}.get
    told = [starts_in_s(taken, control.new_policy(), control.now, job_id, total_s) for job_id in ("2", "3")]
    assert told == [pytest.approx(60.0), pytest.approx(80.0)], "30 s of its 50 s it has had as a guest by then"
    words.append(seated("3"))
    assert starts_in_s(taken, control.new_policy(), control.now, "3", total_s) == 0.0


def test_nobody_knows_when_a_job_starts_behind_one_that_nobody_knows(office: Open) -> None:
    control = office(1)
    control.submit(), control.submit()
    taken = snapshot(control.control.scheduler.ledger)
    assert starts_in_s(taken, control.new_policy(), control.now, "2", lambda job_id: None) is None


def test_one_that_has_run_too_long_already_is_taken_to_have_as_much_before_it(office: Open) -> None:
    control = office(1)
    control.submit(), control.submit()
    ran_s = control.control.scheduler.ledger.jobs["1"].run_s(control.now)
    taken = snapshot(control.control.scheduler.ledger)
    in_s = starts_in_s(taken, control.new_policy(), control.now, "2", lambda job_id: 0.5)
    assert in_s == pytest.approx(ran_s, abs=0.01)


def test_a_job_that_could_start_now_starts_at_once(office: Open) -> None:
    control = office(1)
    control.submit(hold=True)
    taken = snapshot(control.control.scheduler.ledger)
    taken["jobs"][0] |= {"state": "pending", "holds": []}
    assert starts_in_s(taken, control.new_policy(), control.now, "1", lambda job_id: 1.0) == 0.0


# ---- why


def test_one_that_is_being_ended_is_not_waited_for_long(office: Open) -> None:
    control = office(1)
    control.submit()
    control.end("1", after_s=1000.0)
    control.submit(), control.submit()
    assert why(control, "3")["estimate"]["starts_in_s"] > 900.0
    control.node.lingers = True
    control.cancel("2")
    assert why(control, "3")["estimate"]["starts_in_s"] == pytest.approx(1.0)
    assert why(control, "2")["text"][0] == "2 is RUNNING: cancelled; its processes are being stopped"


def test_why_names_who_is_ahead_and_the_rule_and_when(office: Open) -> None:
    control = office(2)
    control.submit(name="train", gpus=2)
    control.end("1", after_s=60.0)
    for name in ("train", "evaluate", "train", "mine"):
        control.submit(name=name, gpus=2)
    answer = why(control, "5")
    assert (answer["state"], answer["rule"]) == ("PENDING", "first come, first served")
    assert [(job["id"], job["name"], job["gang_size"]) for job in answer["ahead"]] == [
        ("3", "evaluate", 2),
        ("4", "train", 2),
    ]
    assert answer["ahead_count"] == 2
    assert answer["reason"]
    assert answer["estimate"]["starts_in_s"] == pytest.approx(3 * control.row("1")["run_s"], abs=10.0)
    assert answer["text"][0].startswith("5 is PENDING: ")
    assert "ahead of it: 3 (evaluate), 4 (train)" in answer["text"]
    assert "the rule: first come, first served" in answer["text"]
    assert any(line.startswith("it starts in about ") for line in answer["text"])


def test_why_lists_only_the_first_of_many(office: Open) -> None:
    control = office(1)
    control.instant(*(request() for _ in range(30)))
    answer = why(control, "30")
    assert (len(answer["ahead"]), answer["ahead_count"]) == (10, 28)
    assert any(line.endswith("and 18 more") for line in answer["text"])
    assert answer["estimate"] == {"starts_in_s": None, "how": "no job has succeeded yet to learn from"}


def test_why_tells_of_a_preemption_and_what_it_cost(office: Open) -> None:
    control = office(1, "tiresias-l:thresholds=10")
    control.submit(name="long"), control.submit(name="next")
    control.wait(10.0)
    paused = why(control, "1")
    assert paused["state"] == "PAUSED"
    (one,) = paused["preemptions"]
    assert (one["by"], one["step"], one["waited_s"], one["depth"], one["paused_s"]) == ("2", 7, 0.25, "gate", None)
    assert one["reason"] == "preempted: 2 comes before it and needs its devices"
    control.end("2", after_s=5.0)
    assert why(control, "1")["state"] == "RUNNING"
    (one,) = why(control, "1")["preemptions"]
    assert one["paused_s"] == 5.0
    assert any(
        "paused at step 7 (depth gate) after 250 ms, went on after" in line for line in why(control, "1")["text"]
    )
    control.end("1")
    over = why(control, "1")
    assert (over["state"], over["estimate"]["how"], len(over["preemptions"])) == ("SUCCEEDED", "it is over", 1)


def test_why_a_held_job_waits(office: Open) -> None:
    control = office(1)
    control.submit(hold=True)
    answer = why(control, "1")
    assert (answer["reason"], answer["estimate"]["how"]) == ("held by its owner", "weft resume 1 lets it go on")


def test_a_preemption_without_a_word_of_the_node_yet_can_be_told_of() -> None:
    row = {"kind": "Preempt", "at": 5.0, "body": '{"reason": ["preempted-for", "7"]}'}
    (one,) = preemptions([row])
    assert (one["by"], one["paused_s"]) == ("7", None)


class Unspeakable:
    """Decides, and can say nothing about it."""

    def __init__(self) -> None:
        self.fifo = POLICIES["fifo"]()

    def decide(self, view: View) -> Plan:
        return self.fifo.decide(view)

    def explain(self, view: View, job: object) -> Any:
        raise ZeroDivisionError("division by zero")

    def waiting_line(self, view: View) -> Any:
        raise KeyError("who?")


def test_a_policy_that_cannot_explain_itself_breaks_nothing(office: Open) -> None:
    control = office(1, Unspeakable)
    control.submit()
    control.end("1")
    control.submit(), control.submit()
    answer = why(control, "3")
    assert answer["reason"] == "its policy cannot say why: ZeroDivisionError: division by zero"
    assert answer["ahead"] == []


# ---- views


def test_the_reasons_of_ten_thousand_are_worked_out_for_those_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Office(tmp_path)
    control.hello(devices(1))
    control.submit()
    control.instant(request(array="1-9999"))
    calls = {"reason": 0, "waiting_line": 0}
    for name in calls:
        original = getattr(Scheduler, name)

        def counted(self: Scheduler, *arguments: Any, name: str = name, original: Any = original) -> Any:
            calls[name] += 1
            return original(self, *arguments)

        monkeypatch.setattr(Scheduler, name, counted)
    views = Views(Home(Path("/nowhere")))
    shown = [views.live(control.control, record, control.now) for record in control.control.records.values()]
    assert len(shown) == 10_000
    assert calls["waiting_line"] == 0, "positions come from the line that the planner keeps"
    assert calls["reason"] <= viewing.EXPLAINED + 1
    assert shown[-1]["reason"] == "waits behind 9998 other jobs"
    assert [job["position"] for job in shown[:3]] == [None, 1, 2]
    control.store.close()


@pytest.mark.parametrize(("policy", "guaranteed"), [("weft", [True, False]), ("fifo", [False, False])])
def test_who_has_a_part_of_its_tenants_quota_is_shown_as_guaranteed(
    office: Open, policy: str, guaranteed: list[bool]
) -> None:
    control = office(2, policy, vision=1)
    for _ in range(2):
        control.submit(tenant="vision")
    views = Views(Home(Path("/nowhere")))
    shown = [views.live(control.control, record, control.now) for record in control.control.records.values()]
    assert [each["guaranteed"] for each in shown] == guaranteed


def test_views_of_a_control_state_made_anew_are_not_those_of_the_one_before(office: Open) -> None:
    """As after an instant that could not be written: both have seen the same number of instants."""
    views = Views(Home(Path("/nowhere")))
    control = office(1)
    control.submit(), control.submit()
    assert views.live(control.control, control.control.records["2"], control.now)["position"] == 1
    version = control.control.version
    control.restart()
    control.cancel("1"), control.hear()
    control.control.version = version
    assert views.live(control.control, control.control.records["2"], control.now)["position"] is None


def test_before_a_node_has_come_the_reason_says_so(empty: Open) -> None:
    control = empty()
    control.submit()
    assert Views(Home(Path("/nowhere"))).reason(control.control, "1", control.now) == "no node is there yet"


def test_a_job_and_its_devices_as_seen_from_outside(office: Open) -> None:
    control = office(3)
    control.submit(name="train", gpus=2, ntasks=2, steps=100, tenant="vision", env={"SECRET_KEY": "hunter2"})
    record = control.control.records["1"]
    record.steps, record.step_rate_hz = 40, 5.0
    shown = Views(Home(Path("/nowhere"))).live(control.control, record, control.now)
    assert (shown["state"], shown["devices"], shown["eta_s"], shown["pids"]) == (
        "RUNNING",
        ["here:0", "here:1"],
        12.0,
        [4711],
    )
    assert shown["reason"] == ""
    assert "hunter2" not in str(shown)
    control.tell_devices([*devices(2), devices(3, blocked_by="process 7")[2]])
    (node,) = viewing.nodes_json(control.control, is_up=True)
    assert [(each["state"], each["jobs"]) for each in node["devices"]] == [
        ("busy", ["1"]),
        ("busy", ["1"]),
        ("unmanaged", []),
    ]
    control.end("1")
    over = Views(Home(Path("/nowhere"))).ended(control.row("1"))
    assert over.keys() == shown.keys()
    assert (over["state"], over["exit_code"]) == ("SUCCEEDED", 0)
