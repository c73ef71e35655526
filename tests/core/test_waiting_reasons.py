"""Why a job waits, in the words that its owner will read."""

from __future__ import annotations

from string import Formatter

import pytest
from core_helpers import Make, nodes, submitted

from weft.core.reasons import TEMPLATES, Code, Reason
from weft.core.values import Node


@pytest.mark.parametrize("code", Code)
def test_every_code_renders_with_its_details(code: Code) -> None:
    fields = {int(name) for _, name, _, _ in Formatter().parse(TEMPLATES[code]) if name}
    assert fields == set(range(len(fields))), "details are numbered from 0 without a gap"
    numbers = {int(name) for _, name, form, _ in Formatter().parse(TEMPLATES[code]) if name and form}
    details = tuple(0.25 if i in numbers else f"detail-{i}" for i in sorted(fields))
    words = str(Reason(code, details))
    assert all(detail in words for detail in details if isinstance(detail, str))
    assert not numbers or "25" in words
    assert "{" not in words


def test_what_became_of_a_packing_is_told_with_its_figure() -> None:
    assert str(Reason(Code.PACKED_KEPT, ("b", 0.31))) == "packed with b: +31%, kept"
    assert str(Reason(Code.PACKED_UNDONE, ("b", 0.97))) == "packed with b, undone: 0.97×"
    assert str(Reason(Code.PACKED_UNDONE_AFTER, ("b", 0.97, 40))) == "packed with b, undone after 40 steps: 0.97×"


def test_a_gang_that_lacks_devices_says_how_many(make: Make) -> None:
    scheduler = make("backfill", 4)
    scheduler.handle([submitted("a", 3), submitted("b", 2)], 0.0)
    assert str(scheduler.reason("b", 0.0)) == "needs 2 devices; free: 1"
    assert scheduler.reason("a", 0.0) is None


def test_a_gang_that_must_not_be_spread_says_how_large_a_block_it_lacks(make: Make) -> None:
    scheduler = make("tiresias-l", *nodes(4, 4))
    scheduler.handle([submitted("a", 1), submitted("b", 4), submitted("c", 4, skew=0.5)], 0.0)
    assert str(scheduler.reason("c", 0.0)) == "needs 4 devices on one node; the largest free block is 3"


def test_a_gang_larger_than_a_node_says_how_many_nodes_it_wants_whole(make: Make) -> None:
    scheduler = make("las", *nodes(4, 4))
    scheduler.handle([submitted("a", 1), submitted("b", 8, skew=0.5)], 0.0)
    assert str(scheduler.reason("b", 0.0)) == "needs 8 devices on 2 nodes; the largest free block is 7"


def test_a_job_behind_the_head_of_a_strict_line_names_the_head(make: Make) -> None:
    scheduler = make("fifo", 4)
    scheduler.handle([submitted("a", 3), submitted("b", 2), submitted("c")], 0.0)
    assert str(scheduler.reason("b", 0.0)) == "needs 2 devices; free: 1"
    assert str(scheduler.reason("c", 0.0)) == "waits behind b, which needs 2 devices"


def test_a_job_for_a_type_that_is_not_there_says_so(make: Make) -> None:
    scheduler = make("backfill", Node("n0", 4, "V100"), Node("n1", 1, "K80"))
    scheduler.handle([submitted("a", 2, device_types=frozenset({"K80"}))], 0.0)
    scheduler.handle([submitted("b", 1, device_types=frozenset({"H100", "A100"}))], 0.0)
    assert str(scheduler.reason("a", 0.0)) == "needs 2 devices of type K80; the cluster has 1"
    assert str(scheduler.reason("b", 0.0)) == "needs 1 device of type A100|H100; the cluster has 0"


def test_a_job_that_could_preempt_some_but_not_enough_says_what_it_may_take(make: Make) -> None:
    scheduler = make("srsf", 4)
    scheduler.handle([submitted("short", 2, declared_steps=5.0), submitted("long", 1, declared_steps=90.0)], 0.0)
    scheduler.handle([submitted("wide", 4, declared_steps=10.0)], 1.0)
    assert str(scheduler.reason("wide", 1.0)) == "needs 4 devices; free: 1, and jobs that it may preempt hold only 1"


def test_a_job_kept_out_by_a_minimum_run_time_counts_only_what_is_free(make: Make) -> None:
    scheduler = make("srtf", 2)
    scheduler.handle([submitted("long", 2, declared_steps=90.0, min_run_s=60.0)], 0.0)
    scheduler.handle([submitted("short", 1, declared_steps=1.0)], 1.0)
    assert str(scheduler.reason("short", 1.0)) == "needs 1 device; free: 0"


def test_an_overdue_job_blocks_the_others_and_they_name_it(make: Make) -> None:
    scheduler = make("backfill", 4, bypass_limit_s=60.0)
    scheduler.handle([submitted("a", 3), submitted("wide", 4)], 0.0)
    scheduler.handle([submitted("small", 1)], 60.0)
    assert str(scheduler.reason("small", 60.0)) == "waits behind wide, which needs 4 devices"
