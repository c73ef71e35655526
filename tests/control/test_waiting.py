"""How long a job waited has one definition, wherever it is shown, live and simulated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from office import Open, devices

import weft
from weft.control.metrics import exposition, seen_now
from weft.control.views import Views
from weft.core.events import Event
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.sim.results.summary import queueing_s
from weft.system.home import Home

SAMPLE = "sample"


def test_all_that_is_shown_of_a_live_jobs_wait_agrees(office: Open, tmp_path: Path) -> None:
    desk = office()
    views = Views(Home(tmp_path))
    desk.hello(devices(1))
    desk.submit()
    desk.submit(hold=True)
    desk.wait(100.0)
    desk.release("2")
    desk.wait(50.0)
    desk.end("1")
    desk.hear()
    job = desk.desk.job("2")
    waited_s = job.wait_s(desk.now)
    assert 50.0 <= waited_s < 60.0, "neither while it was held nor while it ran"
    shown = views.live(desk.desk, desk.desk.records["2"], desk.now)
    assert shown["wait_s"] == pytest.approx(waited_s, abs=0.001)
    desk.wait(30.0)
    assert desk.desk.job("2").wait_s(desk.now) == waited_s, "it runs"
    desk.end("2")
    row = desk.row("2")
    assert row["wait_s"] == pytest.approx(waited_s)
    assert views.ended(row)["wait_s"] == pytest.approx(waited_s, abs=0.001)
    waits = [each["wait_s"] for each in desk.store.all("recent_waits")]
    assert sorted(waits) == pytest.approx([0.0, waited_s])
    link = SimpleNamespace(is_up=True)
    counts = SimpleNamespace(all={})
    house = SimpleNamespace(desk=desk.desk, link=link, counts=counts)
    told = exposition(desk.store, seen_now(cast("Any", house))).decode()
    assert f"weft_wait_seconds_sum {waited_s}" in told


@pytest.mark.parametrize("policy", ["fifo", "tiresias-l", "gandiva", "weft"])
def test_a_simulation_counts_the_waits_of_its_jobs_as_the_ledger_does(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    by_ledger: dict[str, float] = {}
    leave = Ledger.leave

    def noting(ledger: Ledger, job: Job, event: Event, now: float) -> None:
        by_ledger[job.id] = job.wait_s(now)
        leave(ledger, job, event, now)

    monkeypatch.setattr(Ledger, "leave", noting)
    (run,) = weft.simulate(SAMPLE, cluster="2x4", policy=policy, jobs=60, world="ideal")
    assert sum(run.jobs.preemptions) or policy == "fifo"
    waits = dict(zip(run.jobs.ids, queueing_s(run.jobs), strict=True))
    assert waits == pytest.approx(by_ledger, abs=1e-6, rel=1e-9)
