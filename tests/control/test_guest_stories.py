"""Guests: jobs that compute on devices they do not hold, while they wait for devices of their own."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hosting import PACKED, Word, hosting, seated, unseated
from office import Office, Open, devices, kinds, request

from weft.control.api.explain import event_in_words, why_live
from weft.control.api.views import Views, nodes_json
from weft.control.coordinator_session import measurement_of
from weft.control.loop import dispatch
from weft.control.loop.inputs import (
    AttemptReport,
    Cancel,
    ChangePolicy,
    Hold,
    Measurement,
    NodeConnected,
    Release,
    StopAll,
    Tick,
)
from weft.control.loop.reports import growth_of
from weft.control.loop.writer import Counts
from weft.core.commands import Seating
from weft.core.events import Measured
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import Memory, Note, Offer, Sharing
from weft.core.values import JobSpec
from weft.policies.registry import POLICIES
from weft.protocol import MeasuredRate, ProtocolError, from_coordinator
from weft.system.home import Home

GIB = 1 << 30
FREELY = {"guest": False, "throttled": False, "lane": 0, "base": 0, "weight": 1}


def packed(office: Open, policy: str = "fifo", seat: Sharing | None = None, **asked: Any) -> tuple[Office, list[Word]]:
    """Job 1 holds the device; job 2, which could only wait for it, sits beside it."""
    words: list[Word] = []
    control = office(1, hosting(words, policy))
    control.submit(gpu_mem_bytes=2 * GIB)
    words.append(seat or seated("2"))
    control.submit(gpu_mem_bytes=3 * GIB, **asked)
    assert control.running() == {"1", "2"}
    return control, words


def shown(control: Office, job_id: str) -> dict[str, Any]:
    return Views(Home(Path("/home"))).live(control.control, control.control.records[job_id], control.now)


def measure(control: Office, job_id: str, rate_hz: float, *neighbours: str, **changed: Any) -> Measurement:
    here = control.node.attempts[job_id]
    measured = Measured(job_id, here.generation, rate_hz, 0.5, GIB, GIB, neighbours)
    return Measurement(changed.pop("attempt", here.number), replace(measured, **changed))


def told(control: Office, job_id: str) -> list[str]:
    """What its history says, but for what its node reports."""
    rows = control.store.all("log_of_job", job_id)
    lines = [event_in_words(row["kind"], json.loads(row["body"])) for row in rows if row["kind"] != "Reported"]
    return [line for line in lines if line]


def test_who_is_seated_is_launched_on_the_devices_of_another_and_runs_for_people(office: Open) -> None:
    words: list[Word] = []
    control = office(1, hosting(words))
    (first,) = control.instant(request(gpu_mem_bytes=GIB)).orders
    assert first["seat"] == FREELY
    words.append(seated("2", is_throttled=True))
    (order,) = control.instant(request(gpu_mem_bytes=GIB)).orders
    assert (order["type"], order["job"], order["attempt"], order["generation"]) == ("run", "2", 1, 1)
    assert (order["devices"], order["seat"]) == ([0], {**FREELY, "guest": True, "throttled": True})
    assert control.states() == {"1": "RUNNING", "2": "RUNNING"}
    control.hear()
    holder, guest = shown(control, "1"), shown(control, "2")
    assert (holder["guest"], holder["beside"], guest["guest"], guest["beside"]) == (False, ["2"], True, ["1"])
    assert (guest["devices"], guest["reason"], guest["lane"], guest["position"]) == (["here:0"], "", None, 1)
    (device,) = nodes_json(control.control, is_up=True)[0]["devices"]
    assert (device["jobs"], device["guests"]) == (["1", "2"], ["2"])


def test_holder_and_guest_are_told_their_lanes(office: Open) -> None:
    seating = Seating(((0, 1),), 3, base=-50, weight=4)
    control, _ = packed(office, seat=Sharing([Offer("2", seating, PACKED)]))
    assert control.node.attempts["2"].seat == {"guest": True, "throttled": False, "lane": 3, "base": -50, "weight": 4}
    assert shown(control, "2")["lane"] == 3
    control.restart()
    control.hello(devices(1))
    assert control.node.attempts["2"].seat == {"guest": True, "throttled": False, "lane": 3, "base": -50, "weight": 4}


def test_who_is_unseated_is_paused_beside_those_who_stay_and_was_not_preempted(office: Open) -> None:
    control, words = packed(office)
    words.append(unseated("2"))
    (order,) = control.instant(Tick()).orders
    assert (order["type"], order["job"], order["generation"]) == ("pause", "2", 1)
    assert (order["needs_bytes"], order["incoming"]) == (2 * GIB, ["1"])
    control.hear()
    assert control.states() == {"1": "RUNNING", "2": "PAUSED"}
    row = control.row("2")
    assert (row["unseats"], row["preemptions"]) == (1, 0)
    assert (shown(control, "1")["beside"], shown(control, "2")["devices"]) == ([], [])


def test_a_guest_gets_the_device_for_its_own_where_it_sits(office: Open) -> None:
    control, _ = packed(office)
    orders = control.end("1")
    assert kinds(orders) == [("run", "2", 1)]
    assert (orders[0]["generation"], orders[0]["devices"], orders[0]["seat"]) == (2, [0], FREELY)
    assert not shown(control, "2")["guest"]
    control.end("2")
    assert [row["outcome"] for row in control.store.all("attempts_of_job", "2")] == ["ended"]


def test_who_is_paused_for_a_guest_makes_room_for_it(office: Open) -> None:
    """The share stage speaks last, and whoever is preempted must know of all who come."""
    words: list[Word] = []
    control = office(1, hosting(words, "tiresias-l:thresholds=10"))
    control.submit(gpu_mem_bytes=GIB), control.submit(gpu_mem_bytes=GIB), control.submit(gpu_mem_bytes=2 * GIB)
    words.append(seated("3"))
    pause, *runs = control.instant(Tick(), after_s=10.0).orders
    assert kinds(runs) == [("run", "2", 1), ("run", "3", 1)]
    assert (pause["job"], pause["needs_bytes"], pause["incoming"]) == ("1", 3 * GIB, ["2", "3"])


def test_who_is_preempted_may_stay_as_a_guest(office: Open) -> None:
    words: list[Word] = []
    control = office(1, hosting(words, "tiresias-l:thresholds=10"))
    control.submit(gpu_mem_bytes=GIB), control.submit(gpu_mem_bytes=GIB)
    words.append(seated("1"))
    pause, other, run = control.instant(Tick(), after_s=10.0).orders
    assert (pause["type"], pause["job"], other["job"]) == ("pause", "1", "2")
    assert (run["job"], run["attempt"], run["generation"] > pause["generation"]) == ("1", 1, True)
    assert run["seat"]["guest"]
    assert (control.row("1")["preemptions"], control.row("1")["state"]) == (1, "RUNNING")


def test_a_guest_comes_to_its_end_and_the_holder_goes_on(office: Open) -> None:
    control, _ = packed(office)
    assert control.end("2") == []
    assert control.states() == {"1": "RUNNING", "2": "SUCCEEDED"}
    assert not control.control.scheduler.ledger.seats.seated


@pytest.mark.parametrize("how", ["end", "lose"])
def test_a_guest_that_fails_or_is_lost_is_tried_again_after_a_while(office: Open, how: str) -> None:
    control, words = packed(office, retries=1)
    control.end("2", 1) if how == "end" else control.lose("2")
    assert control.states() == {"1": "RUNNING", "2": "PENDING"}
    words.append(seated("2"))
    orders = control.wait(2.0)
    assert kinds(orders) == [("run", "2", 2)]
    assert orders[0]["seat"]["guest"]


def test_a_guest_whose_seat_the_next_holder_needs_leaves(office: Open) -> None:
    words: list[Word] = []
    control = office(2, hosting(words))
    control.submit(gpu_mem_bytes=GIB)
    control.submit(gpus=2)  # it says nothing about its memory
    words.append(seated("3", mask=0b10))
    control.submit(gpu_mem_bytes=GIB)
    assert (shown(control, "3")["guest"], shown(control, "3")["beside"]) == (True, [])
    orders = control.end("1")
    assert kinds(orders) == [("pause", "3", 1), ("run", "2", 1)]
    assert (orders[0]["needs_bytes"], orders[0]["incoming"]) == (None, ["2"])
    control.hear()
    assert control.states() == {"1": "SUCCEEDED", "2": "RUNNING", "3": "PAUSED"}
    assert "evicted: 2 was granted its device" in told(control, "3")


def test_a_guest_is_held(office: Open) -> None:
    control, words = packed(office)
    (order,) = control.instant(Hold("2")).orders
    assert (order["type"], order["job"]) == ("pause", "2")
    control.hear()
    assert (control.states()["2"], control.reason("2")) == ("PAUSED", "held by its owner")
    words.append(seated("2"))
    assert kinds(control.instant(Release("2")).orders) == [("run", "2", 1)]


def test_a_guest_that_is_cancelled_is_stopped_and_not_paused(office: Open) -> None:
    control, _ = packed(office)
    control.node.lingers = True
    assert kinds(control.instant(Cancel("2")).orders) == [("stop", "2", 1)]
    assert control.wait(1.0) == []
    assert shown(control, "2")["reason"] == "cancelled; its processes are being stopped"
    control.restart()
    assert kinds(control.hello(devices(1)).orders) == [("stop", "2", 1), ("run", "1", 1)]
    control.end("2", 143)
    assert control.states() == {"1": "RUNNING", "2": "CANCELLED"}
    assert control.row("2")["unseats"] == 0


def test_one_that_is_to_end_may_be_offered_a_seat_and_does_not_take_it(office: Open) -> None:
    """Its devices are taken away in the very instant in which the share stage finds it waiting."""
    words: list[Word] = []
    control = office(1, hosting(words, "tiresias-l:thresholds=10"))
    control.submit(gpu_mem_bytes=GIB), control.submit(gpu_mem_bytes=GIB)
    control.node.lingers = True
    control.instant(Cancel("1"))
    words.append(seated("1"))
    assert kinds(control.instant(Tick(), after_s=10.0).orders) == [("run", "2", 1)]
    assert not control.control.scheduler.ledger.seats.seated
    control.end("1", 143)
    assert control.states() == {"1": "CANCELLED", "2": "RUNNING"}


def test_the_time_of_a_guest_counts_in_part(office: Open) -> None:
    control, _ = packed(office, seat=seated("2", speed=0.5), time_s=30.0)
    assert control.control.next_time(control.now) == control.now + 59.0
    assert kinds(control.wait(58.0)) == []
    assert kinds(control.wait(1.0)) == [("stop", "2", 1)]
    assert control.row("2")["reason"] == "ran past its limit of 30 s"


def test_a_guest_that_gets_next_to_nothing_is_not_ended_for_the_time_that_others_had(office: Open) -> None:
    control, _ = packed(office, seat=seated("2", speed=0.5), time_s=30.0)
    control.instant(measure(control, "2", 4.0), measure(control, "2", 0.08, "1"))
    run_s = control.control.job("2").run_s(control.now)
    assert kinds(control.wait(60.0)) == []
    assert control.control.job("2").run_s(control.now) == pytest.approx(run_s + 0.02 * 60.0)
    control.restart()
    assert control.control.job("2").run_s(control.now) == pytest.approx(run_s + 0.02 * 60.0)


# ---- restarts


def test_a_daemon_that_is_restarted_knows_its_guests(office: Open) -> None:
    control, _ = packed(office, seat=seated("2", lane=2))
    control.instant(measure(control, "1", 8.0), measure(control, "2", 4.0, "1"))
    control.restart()
    assert control.running() == {"1", "2"}
    assert (shown(control, "2")["guest"], shown(control, "2")["devices"]) == (True, ["here:0"])
    orders = control.hello(devices(1)).orders
    assert kinds(orders) == [("run", "1", 1), ("run", "2", 1)]
    assert (orders[1]["generation"], orders[1]["seat"]) == (1, {**FREELY, "guest": True, "lane": 2})
    control.take_snapshot(keep_s=0.0)
    control.restart()
    control.check_disk()
    assert control.control.job("2").measured == Measured("2", 1, 4.0, 0.5, GIB, GIB, ("1",))


def test_a_machine_that_is_started_anew_has_lost_its_guests(office: Open) -> None:
    control, _ = packed(office)
    assert [(order["type"], order["attempt"]) for order in control.reboot(devices(1)).orders if "job" in order] == [
        ("run", 2)
    ]
    assert control.running() == {"1"}, "its holder is tried again at once, and nobody sits beside it"


def test_with_other_devices_nobody_sits_where_it_sat(office: Open) -> None:
    control, _ = packed(office)
    control.node.hello()
    assert kinds(control.hello(devices(1, "V100")).orders) == [("pause", "2", 1), ("run", "1", 1)]
    assert control.row("2")["state"] == "PAUSED"


def test_a_device_that_somebody_else_uses_is_no_seat(office: Open) -> None:
    words: list[Word] = []
    control = office(2, hosting(words))
    control.submit(), control.submit(gpus=2)
    words.append(seated("3", mask=0b10))
    control.submit()
    assert control.running() == {"1", "3"}
    assert kinds(control.tell_devices(devices(2, blocked_by="process 7")).orders) == [("pause", "3", 1)]
    control.hear()
    assert control.states() == {"1": "RUNNING", "2": "PENDING", "3": "PAUSED"}


def test_one_that_left_when_it_had_a_seat_again_goes_on_at_once(office: Open) -> None:
    """The order to go on crossed the word that it is gone."""
    control, words = packed(office)
    control.node.leaves = True
    words += [unseated("2"), seated("2")]
    control.instant(Tick())
    assert kinds(control.instant(Tick()).orders) == [("run", "2", 1)]
    assert kinds(control.hear()) == [("run", "2", 2)]
    assert control.node.attempts["2"].seat["guest"]


def test_an_order_to_sit_that_never_reached_the_node_is_given_again(office: Open) -> None:
    control, _ = packed(office)
    control.node.gone("2")
    outcome = control.instant(AttemptReport("2", 1, "lost", {"never": True, "message": "nothing of it is here"}))
    assert kinds(outcome.orders) == [("run", "2", 2)]
    assert outcome.orders[0]["seat"]["guest"]


def test_when_weft_goes_down_guests_are_ended_too(office: Open) -> None:
    control, _ = packed(office)
    assert kinds(control.instant(StopAll()).orders) == [("stop", "1", 1), ("stop", "2", 1)]
    control.hear()
    assert control.states() == {"1": "CANCELLED", "2": "CANCELLED"}


# ---- what is measured


def test_what_a_node_measures_reaches_the_core_and_the_log(office: Open) -> None:
    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0), measure(control, "1", 6.0, "2"), measure(control, "2", 3.0, "1"))
    job = control.control.job("1")
    assert (job.alone and job.alone.rate_hz, job.measured and job.measured.neighbours) == (8.0, ("2",))
    assert (shown(control, "1")["interference_ratio"], shown(control, "2")["interference_ratio"]) == (0.75, None)
    assert told(control, "1")[-2:] == ["measured: 8 steps a second alone", "measured: 6 steps a second beside 2"]
    control.end("2")
    assert shown(control, "1")["interference_ratio"] is None, "the neighbour has gone"


@pytest.mark.parametrize("late", ["attempt", "generation", "unseated", "ended", "ending"])
def test_what_was_measured_of_a_lease_that_is_over_is_dropped(office: Open, late: str) -> None:
    control, words = packed(office)
    control.node.lingers = True
    word = measure(control, "2", 4.0, "1", **({late: 0} if late in ("attempt", "generation") else {}))
    if late == "unseated":
        words.append(unseated("2"))
        control.wait(1.0)
    elif late == "ended":
        control.end("2")
    elif late == "ending":
        control.cancel("2")
    assert [fact.kind for fact in control.instant(word).facts] == []


@pytest.mark.parametrize(
    "odd",
    [
        {"rate_hz": math.nan},
        {"rate_hz": math.inf},
        {"rate_hz": -1.0},
        {"rate_hz": None},
        {"utilisation": "much"},
        {"steps": "many"},
        {"alone_hz": -1.0},
        {"alone_hz": float("nan")},
        {"error": float("inf")},
        {"error": "small"},
        {"window": [1]},
        {"persistent_bytes": 2**64},
        {"ephemeral_bytes": -1},
        {"neighbours": [7]},
        {"neighbours": "17"},
        {"attempt": "1"},
        {"job": 7},
    ],
)
def test_what_makes_no_sense_was_not_measured(odd: dict[str, Any]) -> None:
    said = {"type": "measured", "job": "1", "attempt": 1, "generation": 2, "rate_hz": 4, "utilisation": 0.5}
    said |= {"persistent_bytes": 10, "ephemeral_bytes": 20, "neighbours": ["3", "2"]}
    assert measured_by(said) == Measurement(1, Measured("1", 2, 4.0, 0.5, 10, 20, ("2", "3")))
    assert measured_by({**said, **odd}) is None


def measured_by(said: dict[str, Any]) -> Measurement | None:
    """What the daemon makes of a message."""
    try:
        message = from_coordinator(said)
    except ProtocolError:
        return None
    assert isinstance(message, MeasuredRate)
    return measurement_of(message)


MIB = 1 << 20


def growth(control: Office, persistent_bytes: Any, ephemeral_bytes: Any, **changed: Any) -> Measurement | None:
    """Of job 1, as its node says it every second."""
    said = {"generation": control.node.attempts["1"].generation, "needs_bytes": [persistent_bytes, ephemeral_bytes]}
    return growth_of(control.control, "1", {**said, **changed})


def test_a_job_that_has_grown_loses_its_company_at_once_and_is_told_of_once(office: Open) -> None:
    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0))
    grown = growth(control, 99 * GIB, GIB)
    assert grown is not None
    assert control.instant(grown).facts[0].kind == "Grown"
    assert control.running() == {"1"}
    assert growth(control, 99 * GIB, GIB) is None
    assert control.instant(grown).facts == [], "said twice before the first was heard"
    assert "measured: it needs 102400 MiB of a device by now" in told(control, "1")
    control.instant(measure(control, "1", 8.0))
    assert growth(control, 99 * GIB, GIB) is not None, "it was smaller meanwhile"


@pytest.mark.parametrize(
    ("more_mib", "is_news"),
    [((0, 0), False), ((9, 9), False), ((0, 200), True), ((200, 0), True), ((200, -200), True), ((-200, 200), False)],
)
def test_who_has_grown_by_little_is_as_before(office: Open, more_mib: tuple[int, int], is_news: bool) -> None:
    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0))
    sizes = [GIB + more * MIB for more in more_mib]
    assert (growth(control, *sizes) is not None) is is_news


def test_of_who_was_never_measured_it_counts_what_it_declared(office: Open) -> None:
    control, _ = packed(office)
    assert growth(control, 99 * GIB, 0) is None


@pytest.mark.parametrize("odd", [{"needs_bytes": [1]}, {"needs_bytes": None}, {"generation": None}, {"generation": 9}])
def test_what_makes_no_sense_has_not_grown(office: Open, odd: dict[str, Any]) -> None:
    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0))
    assert growth(control, 99 * GIB, GIB, **odd) is None
    assert growth(control, 99 * GIB, "much") is None
    generation = control.node.attempts["1"].generation
    control.cancel("1")
    assert growth_of(control.control, "1", {"generation": generation, "needs_bytes": [99 * GIB, GIB]}) is None, (
        "it is over"
    )


def test_memory_that_is_not_seen_for_once_is_as_it_was_seen_before(office: Open) -> None:
    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0))
    control.instant(measure(control, "1", 7.0, "2", persistent_bytes=None, ephemeral_bytes=None))
    assert control.control.job("1").measured == Measured("1", 1, 7.0, 0.5, GIB, GIB, ("2",))
    assert control.running() == {"1", "2"}


def test_memory_that_a_node_cannot_see_is_as_declared() -> None:
    said = {"type": "measured", "job": "1", "attempt": 1, "generation": 2, "rate_hz": 4, "utilisation": 0.5}
    unseen = {"persistent_bytes": None, "ephemeral_bytes": None}
    told = measured_by({**said, **unseen})
    assert told == measured_by(said) == Measurement(1, Measured("1", 2, 4.0, 0.5, None, None))
    job = Job(JobSpec("1", 2, memory_bytes=20), 1, 0.0, 1.0)
    job.measured = told.measured if told else None
    assert job.memory == Memory(10, 0)


def test_metrics_tell_of_guests_and_what_company_costs(office: Open) -> None:
    from weft.control.api.prometheus import exposition, seen_now

    control, _ = packed(office)
    control.instant(measure(control, "1", 8.0), measure(control, "1", 6.0, "2"))
    counts = Counts(control.store, control.control)
    service = SimpleNamespace(control=control.control, link=SimpleNamespace(is_up=True), counts=counts)
    lines = exposition(control.store, seen_now(cast("Any", service))).decode().splitlines()
    assert 'weft_device_guests{device="0",node="here"} 1.0' in lines
    assert [line for line in lines if line.startswith("weft_job_interference_ratio")] == [
        'weft_job_interference_ratio{job="1",name="true"} 0.75'
    ]


# ---- a share stage that fails


@pytest.mark.parametrize("failing", [KeyError("oops"), seated("2", mask=0b100), seated("99")])
def test_a_share_stage_that_fails_loses_nothing_that_was_decided(
    office: Open, failing: Word, caplog: pytest.LogCaptureFixture
) -> None:
    words: list[Word] = [failing]
    caplog.set_level(logging.CRITICAL, logger=dispatch.__name__)
    control = office(1, hosting([]))
    control.new_policy = hosting(words)
    control.restart()
    words.insert(0, Sharing())
    control.instant(NodeConnected("here", devices(1), control.boot_id))
    assert kinds(control.instant(request(gpu_mem_bytes=GIB), request(gpu_mem_bytes=GIB)).orders) == [("run", "1", 1)]
    assert control.control.policy_error.startswith("its share stage: ")
    assert control.control.next_time(control.now) == control.now + dispatch.ASK_AGAIN_S
    words.append(seated("2"))
    assert kinds(control.wait(dispatch.ASK_AGAIN_S)) == [("run", "2", 1)]
    assert control.control.policy_error == ""
    assert control.control.next_time(control.now) == math.inf


def test_a_policy_that_fails_keeps_nobody_on_a_seat_that_is_lost_and_is_asked_again(office: Open) -> None:
    control, _ = packed(office)

    class Broken:
        def decide(self, view: object) -> Any:
            raise RuntimeError("broken")

        explain = decide

    control.instant(ChangePolicy("broken", Broken()))
    assert control.running() == {"1", "2"}, "guests stay as they are"
    assert kinds(control.instant(Hold("2")).orders) == [("pause", "2", 1)]
    assert control.control.policy_error == "RuntimeError: broken"
    for _ in range(2):
        asked_s = control.control.next_time(control.now)
        assert control.now < asked_s <= control.now + dispatch.ASK_AGAIN_S
        control.wait(asked_s - control.now)
    control.instant(ChangePolicy("fifo", POLICIES["fifo"]()))


def test_a_stage_is_woken_when_it_asks_to_be(office: Open) -> None:
    control, words = packed(office)
    words.append(Sharing(wake_at=control.now + 31.0))
    control.instant(Tick())
    assert control.control.next_time(control.now) == control.now + 30.0
    words.append(unseated("2"))
    assert kinds(control.wait(30.0)) == [("pause", "2", 1)]


# ---- what people read


def test_history_and_why_tell_of_every_decision_in_order(office: Open) -> None:
    control, words = packed(office)
    words.append(Sharing(notes=[Note("2", Reason(Code.PACKED_KEPT, ("1", 0.31))), Note("99", PACKED)]))
    control.wait(1.0)
    words.append(unseated("2"))
    control.wait(1.0)
    control.end("1")
    decided = [
        "packed with 1, to be measured",
        "packed with 1: +31%, kept",
        "packed with 1, undone: 0.80×",
        "starts on 1 of 1 free devices",
    ]
    assert told(control, "2") == ["submitted", *decided]
    answer = why_live(control.control, control.store, Views(Home(Path("/home"))), "2", control.now, control.new_policy)
    assert [(one["what"], one["reason"]) for one in answer["decisions"]] == list(
        zip(("Seat", "Noted", "Unseat", "Start"), decided, strict=True)
    )
    assert answer["preemptions"] == []
    control.restart()


def test_that_a_guest_stands_still_and_why_is_told_and_changes_nothing(office: Open) -> None:
    control, _ = packed(office)
    before = control.states()
    for reason, slowdown in (("resting", 0.042), ("sharing", None), ("no room", None)):
        report = AttemptReport("2", 1, "held-back", {"reason": reason, "slowdown": slowdown})
        assert control.instant(report).orders == []
    control.instant(AttemptReport("2", 7, "held-back", {"reason": "resting", "slowdown": 0.5}))
    assert control.states() == before
    decided = [
        "throttled: slowed its holder by 4 %",
        "goes on",
        "throttled: its memory no longer fits beside its holder's",
    ]
    rows = [row for row in control.store.all("log_of_job", "2") if row["kind"] == "Reported"]
    assert [event_in_words("Reported", json.loads(row["body"])) for row in rows][-3:] == decided
    answer = why_live(control.control, control.store, Views(Home(Path("/home"))), "2", control.now, control.new_policy)
    assert [(one["what"], one["reason"]) for one in answer["decisions"]][1:] == [("HeldBack", each) for each in decided]
    control.restart()


def test_why_says_that_a_guest_waits_for_devices_of_its_own(office: Open) -> None:
    from weft.control.api.explain import in_words

    control, _ = packed(office)
    answer = why_live(control.control, control.store, Views(Home(Path("/home"))), "2", control.now, control.new_policy)
    lines = in_words({**answer, "estimate": {"starts_in_s": 90.0, "how": "if so"}})
    assert lines[0] == "2 is RUNNING as a guest beside 1, waiting for devices of its own: needs 1 device; free: 0"
    assert "it has devices of its own in about 2 min, if so" in lines
    assert lines[-1].endswith(": packed with 1, to be measured")


# ---- what the core is told


def test_the_core_hears_what_a_job_says_about_sharing_and_what_each_of_its_devices_must_hold(office: Open) -> None:
    control = office(4)
    control.submit(gpus=4, ntasks=2, gpu_mem_bytes=3 * GIB, name="bert", share=False, migrate=False)
    control.submit(**{"class": "guaranteed"})
    spec = control.control.job("1").spec
    assert (spec.may_share, spec.may_migrate, spec.model) == (False, False, "bert")
    assert control.control.job("1").memory == Memory(3 * GIB // 2, 0), "each task has two devices for its 3 GiB"
    assert (control.control.job("2").spec.may_share, control.control.job("2").spec.may_migrate) == (True, True)


def test_a_node_has_the_memory_of_its_smallest_device(empty: Open) -> None:
    control = empty()
    found = [*devices(2), *devices(1, "V100")]
    found[1]["memory_bytes"] = 5 * GIB
    control.hello(found)
    nodes = control.control.scheduler.ledger.nodes
    assert [(node.device_type, node.memory_bytes) for node in nodes] == [("cpu", 5 * GIB), ("V100", 8 * GIB)]
    control.hello([{**device, "memory_bytes": None} for device in devices(1)])
    assert nodes[-1].memory_bytes is None, "where nothing is known of it, nobody shares"


def test_a_log_of_before_devices_were_shared_is_told_how_much_memory_they_have(office: Open) -> None:
    control = office(1)
    control.store._db.execute("UPDATE log SET body = json_remove(body, '$.node[3]') WHERE kind = 'NodeJoined'")
    control.restart()
    assert [node.memory_bytes for node in control.control.scheduler.ledger.nodes] == [8 * GIB]


def test_quotas_reach_the_core_and_outlive_a_restart(office: Open) -> None:
    control = office(2, vision=1)
    assert control.control.scheduler.ledger.tenants.quotas == {"vision": 1}
    control.take_snapshot()
    control.restart()
    assert control.control.scheduler.ledger.tenants.quotas == {"vision": 1}
