"""Daemon, coordinator, shepherds and jobs are killed and stopped at random, while jobs come and go."""

from __future__ import annotations

import pytest
from chaos import storm

from extent import sample

KILLS = 60
SEEDS = (11, 12)


@pytest.mark.parametrize("seed", sample(SEEDS, every=2))
def test_every_acknowledged_job_ends_exactly_once_whatever_is_killed(seed: int) -> None:
    print(f"seed {seed}; by hand: python tests/live/chaos.py {KILLS} {seed}")
    storm(KILLS, seed)
