"""Every process of weft is killed, or stopped, at every instant that leaves something different behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from chaos import Chaos

from waiting import wait_until
from weft.control.loop import writer
from weft.control.store import log_store as store
from weft.node import coordinator
from weft.node.shepherd.supervise import FAIL_POINTS

POINTS = {
    "control": (*store.FAIL_POINTS, *writer.FAIL_POINTS),
    "coordinator": coordinator.FAIL_POINTS,
    "shepherd": FAIL_POINTS,
}


@pytest.mark.parametrize("way", ["KILL", "STOP"])
@pytest.mark.parametrize("who", POINTS)
def test_nothing_is_lost_when_a_process_fails_at_each_of_its_points(who: str, way: str) -> None:
    with tempfile.TemporaryDirectory(prefix="weft-points-") as folder:
        chaos = Chaos(Path(folder), seed=7)
        points = Path(folder) / "points"
        points.mkdir()
        for name in POINTS[who]:
            (points / name).touch()
        chaos.fail = {"WEFT_FAIL_EACH": str(points), "WEFT_FAIL_WITH": way}

        def are_all_reached() -> bool:
            chaos.keep_up()
            _work(chaos)
            return not any(points.iterdir())

        try:
            chaos.up()
            wait_until(are_all_reached, lambda: f"these points are reached: {sorted(map(str, points.iterdir()))}")
            chaos.settle()
            chaos.judge()
        finally:
            chaos.down()


def _work(chaos: Chaos) -> None:
    """Enough of everything to come to every point: starts, pauses, ends, a cancellation, a shepherd that is killed."""
    if len(chaos.live()) < 6:
        chaos.submit()
    elif chaos.chance.random() < 0.1:
        chaos.cancel()
    if chaos.chance.random() < 0.05:
        chaos.kill_a_shepherd()
