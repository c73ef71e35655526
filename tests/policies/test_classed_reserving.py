"""A gang that has a right to its devices and does not fit: what becomes free is kept for it."""

from __future__ import annotations

import pytest
from sharing_words import Stage

from weft.core.events import Cancelled, Finished, NodeLost
from weft.core.values import JobClass
from weft.policies.order.keyed import Fifo
from weft.policies.order.quota import QuotaClasses
from weft.policies.placement import Consolidated
from weft.policies.policy import Policy

FREE = {"job_class": JobClass.OPPORTUNISTIC, "tenant": "bo"}
GOLD = {"job_class": JobClass.GUARANTEED, "tenant": "gold"}
SILVER = {"job_class": JobClass.GUARANTEED, "tenant": "silver"}


class Reserving(Stage):
    """Gangs on as few nodes as possible, first come, first served."""

    def __init__(self, *sizes: int, from_scratch: bool = False, **quotas: int) -> None:
        policy = Policy(QuotaClasses(Fifo(strict=False)), place=Consolidated(), from_scratch=from_scratch)
        super().__init__(policy, *sizes)
        self.scheduler.ledger.tenants.quotas = quotas

    def finish(self, now: float, *names: str) -> None:
        self.tell(now, *(Finished(name, self.job(name).generation) for name in names))

    def why(self, name: str) -> str:
        return str(self.scheduler.reason(name, self.now))

    def nodes_of(self, name: str) -> set[int]:
        return {node for node, _ in self.job(name).allocation}


@pytest.fixture(params=[False, True], ids=["incremental", "from scratch"])
def from_scratch(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_stream_of_single_jobs_does_not_keep_a_gang_waiting(from_scratch: bool) -> None:
    stage = Reserving(4, from_scratch=from_scratch, gold=4, silver=64)
    stage.submit(0.0, "s0", "s1", "s2", "s3", **SILVER)
    stage.submit(1.0, "gang", gang_size=4, **GOLD)
    stage.submit(2.0, "s4", "s5", **SILVER)
    stage.finish(3.0, "s0", "s1")
    assert stage.running == {"s2", "s3"}
    assert stage.why("gang") == "waits for 2 more of 4 devices; reserved for it so far: 2"
    assert stage.why("s4") == "fits, but the devices are reserved for the gang of gang"
    stage.finish(4.0, "s2", "s3")
    assert stage.running == {"gang"}


def test_a_gang_waits_for_one_node_and_others_go_on_starting_elsewhere(from_scratch: bool) -> None:
    """The audit's case: gold's gang of four beside silver's two and two, which were never to end together."""
    stage = Reserving(4, 4, from_scratch=from_scratch, gold=4, silver=4)
    for i in range(4):
        stage.submit(0.2 * i, f"g{i}", **GOLD)
        stage.submit(0.2 * i + 0.1, f"s{i}", **SILVER)
    stage.finish(10.0, "g0", "g1", "g2", "g3")
    stage.submit(20.0, "gang", gang_size=4, **GOLD)
    assert stage.nodes_of("s0") == stage.nodes_of("s1") == {0}
    stage.finish(30.0, "s1")
    stage.submit(31.0, "s4", **SILVER)
    assert stage.nodes_of("s4") == {1}
    stage.finish(40.0, "s0")
    assert stage.nodes_of("gang") == {0}


def test_opportunistic_jobs_use_what_is_reserved_until_the_gang_is_complete(from_scratch: bool) -> None:
    stage = Reserving(4, from_scratch=from_scratch, gold=4, silver=4)
    stage.submit(0.0, "s0", "s1", **SILVER)
    stage.submit(1.0, "gang", gang_size=4, **GOLD)
    stage.submit(2.0, "x", "y", **FREE)
    assert stage.running == {"s0", "s1", "x", "y"}
    stage.submit(3.0, "s2", **SILVER)
    assert stage.running == {"s0", "s1", "x", "y"}
    stage.finish(4.0, "s0")
    stage.submit(5.0, "z", **FREE)
    assert stage.running == {"s1", "x", "y", "z"}
    stage.finish(6.0, "s1")
    assert stage.running == {"gang"}


def test_an_opportunistic_job_that_may_not_be_preempted_for_a_while_leaves_alone_what_is_reserved(
    from_scratch: bool,
) -> None:
    stage = Reserving(2, from_scratch=from_scratch, gold=2, silver=2)
    stage.submit(0.0, "s0", **SILVER)
    stage.submit(1.0, "gang", gang_size=2, **GOLD)
    stage.submit(2.0, "x", min_run_s=1000.0, **FREE)
    assert stage.running == {"s0"}
    stage.finish(3.0, "s0")
    assert stage.running == {"gang"}


def test_what_the_gang_leaves_over_on_its_nodes_is_for_others(from_scratch: bool) -> None:
    """A gang of six takes a node of four and half of another one."""
    stage = Reserving(4, 4, from_scratch=from_scratch, gold=6, silver=4)
    stage.submit(0.0, "s0", **SILVER)
    stage.submit(0.0, "s1", gang_size=2, **SILVER)
    stage.submit(1.0, "gang", gang_size=6, **GOLD)
    assert stage.running == {"s0", "s1"}
    stage.submit(2.0, "s2", **SILVER)
    assert stage.running == {"s0", "s1"}
    stage.submit(2.5, "s3", gang_size=1, **SILVER)
    stage.finish(3.0, "s0")
    assert stage.running == {"gang", "s1"}


def test_when_the_gang_gives_up_what_was_kept_for_it_is_everybodys(from_scratch: bool) -> None:
    stage = Reserving(2, from_scratch=from_scratch, gold=2, silver=4)
    stage.submit(0.0, "s0", **SILVER)
    stage.submit(1.0, "gang", gang_size=2, **GOLD)
    stage.submit(2.0, "s1", **SILVER)
    assert stage.running == {"s0"}
    stage.tell(3.0, Cancelled("gang"))
    assert stage.running == {"s0", "s1"}


def test_when_the_node_that_was_promised_is_lost_another_one_is(from_scratch: bool) -> None:
    stage = Reserving(2, 2, from_scratch=from_scratch, gold=2, silver=4)
    stage.submit(0.0, "s0", "s1", "s2", **SILVER)
    stage.submit(1.0, "gang", gang_size=2, **GOLD)
    stage.tell(2.0, NodeLost("n1"), Cancelled("s2"))
    stage.finish(3.0, "s0")
    assert "gang" not in stage.running
    assert stage.why("gang") == "waits for 1 more of 2 devices; reserved for it so far: 1"


def test_one_that_is_upgraded_on_reserved_devices_gives_them_back_to_who_came_before_it(from_scratch: bool) -> None:
    stage = Reserving(2, from_scratch=from_scratch, gold=2, silver=2)
    stage.submit(0.0, "s0", **SILVER)
    stage.submit(0.0, "held", gang_size=1, device_types=frozenset({"rare"}), **SILVER)
    stage.submit(1.0, "gang", gang_size=2, **GOLD)
    stage.submit(2.0, "auto", tenant="silver")
    assert stage.running == {"s0", "auto"}
    stage.tell(3.0, Cancelled("held"))
    assert stage.why("gang") == "waits for 1 more of 2 devices; reserved for it so far: 1"
    stage.finish(4.0, "s0")
    assert stage.running == {"gang"}


def test_a_gang_that_no_present_device_could_hold_keeps_nobody_behind_it_from_reserving(from_scratch: bool) -> None:
    stage = Reserving(4, from_scratch=from_scratch, gold=8, silver=64)
    stage.submit(0.0, "s0", "s1", "s2", "s3", **SILVER)
    stage.submit(1.0, "huge", gang_size=8, **GOLD)
    stage.submit(2.0, "gang", gang_size=4, **SILVER)
    stage.submit(3.0, "s4", **SILVER)
    stage.finish(4.0, "s0", "s1")
    assert stage.why("gang") == "waits for 2 more of 4 devices; reserved for it so far: 2"
    stage.finish(5.0, "s2", "s3")
    assert stage.running == {"gang"}
