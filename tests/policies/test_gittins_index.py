"""The Gittins index against values worked out by hand and against the published samples."""

from __future__ import annotations

import csv

import pytest
from policy_helpers import FIXTURES

from weft.policies.order.tiresias import History


@pytest.mark.parametrize(
    ("attained", "index"), [(0, 1 / 8), (2, 1 / 6), (4, 1 / 6), (6, 1 / 4), (8, 1 / 4), (10, 1 / 2)]
)
def test_the_best_index_over_all_quanta(attained: float, index: float) -> None:
    assert History((4, 8, 12)).best_index(attained) == pytest.approx(index)


@pytest.mark.parametrize(
    ("attained", "index"), [(0, 1 / 12), (2, 1 / 10), (4, 1 / 8), (6, 1 / 6), (8, 1 / 4), (10, 1 / 2)]
)
def test_the_index_for_one_quantum(attained: float, index: float) -> None:
    assert History((12, 4, 8)).index(attained, 4) == pytest.approx(index)


@pytest.mark.parametrize(
    ("attained", "millionths"),
    [(0, 297.16), (500, 285.41), (1000, 236.86), (2000, 174.61), (3250, 122.16), (5000, 83.30), (10000, 42.72)],
)
def test_the_index_over_the_published_samples(attained: float, millionths: float) -> None:
    with (FIXTURES / "tiresias-gpu-time.csv").open(newline="", encoding="utf-8") as file:
        history = History(float(row["duration"]) for row in csv.DictReader(file))
    assert len(history) == 1001
    assert history.index(attained, 3250) * 1e6 == pytest.approx(millionths, abs=0.006)


def test_beyond_all_experience_the_index_is_0() -> None:
    history = History((4, 8, 12))
    assert history.index(12, 4) == history.best_index(12) == 0.0
    assert History().index(0, 4) == History().best_index(0) == 0.0


def test_new_samples_count_once_there_are_a_tenth_more() -> None:
    history = History(float(i) for i in range(1, 21))
    history.add(21.0)
    assert not history.refresh()
    assert len(history) == 20
    history.add(22.0)
    assert history.refresh()
    assert len(history) == 22
