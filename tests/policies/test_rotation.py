"""Gandiva's time-slicing: everybody in turn, equal shares, and who is new does not wait long for its first steps."""

from __future__ import annotations

import pytest
from policy_helpers import PLAIN, cluster, job, run
from sharing_words import Stage

from weft.core.commands import Start
from weft.core.errors import InputError
from weft.core.events import Measured
from weft.policies.order.gandiva import FIRST_S, GandivaOrder
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES


def rotation(quantum_s: float = 60.0, quantum_steps: float = 1e9) -> Policy:
    return Policy(GandivaOrder(quantum_s, quantum_steps))


def run_s(stage: Stage) -> dict[str, float]:
    return {name: one.run_s(stage.now) for name, one in stage.scheduler.ledger.jobs.items()}


@pytest.mark.parametrize("at_s", [360.0, 999.0, 3600.0, 5000.0])
def test_six_jobs_on_two_devices_have_equal_time_within_a_quantum(at_s: float) -> None:
    stage = Stage(rotation(), 2)
    stage.submit(0.0, *"abcdef")
    stage.tell(at_s)
    times_s = run_s(stage).values()
    assert sum(times_s) == pytest.approx(2 * at_s)
    assert max(times_s) - min(times_s) <= 60.0 + 1e-6


def test_who_never_ran_takes_the_devices_of_whoever_began_last_at_once() -> None:
    stage = Stage(rotation(), 2)
    stage.submit(0.0, "a")
    stage.submit(20.0, "b")
    stage.submit(30.0, "new")
    assert stage.running == {"a", "new"}


def test_who_is_new_has_its_first_steps_before_the_next_one_that_is_new() -> None:
    stage = Stage(rotation(), 1)
    stage.submit(0.0, "a", "b", "c")
    assert stage.running == {"a"}
    stage.tell(FIRST_S)
    assert stage.running == {"b"}
    stage.tell(FIRST_S + 1.0, Measured("b", 1, 1.0, 0.5, 1, 1))  # it has been seen to step
    assert stage.running == {"c"}


def test_who_has_stayed_on_while_nobody_waited_does_not_stay_for_ever() -> None:
    stage = Stage(rotation(), 2)
    stage.submit(0.0, "a", "b")
    stage.submit(100.0, "c")
    stage.tell(1000.0)
    times_s = [
        one.run_s(1000.0) - (100.0 if name in "ab" else 0.0) for name, one in stage.scheduler.ledger.jobs.items()
    ]
    assert max(times_s) - min(times_s) <= 61.0


def test_who_has_the_devices_keeps_them_while_nobody_wants_them() -> None:
    stage = Stage(rotation(), 1)
    stage.submit(0.0, "a")
    stage.tell(500.0)
    assert (stage.running, stage.job("a").generation) == ({"a"}, 1)
    stage.submit(501.0, "b")
    assert stage.running == {"b"}


def test_a_gang_is_switched_whole() -> None:
    stage = Stage(rotation(), 4)
    stage.submit(0.0, "gang", gang_size=4)
    stage.submit(1.0, "p", "q", gang_size=2)
    for now in range(10, 600, 10):
        stage.tell(float(now))
        assert stage.running in ({"gang"}, {"p", "q"})
    times_s = run_s(stage)
    assert max(times_s.values()) - min(times_s.values()) <= 60.0 + 1e-6


def test_a_quantum_of_steps_ends_sooner_for_a_fast_job() -> None:
    stage = Stage(rotation(quantum_steps=100.0), 1)
    stage.submit(0.0, "a", "b")
    stage.tell(1.0, Measured("a", 1, 10.0, 0.5, 1, 1))
    stage.tell(10.0)
    assert stage.running == {"b"}


def test_a_job_goes_on_where_it_was_so_that_a_switch_costs_little() -> None:
    """Six jobs on two devices: each has run before on one of them, and gets the very one again."""
    stage = Stage(rotation(), 2)
    stage.submit(0.0, *"abcdef")
    stage.tell(180.0)
    home = {name: one.allocation or one.last_allocation for name, one in stage.scheduler.ledger.jobs.items()}
    for now in range(181, 3000, 30):
        stage.tell(float(now))
        assert all(stage.job(name).allocation == home[name] for name in stage.running)


def test_in_the_simulator_jobs_of_one_length_end_close_together() -> None:
    table = run([job(name, 0, 600) for name in "abcdef"], cluster((1, 2, "any")), rotation(), PLAIN)
    assert table.finish_s.max() == pytest.approx(1800.0)
    assert table.finish_s.min() > 1800.0 - 2 * 60.0 * 3


@pytest.mark.parametrize(("quantum_s", "quantum_steps"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 5.0)])
def test_a_quantum_of_nothing_is_refused(quantum_s: float, quantum_steps: float) -> None:
    with pytest.raises(InputError, match="a quantum is not above 0"):
        rotation(quantum_s, quantum_steps)


def test_a_job_that_is_measured_late_does_not_make_quanta_long() -> None:
    """It may have long steps: that says little of what a resume costs."""
    stage = Stage(POLICIES["gandiva"](quantum_s=30.0, quantum_steps=1e9, resume_s=0.5), 1)
    stage.submit(0.0, "quick", "slow", may_share=False)
    for second in range(1, 1200):
        stage.tell(float(second))
        for name, late_s in (("quick", 1.0), ("slow", 20.0)):
            if stage.job(name).is_running and stage.now - stage.job(name).since_s == late_s:
                stage.measure(stage.now, name)
    assert sum(isinstance(command, Start) for _, command in stage.log) >= 30
