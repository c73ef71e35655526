"""Which nodes a gang gets."""

from __future__ import annotations

import pytest

from weft.core.values import JobSpec
from weft.policies.base import Placer
from weft.policies.placement import Compact, Consolidated, SkewAware
from weft.policies.plan.free_devices import NodeGroup

SIZES = [4, 4, 4, 4]
GROUP = NodeGroup(range(4), SIZES)
EVERYWHERE = [Consolidated(), Compact(), SkewAware(0.2)]


def choose(place: Placer, gang_size: int, *free: int, skew: float = 0.0) -> object:
    return place.choose(JobSpec("a", gang_size, skew=skew), GROUP, list(free))


@pytest.mark.parametrize("place", EVERYWHERE, ids=lambda place: type(place).__name__)
def test_a_gang_gets_the_node_that_it_fills_best(place: Placer) -> None:
    assert choose(place, 2, 4, 3, 2, 4) == ((2, 2),)
    assert choose(place, 2, 4, 3, 1, 4) == ((1, 2),)


@pytest.mark.parametrize("place", EVERYWHERE, ids=lambda place: type(place).__name__)
def test_of_equal_nodes_the_first_is_taken(place: Placer) -> None:
    assert choose(place, 3, 1, 4, 4, 4) == ((1, 3),)


@pytest.mark.parametrize("place", EVERYWHERE, ids=lambda place: type(place).__name__)
def test_nothing_is_chosen_where_too_little_is_free(place: Placer) -> None:
    assert choose(place, 4, 1, 1, 1, 0) is None


@pytest.mark.parametrize("place", [Consolidated(), Compact()], ids=lambda place: type(place).__name__)
def test_a_gang_larger_than_a_node_gets_whole_nodes_and_the_best_fit_for_the_rest(place: Placer) -> None:
    assert choose(place, 8, 4, 3, 4, 1) == ((0, 4), (2, 4))
    assert choose(place, 6, 4, 3, 2, 4) == ((0, 4), (2, 2))


def test_a_consolidated_gang_waits_for_a_block() -> None:
    assert choose(Consolidated(), 4, 3, 3, 3, 3) is None
    assert choose(Consolidated(), 8, 4, 3, 1, 1) is None


def test_a_compact_gang_is_rather_spread_than_waiting() -> None:
    assert choose(Compact(), 4, 3, 3, 0, 0) == ((0, 3), (1, 1))


def test_skew_above_the_pack_limit_waits_for_a_block() -> None:
    assert choose(SkewAware(0.2), 4, 3, 3, 3, 3, skew=0.5) is None
    assert choose(SkewAware(0.2), 4, 3, 4, 3, 3, skew=0.5) == ((1, 4),)


def test_skew_up_to_the_pack_limit_fills_fragments_first() -> None:
    assert choose(SkewAware(0.2), 4, 3, 1, 3, 2, skew=0.2) == ((0, 1), (1, 1), (3, 2))
    assert choose(SkewAware(0.5), 5, 4, 0, 1, 2, skew=0.5) == ((0, 2), (2, 1), (3, 2))


def test_a_single_task_is_never_spread_so_its_skew_does_not_matter() -> None:
    assert choose(SkewAware(0.2), 1, 4, 3, 2, 4, skew=9.0) == ((2, 1),)


def test_the_fewest_nodes_are_counted_with_the_largest_first() -> None:
    group = NodeGroup([0, 2, 3], [2, 64, 8, 4])
    assert [group.fewest(size) for size in (1, 8, 9, 12, 13, 14)] == [1, 1, 2, 2, 3, 3]
    assert group.fewest(15) == 4  # never
