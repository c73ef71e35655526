"""The slow simulator against finish times worked out by hand."""

import pytest

from reference import simulate

SHORT_LONG_WIDE = [(0, 2, 2), (0, 8, 1), (0, 6, 2)]  # (arrival_s, duration_s, gang)


def test_fifo_lets_the_head_of_the_line_block_a_job_that_would_fit() -> None:
    # The wide job waits for the first; the third would fit beside the first but stands behind the wide one.
    assert simulate([(0, 4, 1), (1, 2, 2), (2, 1, 1)], 2, "fifo") == [4, 6, 7]


def test_backfill_lets_a_job_that_fits_pass_the_one_that_does_not() -> None:
    assert simulate([(0, 4, 1), (1, 2, 2), (2, 1, 1)], 2, "backfill") == [4, 6, 3]


def test_backfill_never_stops_a_running_job_even_if_a_wide_one_starves() -> None:
    # At 4 one device is free: the wide job (arrived at 1) does not fit, the job of 3 does and runs until 9.
    assert simulate([(0, 4, 1), (1, 2, 2), (2, 5, 1), (3, 5, 1)], 2, "backfill") == [4, 11, 7, 9]


def test_srtf_stops_a_long_job_for_a_shorter_one_and_resumes_it() -> None:
    assert simulate([(0, 10, 1), (3, 2, 1), (4, 6, 1)], 1, "srtf") == [18, 5, 11]


def test_srtf_leaves_a_tie_to_the_one_that_arrived_first() -> None:
    # At 3 both have 7 s left: the first goes on.
    assert simulate([(0, 10, 1), (3, 7, 1)], 1, "srtf") == [10, 17]


def test_a_tie_in_arrival_too_is_left_to_the_order_of_the_trace() -> None:
    assert simulate([(5, 3, 1), (0, 5, 1), (5, 3, 1)], 1, "srtf") == [8, 5, 11]


def test_srtf_ranks_by_seconds_where_srsf_ranks_by_device_seconds() -> None:
    jobs = [(0, 3, 4), (0, 5, 1)]
    assert simulate(jobs, 4, "srtf") == [3, 8]
    assert simulate(jobs, 4, "srsf") == [8, 5]


def test_srsf_runs_the_smallest_remaining_service_first() -> None:
    assert simulate(SHORT_LONG_WIDE, 2, "srsf") == [2, 10, 16]


def test_las_takes_turns_quantum_by_quantum() -> None:
    assert simulate(SHORT_LONG_WIDE, 2, "las", quantum_s=1) == [5, 14, 16]


def test_las_counts_what_a_running_job_attains_from_the_end_of_its_quantum() -> None:
    # Quanta end at 4, 8 and 12. 3: the second arrives; both count as 0, so the first keeps the device. 4: 4 and 0, the
    # second runs. 8: 4 and 4, the first runs and ends at 12. The second has 2 left, until 14.
    assert simulate([(0, 8, 1), (3, 6, 1)], 1, "las", quantum_s=4) == [12, 14]


def test_tiresias_demotes_a_job_the_instant_it_reaches_the_threshold() -> None:
    # Gang 2 attains 8 at 4 s; the second takes over until 12, when both are demoted: first start rules.
    assert simulate([(0, 6, 2), (1, 9, 1)], 2, "tiresias-l", thresholds=(8.0,)) == [14, 15]


def test_tiresias_does_not_stop_a_job_for_a_newcomer_of_the_same_queue() -> None:
    assert simulate([(0, 6, 1), (1, 1, 1)], 1, "tiresias-l", thresholds=(100.0,)) == [6, 7]


def test_tiresias_puts_a_job_that_has_started_before_one_that_arrived_earlier_but_never_ran() -> None:
    # The second (gang 2) never fits before 6. The third starts at 2 in the place beside the first; at 4 the
    # first ends, and the third keeps its device though the second arrived before it.
    assert simulate([(0, 4, 1), (1, 3, 2), (2, 4, 1)], 2, "tiresias-l", thresholds=(100.0,)) == [4, 9, 6]


def test_a_completion_and_an_arrival_at_one_instant_share_one_decision() -> None:
    # At 4 the device comes free just as a shorter job arrives: the waiting longer one must not slip in.
    assert simulate([(0, 4, 1), (1, 5, 1), (4, 2, 1)], 1, "srtf") == [4, 11, 6]
    assert simulate([(0, 4, 1), (1, 5, 1), (4, 2, 1)], 1, "fifo") == [4, 9, 11]


def test_an_idle_stretch_is_jumped_over() -> None:
    assert simulate([(0, 1, 1), (1000, 1, 1)], 1, "las") == [1, 1001]


@pytest.mark.parametrize("policy", ["fifo", "backfill", "srtf", "srsf", "las", "tiresias-l"])
def test_jobs_that_all_fit_run_from_arrival_to_end_under_every_policy(policy: str) -> None:
    assert simulate([(7, 5000, 2), (0, 9000, 4), (3, 0.5, 2)], 8, policy) == [5007, 9000, 3.5]


def test_a_gang_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and the 2 devices"):
        simulate([(0, 1, 3)], 2, "fifo")
