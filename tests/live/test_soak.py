"""Every mechanism of sharing is on, jobs come and go, and whatever can be killed is: for a short while."""

from __future__ import annotations

from soak import ShortSoak, soak

SECONDS, SEED = 14, 21


def test_nothing_is_lost_and_no_device_holds_too_much_while_jobs_share_devices() -> None:
    print(f"seed {SEED}; by hand and for longer: python tests/live/soak.py 5 {SEED}")
    soaked = soak(ShortSoak, SECONDS, SEED)
    assert soaked.outcomes["Seat"], "nobody has ever shared a device"
    assert soaked.watcher.counts["looks"]
