"""Tiresias's guard against starvation: who has waited long enough for what it has run goes back to the first queue."""

from __future__ import annotations

import pytest
from policy_helpers import by_id, cluster, job, run

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.transitions import State
from weft.core.values import JobSpec
from weft.policies.order.tiresias import ServiceQueues
from weft.policies.registry import POLICIES


def ran_100_then_waited_since_100() -> Job:
    described = Job(JobSpec("a"), 1, 0.0, 1.0)
    described.state = State.PENDING
    described.generation, described.first_start_s = 1, 0.0
    described.settled_run_s, described.since_s = 100.0, 100.0
    return described


@pytest.mark.parametrize(("knob", "is_promoted"), [(2.0, True), (3.0, False)])
def test_a_job_that_ran_100_s_and_waited_200_s(knob: float, is_promoted: bool) -> None:
    order = ServiceQueues(thresholds=(50.0,), promote_knob=knob)
    waiting = ran_100_then_waited_since_100()
    assert order.queue_of(waiting, 300.0) == 1
    order.touch(waiting, 300.0)
    assert order.queue_of(waiting, 300.0) == (0 if is_promoted else 1)
    assert order.service_in_queues(waiting, 300.0) == (0.0 if is_promoted else 100.0)


def test_promotion_resets_the_time_run_and_the_time_waited() -> None:
    order = ServiceQueues(thresholds=(50.0,), promote_knob=2.0)
    waiting = ran_100_then_waited_since_100()
    order.touch(waiting, 300.0)
    waiting.settled_wait_s, waiting.settled_run_s, waiting.since_s = 200.0, 160.0, 360.0  # ran 60 s more
    assert order.queue_of(waiting, 360.0) == 1
    assert order.changes_at(waiting, 360.0, is_running=False) == pytest.approx(480.0)


def test_a_job_that_never_ran_is_not_promoted() -> None:
    order = ServiceQueues(thresholds=(50.0,), promote_knob=2.0)
    fresh = Job(JobSpec("a"), 1, 0.0, 1.0)
    order.touch(fresh, 1e6)
    assert not order.promotions


def test_a_promoted_job_runs_again_though_others_keep_the_first_queue_busy() -> None:
    stream = [job("long", 0, 30), *(job(f"s{i}", 10 + 4 * i, 4) for i in range(30))]
    one_device = cluster((1, 1, "any"))
    starved = by_id(run(stream, one_device, POLICIES["tiresias-l"](thresholds=(10.0,))), "finish_s")
    helped = by_id(run(stream, one_device, POLICIES["tiresias-l"](thresholds=(10.0,), promote_knob=2.0)), "finish_s")
    assert starved["long"] == 150.0
    assert helped["long"] < 150.0


@pytest.mark.parametrize("thresholds", [(), (0.0,), (5.0, 5.0), (9.0, 5.0), (-1.0,)])
def test_thresholds_that_are_not_ascending_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="are not ascending device-seconds above 0"):
        POLICIES["tiresias-l"](thresholds=thresholds)


def test_a_knob_of_0_is_refused() -> None:
    with pytest.raises(InputError, match="promote_knob 0 is not above 0"):
        POLICIES["tiresias-l"](promote_knob=0.0)
