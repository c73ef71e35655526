"""How deep a pause goes, and what is tried next if a job refuses."""

from __future__ import annotations

from typing import Any

import pytest

from weft.node.attempt.pause_to_depth import HeldMemory, depth_for, depths_to_try, held_by
from weft.node.task.rank import RankStatus

BUDGET = 100
ABLE = {
    "nothing": {},
    "save": {"can_checkpoint": True},
    "drop": {"ephemeral_bytes": 10},
    "swap": {"ephemeral_bytes": 10, "persistent_bytes": 20, "can_swap": True},
    "all": {"ephemeral_bytes": 10, "persistent_bytes": 20, "can_swap": True, "can_checkpoint": True},
}


@pytest.mark.parametrize(
    ("paused", "own", "needs", "able", "depth"),
    [
        # as it is without the library
        (0, 40, 60, "save", "gate"),
        (0, 41, 60, "save", "checkpoint"),
        (0, 41, 60, "nothing", "gate"),
        (30, 20, 50, "save", "gate"),
        (31, 20, 50, "save", "checkpoint"),
        (0, 50, None, "save", "gate"),
        (0, 51, None, "save", "checkpoint"),
        (0, 0, 101, "save", "gate"),
        (0, 1, 101, "save", "checkpoint"),
        # what each depth gives back: 10, then 20, then the rest
        (0, 40, 60, "all", "gate"),
        (0, 41, 60, "all", "drop-caches"),
        (0, 50, 60, "all", "drop-caches"),
        (0, 51, 60, "all", "swap-out"),
        (0, 70, 60, "all", "swap-out"),
        (0, 71, 60, "all", "checkpoint"),
        (31, 40, 40, "all", "swap-out"),
        (31, 40, None, "all", "swap-out"),
        (41, 40, None, "all", "checkpoint"),
        # if that is not enough, as much as it can
        (0, 71, 60, "swap", "swap-out"),
        (0, 71, 60, "drop", "drop-caches"),
        (200, 40, 60, "swap", "swap-out"),
    ],
)
def test_a_pause_is_as_shallow_as_leaves_room(paused: int, own: int, needs: int | None, able: str, depth: str) -> None:
    assert depth_for(BUDGET, paused, needs, held(own, able)) == depth


def held(own_bytes: int, able: str) -> HeldMemory:
    said: dict[str, Any] = ABLE[able]
    return HeldMemory(own_bytes, **said)


@pytest.mark.parametrize(
    ("depth", "shallow", "able", "tried"),
    [
        ("gate", "gate", "all", ["gate"]),
        ("swap-out", "gate", "all", ["swap-out", "drop-caches", "gate"]),
        ("checkpoint", "gate", "all", ["checkpoint", "swap-out", "drop-caches", "gate"]),
        ("checkpoint", "gate", "save", ["checkpoint", "gate"]),
        ("gate", "drop-caches", "nothing", ["drop-caches", "gate"]),
        ("checkpoint", "drop-caches", "save", ["checkpoint", "drop-caches", "gate"]),
    ],
)
def test_a_job_that_refuses_is_asked_for_less(depth: str, shallow: str, able: str, tried: list[str]) -> None:
    assert depths_to_try(depth, shallow, held(50, able)) == tried


def rank(**said: Any) -> RankStatus:
    numbers = dict.fromkeys(RankStatus.__slots__, 0)
    return RankStatus(**{**numbers, "state": "running", "can_swap": True, "can_checkpoint": True, **said})


def test_what_a_gang_can_do_every_rank_of_it_can() -> None:
    ranks = [rank(ephemeral_bytes=1, persistent_bytes=10), rank(ephemeral_bytes=2, persistent_bytes=20)]
    assert held_by(ranks, 99) == HeldMemory(99, 3, 30, can_swap=True, can_checkpoint=True)
    assert not held_by([*ranks, rank(can_swap=False)], 99).can_swap
    assert not held_by([*ranks, rank(can_checkpoint=False)], 99).can_checkpoint
    assert held_by([], 99) == HeldMemory(99)


def test_what_has_overflowed_or_ended_gives_nothing_back() -> None:
    over = rank(persistent_bytes=10, overflow_bytes=4)
    assert held_by([over, rank(persistent_bytes=5, state="ended")], 99).persistent_bytes == 6
    assert held_by([rank(persistent_bytes=10, overflow_bytes=12)], 99).persistent_bytes == 0


def test_what_is_in_a_lane_is_the_lanes_and_not_of_a_member_that_pauses() -> None:
    member = rank(ephemeral_bytes=30, persistent_bytes=20, is_in_lane=True)
    assert held_by([member], 99) == HeldMemory(69, 0, 20, can_swap=True, can_checkpoint=True)
    assert held_by([member], 10).own_bytes == 0
