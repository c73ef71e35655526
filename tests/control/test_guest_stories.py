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

from weft.control import decisions
from weft.control.counts import Counts
from weft.control.happenings import event_in_words
from weft.control.inputs import Cancel, ChangePolicy, Hello, Hold, Measurement, Release, Report, StopAll, Tick
from weft.control.measuring import growth_of, measurement_of
from weft.control.views import Views, nodes_json
from weft.control.why import why_live
from weft.core.commands import Seating
from weft.core.events import Measured
from weft.core.job import Job
from weft.core.memory import Memory
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, Offer, Sharing
from weft.core.values import JobSpec
from weft.policies.registry import POLICIES
from weft.system.home import Home

GIB = 1 << 30
FREELY = {"guest": False, "throttled": False, "lane": 0, "base": 0, "weight": 1}


def packed(office: Open, policy: str = "fifo", seat: Sharing | None = None, **asked: Any) -> tuple[Office, list[Word]]:
    """Job 1 holds the device; job 2, which could only wait for it, sits beside it."""
    words: list[Word] = []
    desk = office(1, hosting(words, policy))
    desk.submit(gpu_mem_bytes=2 * GIB)
    words.append(seat or seated("2"))
    desk.submit(gpu_mem_bytes=3 * GIB, **asked)
    assert desk.running() == {"1", "2"}
    return desk, words


def shown(desk: Office, job_id: str) -> dict[str, Any]:
    return Views(Home(Path("/home"))).live(desk.desk, desk.desk.records[job_id], desk.now)


def measure(desk: Office, job_id: str, rate_hz: float, *neighbours: str, **changed: Any) -> Measurement:
    here = desk.node.attempts[job_id]
    measured = Measured(job_id, here.generation, rate_hz, 0.5, GIB, GIB, neighbours)
    return Measurement(changed.pop("attempt", here.number), replace(measured, **changed))


def told(desk: Office, job_id: str) -> list[str]:
    """What its history says, but for what its node reports."""
    rows = desk.store.all("log_of_job", job_id)
    lines = [event_in_words(row["kind"], json.loads(row["body"])) for row in rows if row["kind"] != "Reported"]
    return [line for line in lines if line]


def test_who_is_seated_is_launched_on_the_devices_of_another_and_runs_for_people(office: Open) -> None:
    words: list[Word] = []
    desk = office(1, hosting(words))
    (first,) = desk.instant(request(gpu_mem_bytes=GIB)).orders
    assert first["seat"] == FREELY
    words.append(seated("2", is_throttled=True))
    (order,) = desk.instant(request(gpu_mem_bytes=GIB)).orders
    assert (order["type"], order["job"], order["attempt"], order["generation"]) == ("run", "2", 1, 1)
    assert (order["devices"], order["seat"]) == ([0], {**FREELY, "guest": True, "throttled": True})
    assert desk.states() == {"1": "RUNNING", "2": "RUNNING"}
    desk.hear()
    holder, guest = shown(desk, "1"), shown(desk, "2")
    assert (holder["guest"], holder["beside"], guest["guest"], guest["beside"]) == (False, ["2"], True, ["1"])
    assert (guest["devices"], guest["reason"], guest["lane"], guest["position"]) == (["here:0"], "", None, 1)
    (device,) = nodes_json(desk.desk, is_up=True)[0]["devices"]
    assert (device["jobs"], device["guests"]) == (["1", "2"], ["2"])


def test_holder_and_guest_are_told_their_lanes(office: Open) -> None:
    seating = Seating(((0, 1),), 3, base=-50, weight=4)
    desk, _ = packed(office, seat=Sharing([Offer("2", seating, PACKED)]))
    assert desk.node.attempts["2"].seat == {"guest": True, "throttled": False, "lane": 3, "base": -50, "weight": 4}
    assert shown(desk, "2")["lane"] == 3
    desk.restart()
    desk.hello(devices(1))
    assert desk.node.attempts["2"].seat == {"guest": True, "throttled": False, "lane": 3, "base": -50, "weight": 4}


def test_who_is_unseated_is_paused_beside_those_who_stay_and_was_not_preempted(office: Open) -> None:
    desk, words = packed(office)
    words.append(unseated("2"))
    (order,) = desk.instant(Tick()).orders
    assert (order["type"], order["job"], order["generation"]) == ("pause", "2", 1)
    assert (order["needs_bytes"], order["comers"]) == (2 * GIB, ["1"])
    desk.hear()
    assert desk.states() == {"1": "RUNNING", "2": "PAUSED"}
    row = desk.row("2")
    assert (row["unseats"], row["preemptions"]) == (1, 0)
    assert (shown(desk, "1")["beside"], shown(desk, "2")["devices"]) == ([], [])


def test_a_guest_gets_the_device_for_its_own_where_it_sits(office: Open) -> None:
    desk, _ = packed(office)
    orders = desk.end("1")
    assert kinds(orders) == [("run", "2", 1)]
    assert (orders[0]["generation"], orders[0]["devices"], orders[0]["seat"]) == (2, [0], FREELY)
    assert not shown(desk, "2")["guest"]
    desk.end("2")
    assert [row["outcome"] for row in desk.store.all("attempts_of_job", "2")] == ["ended"]


def test_who_is_paused_for_a_guest_makes_room_for_it(office: Open) -> None:
    """The share stage speaks last, and whoever is preempted must know of all who come."""
    words: list[Word] = []
    desk = office(1, hosting(words, "tiresias-l:thresholds=10"))
    desk.submit(gpu_mem_bytes=GIB), desk.submit(gpu_mem_bytes=GIB), desk.submit(gpu_mem_bytes=2 * GIB)
    words.append(seated("3"))
    pause, *runs = desk.instant(Tick(), after_s=10.0).orders
    assert kinds(runs) == [("run", "2", 1), ("run", "3", 1)]
    assert (pause["job"], pause["needs_bytes"], pause["comers"]) == ("1", 3 * GIB, ["2", "3"])


def test_who_is_preempted_may_stay_as_a_guest(office: Open) -> None:
    words: list[Word] = []
    desk = office(1, hosting(words, "tiresias-l:thresholds=10"))
    desk.submit(gpu_mem_bytes=GIB), desk.submit(gpu_mem_bytes=GIB)
    words.append(seated("1"))
    pause, other, run = desk.instant(Tick(), after_s=10.0).orders
    assert (pause["type"], pause["job"], other["job"]) == ("pause", "1", "2")
    assert (run["job"], run["attempt"], run["generation"] > pause["generation"]) == ("1", 1, True)
    assert run["seat"]["guest"]
    assert (desk.row("1")["preemptions"], desk.row("1")["state"]) == (1, "RUNNING")


def test_a_guest_comes_to_its_end_and_the_holder_goes_on(office: Open) -> None:
    desk, _ = packed(office)
    assert desk.end("2") == []
    assert desk.states() == {"1": "RUNNING", "2": "SUCCEEDED"}
    assert not desk.desk.scheduler.ledger.seats.seated


@pytest.mark.parametrize("how", ["end", "lose"])
def test_a_guest_that_fails_or_is_lost_is_tried_again_after_a_while(office: Open, how: str) -> None:
    desk, words = packed(office, retries=1)
    desk.end("2", 1) if how == "end" else desk.lose("2")
    assert desk.states() == {"1": "RUNNING", "2": "PENDING"}
    words.append(seated("2"))
    orders = desk.wait(2.0)
    assert kinds(orders) == [("run", "2", 2)]
    assert orders[0]["seat"]["guest"]


def test_a_guest_whose_seat_the_next_holder_needs_leaves(office: Open) -> None:
    words: list[Word] = []
    desk = office(2, hosting(words))
    desk.submit(gpu_mem_bytes=GIB)
    desk.submit(gpus=2)  # it says nothing about its memory
    words.append(seated("3", mask=0b10))
    desk.submit(gpu_mem_bytes=GIB)
    assert (shown(desk, "3")["guest"], shown(desk, "3")["beside"]) == (True, [])
    orders = desk.end("1")
    assert kinds(orders) == [("pause", "3", 1), ("run", "2", 1)]
    assert (orders[0]["needs_bytes"], orders[0]["comers"]) == (None, ["2"])
    desk.hear()
    assert desk.states() == {"1": "SUCCEEDED", "2": "RUNNING", "3": "PAUSED"}
    assert "evicted: 2 was granted its device" in told(desk, "3")


def test_a_guest_is_held(office: Open) -> None:
    desk, words = packed(office)
    (order,) = desk.instant(Hold("2")).orders
    assert (order["type"], order["job"]) == ("pause", "2")
    desk.hear()
    assert (desk.states()["2"], desk.reason("2")) == ("PAUSED", "held by its owner")
    words.append(seated("2"))
    assert kinds(desk.instant(Release("2")).orders) == [("run", "2", 1)]


def test_a_guest_that_is_cancelled_is_stopped_and_not_paused(office: Open) -> None:
    desk, _ = packed(office)
    desk.node.lingers = True
    assert kinds(desk.instant(Cancel("2")).orders) == [("stop", "2", 1)]
    assert desk.wait(1.0) == []
    assert shown(desk, "2")["reason"] == "cancelled; its processes are being stopped"
    desk.restart()
    assert kinds(desk.hello(devices(1)).orders) == [("stop", "2", 1), ("run", "1", 1)]
    desk.end("2", 143)
    assert desk.states() == {"1": "RUNNING", "2": "CANCELLED"}
    assert desk.row("2")["unseats"] == 0


def test_one_that_is_to_end_may_be_offered_a_seat_and_does_not_take_it(office: Open) -> None:
    """Its devices are taken away in the very instant in which the share stage finds it waiting."""
    words: list[Word] = []
    desk = office(1, hosting(words, "tiresias-l:thresholds=10"))
    desk.submit(gpu_mem_bytes=GIB), desk.submit(gpu_mem_bytes=GIB)
    desk.node.lingers = True
    desk.instant(Cancel("1"))
    words.append(seated("1"))
    assert kinds(desk.instant(Tick(), after_s=10.0).orders) == [("run", "2", 1)]
    assert not desk.desk.scheduler.ledger.seats.seated
    desk.end("1", 143)
    assert desk.states() == {"1": "CANCELLED", "2": "RUNNING"}


def test_the_time_of_a_guest_counts_in_part(office: Open) -> None:
    desk, _ = packed(office, seat=seated("2", speed=0.5), time_s=30.0)
    assert desk.desk.next_time(desk.now) == desk.now + 59.0
    assert kinds(desk.wait(58.0)) == []
    assert kinds(desk.wait(1.0)) == [("stop", "2", 1)]
    assert desk.row("2")["reason"] == "ran past its limit of 30 s"


def test_a_guest_that_gets_next_to_nothing_is_not_ended_for_the_time_that_others_had(office: Open) -> None:
    desk, _ = packed(office, seat=seated("2", speed=0.5), time_s=30.0)
    desk.instant(measure(desk, "2", 4.0), measure(desk, "2", 0.08, "1"))
    run_s = desk.desk.job("2").run_s(desk.now)
    assert kinds(desk.wait(60.0)) == []
    assert desk.desk.job("2").run_s(desk.now) == pytest.approx(run_s + 0.02 * 60.0)
    desk.restart()
    assert desk.desk.job("2").run_s(desk.now) == pytest.approx(run_s + 0.02 * 60.0)


# ---- restarts


def test_a_daemon_that_is_restarted_knows_its_guests(office: Open) -> None:
    desk, _ = packed(office, seat=seated("2", lane=2))
    desk.instant(measure(desk, "1", 8.0), measure(desk, "2", 4.0, "1"))
    desk.restart()
    assert desk.running() == {"1", "2"}
    assert (shown(desk, "2")["guest"], shown(desk, "2")["devices"]) == (True, ["here:0"])
    orders = desk.hello(devices(1)).orders
    assert kinds(orders) == [("run", "1", 1), ("run", "2", 1)]
    assert (orders[1]["generation"], orders[1]["seat"]) == (1, {**FREELY, "guest": True, "lane": 2})
    desk.take_snapshot(keep_s=0.0)
    desk.restart()
    desk.check_disk()
    assert desk.desk.job("2").measured == Measured("2", 1, 4.0, 0.5, GIB, GIB, ("1",))


def test_a_machine_that_is_started_anew_has_lost_its_guests(office: Open) -> None:
    desk, _ = packed(office)
    assert [(order["type"], order["attempt"]) for order in desk.reboot(devices(1)).orders if "job" in order] == [
        ("run", 2)
    ]
    assert desk.running() == {"1"}, "its holder is tried again at once, and nobody sits beside it"


def test_with_other_devices_nobody_sits_where_it_sat(office: Open) -> None:
    desk, _ = packed(office)
    desk.node.hello()
    assert kinds(desk.hello(devices(1, "V100")).orders) == [("pause", "2", 1), ("run", "1", 1)]
    assert desk.row("2")["state"] == "PAUSED"


def test_a_device_that_somebody_else_uses_is_no_seat(office: Open) -> None:
    words: list[Word] = []
    desk = office(2, hosting(words))
    desk.submit(), desk.submit(gpus=2)
    words.append(seated("3", mask=0b10))
    desk.submit()
    assert desk.running() == {"1", "3"}
    assert kinds(desk.tell_devices(devices(2, blocked_by="process 7")).orders) == [("pause", "3", 1)]
    desk.hear()
    assert desk.states() == {"1": "RUNNING", "2": "PENDING", "3": "PAUSED"}


def test_one_that_left_when_it_had_a_seat_again_goes_on_at_once(office: Open) -> None:
    """The order to go on crossed the word that it is gone."""
    desk, words = packed(office)
    desk.node.leaves = True
    words += [unseated("2"), seated("2")]
    desk.instant(Tick())
    assert kinds(desk.instant(Tick()).orders) == [("run", "2", 1)]
    assert kinds(desk.hear()) == [("run", "2", 2)]
    assert desk.node.attempts["2"].seat["guest"]


def test_an_order_to_sit_that_never_reached_the_node_is_given_again(office: Open) -> None:
    desk, _ = packed(office)
    desk.node.gone("2")
    outcome = desk.instant(Report("2", 1, "lost", {"never": True, "message": "nothing of it is here"}))
    assert kinds(outcome.orders) == [("run", "2", 2)]
    assert outcome.orders[0]["seat"]["guest"]


def test_when_weft_goes_down_guests_are_ended_too(office: Open) -> None:
    desk, _ = packed(office)
    assert kinds(desk.instant(StopAll()).orders) == [("stop", "1", 1), ("stop", "2", 1)]
    desk.hear()
    assert desk.states() == {"1": "CANCELLED", "2": "CANCELLED"}


# ---- what is measured


def test_what_a_node_measures_reaches_the_core_and_the_log(office: Open) -> None:
    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0), measure(desk, "1", 6.0, "2"), measure(desk, "2", 3.0, "1"))
    job = desk.desk.job("1")
    assert (job.alone and job.alone.rate_hz, job.measured and job.measured.neighbours) == (8.0, ("2",))
    assert (shown(desk, "1")["interference_ratio"], shown(desk, "2")["interference_ratio"]) == (0.75, None)
    assert told(desk, "1")[-2:] == ["measured: 8 steps a second alone", "measured: 6 steps a second beside 2"]
    desk.end("2")
    assert shown(desk, "1")["interference_ratio"] is None, "the neighbour has gone"


@pytest.mark.parametrize("late", ["attempt", "generation", "unseated", "ended", "ending"])
def test_what_was_measured_of_a_lease_that_is_over_is_dropped(office: Open, late: str) -> None:
    desk, words = packed(office)
    desk.node.lingers = True
    word = measure(desk, "2", 4.0, "1", **({late: 0} if late in ("attempt", "generation") else {}))
    if late == "unseated":
        words.append(unseated("2"))
        desk.wait(1.0)
    elif late == "ended":
        desk.end("2")
    elif late == "ending":
        desk.cancel("2")
    assert [fact.kind for fact in desk.instant(word).facts] == []


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
    assert measurement_of(said) == Measurement(1, Measured("1", 2, 4.0, 0.5, 10, 20, ("2", "3")))
    assert measurement_of({**said, **odd}) is None


MIB = 1 << 20


def growth(desk: Office, persistent_bytes: Any, ephemeral_bytes: Any, **changed: Any) -> Measurement | None:
    """Of job 1, as its node says it every second."""
    said = {"generation": desk.node.attempts["1"].generation, "needs_bytes": [persistent_bytes, ephemeral_bytes]}
    return growth_of(desk.desk, "1", {**said, **changed})


def test_a_job_that_has_grown_loses_its_company_at_once_and_is_told_of_once(office: Open) -> None:
    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0))
    grown = growth(desk, 99 * GIB, GIB)
    assert grown is not None
    assert desk.instant(grown).facts[0].kind == "Grown"
    assert desk.running() == {"1"}
    assert growth(desk, 99 * GIB, GIB) is None
    assert desk.instant(grown).facts == [], "said twice before the first was heard"
    assert "measured: it needs 102400 MiB of a device by now" in told(desk, "1")
    desk.instant(measure(desk, "1", 8.0))
    assert growth(desk, 99 * GIB, GIB) is not None, "it was smaller meanwhile"


@pytest.mark.parametrize(
    ("more_mib", "is_news"),
    [((0, 0), False), ((9, 9), False), ((0, 200), True), ((200, 0), True), ((200, -200), True), ((-200, 200), False)],
)
def test_who_has_grown_by_little_is_as_before(office: Open, more_mib: tuple[int, int], is_news: bool) -> None:
    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0))
    sizes = [GIB + more * MIB for more in more_mib]
    assert (growth(desk, *sizes) is not None) is is_news


def test_of_who_was_never_measured_it_counts_what_it_declared(office: Open) -> None:
    desk, _ = packed(office)
    assert growth(desk, 99 * GIB, 0) is None


@pytest.mark.parametrize("odd", [{"needs_bytes": [1]}, {"needs_bytes": None}, {"generation": None}, {"generation": 9}])
def test_what_makes_no_sense_has_not_grown(office: Open, odd: dict[str, Any]) -> None:
    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0))
    assert growth(desk, 99 * GIB, GIB, **odd) is None
    assert growth(desk, 99 * GIB, "much") is None
    generation = desk.node.attempts["1"].generation
    desk.cancel("1")
    assert growth_of(desk.desk, "1", {"generation": generation, "needs_bytes": [99 * GIB, GIB]}) is None, "it is over"


def test_memory_that_is_not_seen_for_once_is_as_it_was_seen_before(office: Open) -> None:
    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0))
    desk.instant(measure(desk, "1", 7.0, "2", persistent_bytes=None, ephemeral_bytes=None))
    assert desk.desk.job("1").measured == Measured("1", 1, 7.0, 0.5, GIB, GIB, ("2",))
    assert desk.running() == {"1", "2"}


def test_memory_that_a_node_cannot_see_is_as_declared() -> None:
    said = {"type": "measured", "job": "1", "attempt": 1, "generation": 2, "rate_hz": 4, "utilisation": 0.5}
    unseen = {"persistent_bytes": None, "ephemeral_bytes": None}
    told = measurement_of({**said, **unseen})
    assert told == measurement_of(said) == Measurement(1, Measured("1", 2, 4.0, 0.5, None, None))
    job = Job(JobSpec("1", 2, memory_bytes=20), 1, 0.0, 1.0)
    job.measured = told.measured if told else None
    assert job.memory == Memory(10, 0)


def test_metrics_tell_of_guests_and_what_company_costs(office: Open) -> None:
    from weft.control.metrics import exposition, seen_now

    desk, _ = packed(office)
    desk.instant(measure(desk, "1", 8.0), measure(desk, "1", 6.0, "2"))
    counts = Counts(desk.store, desk.desk)
    house = SimpleNamespace(desk=desk.desk, link=SimpleNamespace(is_up=True), counts=counts)
    lines = exposition(desk.store, seen_now(cast("Any", house))).decode().splitlines()
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
    caplog.set_level(logging.CRITICAL, logger=decisions.__name__)
    desk = office(1, hosting([]))
    desk.new_policy = hosting(words)
    desk.restart()
    words.insert(0, Sharing())
    desk.instant(Hello("here", devices(1), desk.boot_id))
    assert kinds(desk.instant(request(gpu_mem_bytes=GIB), request(gpu_mem_bytes=GIB)).orders) == [("run", "1", 1)]
    assert desk.desk.policy_error.startswith("its share stage: ")
    assert desk.desk.next_time(desk.now) == desk.now + decisions.ASK_AGAIN_S
    words.append(seated("2"))
    assert kinds(desk.wait(decisions.ASK_AGAIN_S)) == [("run", "2", 1)]
    assert desk.desk.policy_error == ""
    assert desk.desk.next_time(desk.now) == math.inf


def test_a_policy_that_fails_keeps_nobody_on_a_seat_that_is_lost_and_is_asked_again(office: Open) -> None:
    desk, _ = packed(office)

    class Broken:
        def decide(self, view: object) -> Any:
            raise RuntimeError("broken")

        explain = decide

    desk.instant(ChangePolicy("broken", Broken()))
    assert desk.running() == {"1", "2"}, "guests stay as they are"
    assert kinds(desk.instant(Hold("2")).orders) == [("pause", "2", 1)]
    assert desk.desk.policy_error == "RuntimeError: broken"
    for _ in range(2):
        asked_s = desk.desk.next_time(desk.now)
        assert desk.now < asked_s <= desk.now + decisions.ASK_AGAIN_S
        desk.wait(asked_s - desk.now)
    desk.instant(ChangePolicy("fifo", POLICIES["fifo"]()))


def test_a_stage_is_woken_when_it_asks_to_be(office: Open) -> None:
    desk, words = packed(office)
    words.append(Sharing(wake_at=desk.now + 31.0))
    desk.instant(Tick())
    assert desk.desk.next_time(desk.now) == desk.now + 30.0
    words.append(unseated("2"))
    assert kinds(desk.wait(30.0)) == [("pause", "2", 1)]


# ---- what people read


def test_history_and_why_tell_of_every_decision_in_order(office: Open) -> None:
    desk, words = packed(office)
    words.append(Sharing(notes=[Note("2", Reason(Code.PACKED_KEPT, ("1", 0.31))), Note("99", PACKED)]))
    desk.wait(1.0)
    words.append(unseated("2"))
    desk.wait(1.0)
    desk.end("1")
    decided = [
        "packed with 1, to be measured",
        "packed with 1: +31%, kept",
        "packed with 1, undone: 0.80×",
        "starts on 1 of 1 free devices",
    ]
    assert told(desk, "2") == ["submitted", *decided]
    answer = why_live(desk.desk, desk.store, Views(Home(Path("/home"))), "2", desk.now, desk.new_policy)
    assert [(one["what"], one["reason"]) for one in answer["decisions"]] == list(
        zip(("Seat", "Noted", "Unseat", "Start"), decided, strict=True)
    )
    assert answer["preemptions"] == []
    desk.restart()


def test_that_a_guest_stands_still_and_why_is_told_and_changes_nothing(office: Open) -> None:
    desk, _ = packed(office)
    before = desk.states()
    for reason, slowdown in (("resting", 0.042), ("sharing", None), ("no room", None)):
        report = Report("2", 1, "held-back", {"reason": reason, "slowdown": slowdown})
        assert desk.instant(report).orders == []
    desk.instant(Report("2", 7, "held-back", {"reason": "resting", "slowdown": 0.5}))
    assert desk.states() == before
    decided = [
        "stands still: its holder was 4 % slower beside it",
        "goes on",
        "stands still: its memory does not fit beside its holder's any more",
    ]
    rows = [row for row in desk.store.all("log_of_job", "2") if row["kind"] == "Reported"]
    assert [event_in_words("Reported", json.loads(row["body"])) for row in rows][-3:] == decided
    answer = why_live(desk.desk, desk.store, Views(Home(Path("/home"))), "2", desk.now, desk.new_policy)
    assert [(one["what"], one["reason"]) for one in answer["decisions"]][1:] == [("HeldBack", each) for each in decided]
    desk.restart()


def test_why_says_that_a_guest_waits_for_devices_of_its_own(office: Open) -> None:
    from weft.control.why import in_words

    desk, _ = packed(office)
    answer = why_live(desk.desk, desk.store, Views(Home(Path("/home"))), "2", desk.now, desk.new_policy)
    lines = in_words({**answer, "estimate": {"starts_in_s": 90.0, "how": "if so"}})
    assert lines[0] == "2 is RUNNING as a guest beside 1, waiting for devices of its own: needs 1 device; free: 0"
    assert "it has devices of its own in about 2 min, if so" in lines
    assert lines[-1].endswith(": packed with 1, to be measured")


# ---- what the core is told


def test_the_core_hears_what_a_job_says_about_sharing_and_what_each_of_its_devices_must_hold(office: Open) -> None:
    desk = office(4)
    desk.submit(gpus=4, ntasks=2, gpu_mem_bytes=3 * GIB, name="bert", share=False, migrate=False)
    desk.submit(**{"class": "guaranteed"})
    spec = desk.desk.job("1").spec
    assert (spec.may_share, spec.may_migrate, spec.model) == (False, False, "bert")
    assert desk.desk.job("1").memory == Memory(3 * GIB // 2, 0), "each task has two devices for its 3 GiB"
    assert (desk.desk.job("2").spec.may_share, desk.desk.job("2").spec.may_migrate) == (True, True)


def test_a_node_has_the_memory_of_its_smallest_device(empty: Open) -> None:
    desk = empty()
    found = [*devices(2), *devices(1, "V100")]
    found[1]["memory_bytes"] = 5 * GIB
    desk.hello(found)
    nodes = desk.desk.scheduler.ledger.nodes
    assert [(node.device_type, node.memory_bytes) for node in nodes] == [("cpu", 5 * GIB), ("V100", 8 * GIB)]
    desk.hello([{**device, "memory_bytes": None} for device in devices(1)])
    assert nodes[-1].memory_bytes is None, "where nothing is known of it, nobody shares"


def test_a_log_of_before_devices_were_shared_is_told_how_much_memory_they_have(office: Open) -> None:
    desk = office(1)
    desk.store._db.execute("UPDATE log SET body = json_remove(body, '$.node[3]') WHERE kind = 'NodeJoined'")
    desk.restart()
    assert [node.memory_bytes for node in desk.desk.scheduler.ledger.nodes] == [8 * GIB]


def test_quotas_reach_the_core_and_outlive_a_restart(office: Open) -> None:
    desk = office(2, vision=1)
    assert desk.desk.scheduler.ledger.tenants.quotas == {"vision": 1}
    desk.take_snapshot()
    desk.restart()
    assert desk.desk.scheduler.ledger.tenants.quotas == {"vision": 1}
