"""Jobs come, and start where they fit."""

from __future__ import annotations

import pytest
from core_helpers import Make, Script, running, started, submitted

from weft.core.commands import Start
from weft.core.errors import InputError
from weft.core.events import Finished, Woken
from weft.core.reasons import Code, Reason
from weft.policies.registry import POLICIES


def test_a_job_that_fits_starts_at_once(make: Make) -> None:
    scheduler = make("fifo", 4)
    commands = scheduler.handle([submitted("a", 2)], 0.0)
    assert commands == [Start("a", 1, ((0, 0b11),), Reason(Code.FITS, (2, 4)))]


@pytest.mark.parametrize("name", POLICIES)
def test_a_gang_waits_until_it_fits_whole(make: Make, name: str) -> None:
    scheduler = make(name, 4)
    assert set(started(scheduler.handle([submitted("a", 3, declared_steps=5.0, min_run_s=5.0)], 0.0))) == {"a"}
    assert not started(scheduler.handle([submitted("b", 2, declared_steps=9.0)], 1.0))
    assert scheduler.ledger.devices_held == 3
    assert started(scheduler.handle([Finished("a", 1)], 5.0)) == {"b": ((0, 0b11),)}


def test_the_next_job_gets_the_lowest_devices_that_are_free(make: Make) -> None:
    scheduler = make("fifo", 4)
    scheduler.handle([submitted("a"), submitted("b"), submitted("c")], 0.0)
    scheduler.handle([Finished("b", 1)], 1.0)
    assert started(scheduler.handle([submitted("d", 2)], 2.0)) == {"d": ((0, 0b1010),)}


@pytest.mark.parametrize("finished_first", [True, False])
def test_completions_are_recorded_before_arrivals_of_the_same_instant(make: Make, finished_first: bool) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2)], 0.0)
    batch = [Finished("a", 1), submitted("b", 2)]
    commands = scheduler.handle(batch if finished_first else batch[::-1], 3.0)
    assert started(commands) == {"b": ((0, 0b11),)}


def test_jobs_of_one_instant_keep_the_order_in_which_they_were_told(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("b"), submitted("a"), submitted("c")], 0.0)
    assert running(scheduler) == {"b"}
    assert set(started(scheduler.handle([Finished("b", 1)], 1.0))) == {"a"}


def test_many_events_of_one_instant_make_one_decision(make: Make) -> None:
    policy = Script()
    scheduler = make(policy, 4)
    scheduler.handle([submitted("a"), submitted("b"), Woken()], 0.0)
    assert policy.asked == 1
    scheduler.handle([], 1.0)
    assert policy.asked == 2


def test_jobs_start_in_one_batch_as_far_as_they_fit(make: Make) -> None:
    scheduler = make("backfill", 4)
    commands = scheduler.handle([submitted("a", 3), submitted("b", 2), submitted("c", 1)], 0.0)
    assert list(started(commands)) == ["a", "c"]


def test_the_head_of_a_strict_line_blocks_those_behind_it(make: Make) -> None:
    scheduler = make("fifo", 4)
    commands = scheduler.handle([submitted("a", 3), submitted("b", 2), submitted("c", 1)], 0.0)
    assert list(started(commands)) == ["a"]


def test_a_gang_of_nobody_is_refused(make: Make) -> None:
    scheduler = make("fifo", 4)
    with pytest.raises(InputError, match="a asks for a gang of 0"):
        scheduler.handle([submitted("a", 0)], 0.0)
    assert not scheduler.ledger.jobs


def test_an_id_may_come_again_once_its_job_is_over(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([Finished("a", 1)], 1.0)
    assert set(started(scheduler.handle([submitted("a")], 2.0))) == {"a"}
