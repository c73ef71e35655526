"""What jobs of a name have shown on each device type is what the next of that name is taken to make there."""

from __future__ import annotations

import pytest
from office import Office, Open, devices

DEVICES = [*devices(1, "A100"), *devices(1, "V100", index=1), *devices(1, "T4", index=2)]


def ran(control: Office, kind: str, seconds: float, steps: int = 100) -> None:
    (job_id,) = control.submit(name="bert", steps=steps, types=[kind])
    control.node.say(job_id, "ended", exit_code=0, progress={"step": steps})
    control.node.gone(job_id)
    control.hear(after_s=seconds)


def test_rates_are_those_of_the_last_namesake_on_each_type(empty: Open) -> None:
    control = empty()
    control.hello(DEVICES)
    ran(control, "A100", 9.0)
    ran(control, "A100", 19.0)
    ran(control, "V100", 49.0)
    (job_id,) = control.submit(name="bert", steps=100)
    rates_hz = control.control.job(job_id).spec.step_rate_hz
    assert rates_hz["A100"] == pytest.approx(5.0, rel=0.2)
    assert rates_hz["V100"] == pytest.approx(2.0, rel=0.2)
    assert rates_hz["T4"] == rates_hz["V100"], "of a type that none had, the last of all says as much as anybody"


def test_of_a_name_that_nobody_had_nothing_is_known(empty: Open) -> None:
    control = empty()
    control.hello(DEVICES)
    (job_id,) = control.submit(name="new", steps=100)
    assert not control.control.job(job_id).spec.step_rate_hz
