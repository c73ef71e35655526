"""How long a job waited has one definition, wherever it is shown, live and simulated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from office import Open, devices

import weft
from weft.control.api.prometheus import exposition, seen_now
from weft.control.api.views import Views
from weft.core.events import Event
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.sim.results.summary import queueing_s
from weft.system.home import Home

SAMPLE = "sample"


def test_all_that_is_shown_of_a_live_jobs_wait_agrees(office: Open, tmp_path: Path) -> None:
    control = office()
    views = Views(Home(tmp_path))
    control.hello(devices(1))
    control.submit()
    control.submit(hold=True)
    control.wait(100.0)
    control.release("2")
    control.wait(50.0)
    control.end("1")
    control.hear()
    job = control.control.job("2")
    waited_s = job.wait_s(control.now)
    assert 50.0 <= waited_s < 60.0, "neither while it was held nor while it ran"
    shown = views.live(control.control, control.control.records["2"], control.now)
    assert shown["wait_s"] == pytest.approx(waited_s, abs=0.001)
    control.wait(30.0)
    assert control.control.job("2").wait_s(control.now) == waited_s, "it runs"
    control.end("2")
    row = control.row("2")
    assert row["wait_s"] == pytest.approx(waited_s)
    assert views.ended(row)["wait_s"] == pytest.approx(waited_s, abs=0.001)
    waits = [each["wait_s"] for each in control.store.all("recent_waits")]
    assert sorted(waits) == pytest.approx([0.0, waited_s])
    link = SimpleNamespace(is_up=True)
    counts = SimpleNamespace(all={})
    service = SimpleNamespace(control=control.control, link=link, counts=counts)
    told = exposition(control.store, seen_now(cast("Any", service))).decode()
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
