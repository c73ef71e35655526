"""A real daemon with two devices: a guest is parted from its holder when one is free, and what it gained is told.

How much that is depends on what else the machine does meanwhile; the tests of the policy say what it should be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos import Chaos, weathering
from click.testing import CliRunner

from waiting import wait_until
from weft.cli.verbs.listing import history
from weft.client import Client


class TwoDevices(Chaos):
    policy = f"{Path(__file__).with_name('parting.py')}:policy"
    devices, device_count, settings = "cpu=2:64M", 2, ""


def long_job(weft: TwoDevices, **options: Any) -> str:
    """It hardly ever waits, so that two are slow on one device; it needs little memory, and says so."""
    job_id = weft.send(["plain", "1000000", "0", "8", "1", "4", "2", "0"], 0, gpu_mem=8 << 20, **options)
    assert job_id
    return job_id


def test_a_guest_moves_to_a_vacated_device_and_its_history_tells_what_that_gained() -> None:
    with weathering(TwoDevices, 1) as weft, Client(weft.home) as client:
        elsewhere, holder, guest = long_job(weft, share=False), long_job(weft), long_job(weft)

        def is_told(*words: str) -> bool:
            return any(all(word in event["text"] for word in words) for event in client.events(guest))

        wait_until(lambda: is_told("joins lane", f"beside {holder}"), "it sits beside the other")
        wait_until(lambda: is_told("measured", f"beside {holder}"), "it is measured there")
        client.cancel(elsewhere)
        wait_until(lambda: is_told("migrated: to a device of its own", f"away from {holder}"), "it moves")
        wait_until(lambda: is_told("migrated: ", "% measured"), "what it gained is measured")
        assert sorted(device[-2:] for job in client.queue() for device in job["devices"]) == [":0", ":1"]
        shown = CliRunner().invoke(history, [guest], env={"WEFT_HOME": str(weft.home.root)}).stdout
        assert shown.index("migrated: to a device of its own") < shown.index("% measured")
