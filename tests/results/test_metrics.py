from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from make_runs import job_table, make_run, synthetic_run

from weft.core.errors import InputError
from weft.sim.results.summary import summarise

TWO_JOBS = job_table(
    arrival_s=[0.0, 10.0],
    finish_s=[100.0, 210.0],
    run_s=[100.0, 50.0],
    gang_size=[2, 4],
    preemptions=[0, 3],
)


def test_completion_time_runs_from_arrival_to_finish() -> None:
    summary = summarise(make_run(TWO_JOBS))
    assert summary.jobs == 2
    assert summary.mean_jct_s == 150.0
    assert summary.median_jct_s == 150.0
    assert summary.p95_jct_s == pytest.approx(195.0)
    assert summary.p99_jct_s == pytest.approx(199.0)


def test_queueing_delay_is_all_the_time_without_devices() -> None:
    summary = summarise(make_run(TWO_JOBS))
    assert summary.mean_queue_s == 75.0
    assert summary.p99_queue_s == pytest.approx(148.5)


def test_queueing_delay_is_never_negative() -> None:
    jobs = job_table([0.0], [100.0], run_s=[100.0000001], alone_s=[100.0])
    assert summarise(make_run(jobs)).mean_queue_s == 0.0


def test_makespan_runs_from_the_first_arrival_to_the_last_finish() -> None:
    jobs = job_table([5.0, 10.0], [300.0, 210.0], run_s=[10.0, 10.0])
    assert summarise(make_run(jobs)).makespan_s == 295.0


def test_utilisation_is_device_seconds_held_over_device_seconds_there_were() -> None:
    assert summarise(make_run(TWO_JOBS)).utilisation == pytest.approx((200 + 200) / (4 * 210))


def test_preemptions_are_added_up_and_counts_are_passed_on() -> None:
    summary = summarise(make_run(TWO_JOBS, events=9, wall_s=1.5))
    assert (summary.preemptions, summary.events, summary.wall_s) == (3, 9, 1.5)


def test_rho_is_completion_time_over_the_time_alone() -> None:
    summary = summarise(make_run(TWO_JOBS))  # 100 s over 100 s, and 200 s over 50 s
    assert summary.mean_rho == 2.5
    assert summary.p99_rho == pytest.approx(3.97)


def test_a_job_that_takes_no_time_is_left_out_of_rho() -> None:
    jobs = job_table([0.0, 0.0], [100.0, 30.0], run_s=[100.0, 0.0], alone_s=[50.0, 0.0])
    assert summarise(make_run(jobs)).mean_rho == 2.0


def test_when_no_job_takes_any_time_there_is_no_rho() -> None:
    summary = summarise(make_run(job_table([0.0], [0.0], run_s=[0.0])))
    assert (summary.mean_rho, summary.p99_rho, summary.jain) == (None, None, None)
    assert summary.utilisation == 0.0


def test_jain_compares_the_tenants_mean_progress_rates() -> None:
    # ada: 1/ρ of 1 and 0.5, mean 0.75; bo: 0.25.
    jobs = job_table([0.0] * 3, [10.0, 20.0, 40.0], run_s=[10.0] * 3, tenants=["ada", "ada", "bo"])
    assert summarise(make_run(jobs)).jain == pytest.approx((0.75 + 0.25) ** 2 / (2 * (0.75**2 + 0.25**2)))


def test_one_tenant_is_always_treated_like_itself() -> None:
    assert summarise(make_run(TWO_JOBS)).jain == pytest.approx(1.0)


def test_jobs_fall_into_four_kinds_by_gang_and_length() -> None:
    jobs = job_table(
        arrival_s=[0.0] * 4,
        finish_s=[900.0, 1000.0, 1100.0, 1300.0],
        run_s=[800.0, 801.0, 800.0, 700.0],
        gang_size=[4, 4, 5, 1],
    )
    bins = summarise(make_run(jobs)).bins
    assert {name: kind.count for name, kind in bins.items()} == {
        "small short": 2,
        "small long": 1,
        "large short": 1,
        "large long": 0,
    }
    assert (bins["small short"].mean_jct_s, bins["small short"].mean_queue_s) == (1100.0, 350.0)
    assert (bins["large long"].mean_jct_s, bins["large long"].mean_queue_s) == (None, None)


def test_a_run_without_jobs_is_refused() -> None:
    with pytest.raises(InputError, match="no jobs"):
        summarise(make_run(job_table([], [], [])))


def test_a_summary_holds_plain_python_numbers() -> None:
    summary = summarise(synthetic_run("fifo"))
    plain = {field.name: type(getattr(summary, field.name)) for field in fields(summary)}
    assert (plain.pop("bins"), plain.pop("classes"), plain.pop("heeds_classes")) == (dict, dict, bool)
    nobody_looked = {"mean_first_steps_s", "guaranteed_slowdown"}
    assert {plain.pop(name) for name in nobody_looked} == {type(None)}
    assert set(plain.values()) == {int, float}
    assert {type(value) for kind in summary.bins.values() for value in vars(kind).values()} == {int, float}


def test_first_steps_are_counted_from_the_arrival() -> None:
    jobs = replace(job_table([0.0, 10.0], [100.0, 50.0], [80.0, 40.0]), first_steps_s=np.array([30.0, 20.0]))
    assert summarise(make_run(jobs)).mean_first_steps_s == 20.0


def test_only_guaranteed_jobs_count_for_what_sharing_costs_them() -> None:
    """The first held its device 5 % longer than it would have alone; the second is not guaranteed anything."""
    jobs = job_table([0.0, 0.0], [105.0, 400.0], [105.0, 400.0], alone_s=[100.0, 100.0])
    assert summarise(make_run(replace(jobs, classes=["guaranteed", "auto"]))).guaranteed_slowdown == 1.05
    assert summarise(make_run(replace(jobs, classes=["opportunistic", "auto"]))).guaranteed_slowdown is None
