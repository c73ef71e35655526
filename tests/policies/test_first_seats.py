"""Newcomers of declared memory start at once beside whoever holds a device, for their first share of device-time."""

from __future__ import annotations

import pytest

from weft.core.commands import Command, Preempt, Seat, Start, Unseat
from weft.core.events import Finished, Launched, Stepped, Submitted, Woken
from weft.core.reasons import Code
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.policies.registry import POLICIES
from weft.policies.share.first_seats import MOST_MEMBERS


def scheduler_on(*memory_bytes: int, **parameters: object) -> Scheduler:
    nodes = tuple(Node(f"n{at}", 1, "any", size) for at, size in enumerate(memory_bytes))
    return Scheduler(Cluster(nodes), POLICIES["weft"](**parameters))


def job(job_id: str, memory_bytes: int | None = 10, **described: object) -> Submitted:
    return Submitted(JobSpec(job_id, memory_bytes=memory_bytes, **described))  # type: ignore[arg-type]


def seats(commands: list[Command]) -> list[str]:
    return [command.job_id for command in commands if isinstance(command, Seat)]


def nodes_of(commands: list[Command]) -> list[int]:
    return [command.seating.allocation[0][0] for command in commands if isinstance(command, Seat)]


def test_newcomers_start_side_by_side_as_far_as_their_memory_goes() -> None:
    scheduler = scheduler_on(35)
    commands = scheduler.handle([job(f"j{at}") for at in range(5)], 0.0)
    assert [one.job_id for one in commands if isinstance(one, Start)] == ["j0"]
    assert seats(commands) == ["j1", "j2"]
    assert seats(scheduler.handle([Finished("j1", 1)], 1.0)) == ["j3"]
    assert seats(scheduler.handle([Finished("j0", 1)], 2.0)) == ["j4"]
    scheduler.ledger.validate()


def test_they_spread_over_the_devices() -> None:
    scheduler = scheduler_on(100, 100)
    commands = scheduler.handle([job(f"j{at}") for at in range(6)], 0.0)
    assert sorted(nodes_of(commands)) == [0, 0, 1, 1]


def test_no_more_of_them_start_up_at_once_than_their_host_has_cores() -> None:
    node = Node("n0", 1, "any", 1000, cpu_count=2)
    scheduler = Scheduler(Cluster((node,)), POLICIES["weft"]())
    commands = scheduler.handle([job(f"j{at}") for at in range(5)], 0.0)
    assert seats(commands) == ["j1"]
    assert seats(scheduler.handle([Launched("j0", 1, 120.0), Launched("j1", 1, 120.0)], 0.0)) == []
    assert seats(scheduler.handle([Stepped("j1", 1)], 4.0)) == ["j2"]
    assert seats(scheduler.handle([Launched("j2", 1, 120.0)], 4.0)) == []
    assert seats(scheduler.handle([Finished("j0", 1)], 5.0)) == ["j3"]


def test_no_more_of_them_than_make_sense_share_a_device() -> None:
    commands = scheduler_on(1000).handle([job(f"j{at}") for at in range(20)], 0.0)
    assert len(seats(commands)) == MOST_MEMBERS - 1


@pytest.mark.parametrize(
    "described",
    [
        {"memory_bytes": None},
        {"may_share": False},
        {"gang_size": 2, "memory_bytes": 20},
        {"job_class": JobClass.OPPORTUNISTIC},
        {"memory_bytes": 95},
    ],
    ids=str,
)
def test_others_wait_as_before(described: dict[str, object]) -> None:
    scheduler = Scheduler(Cluster((Node("n0", 1, "any", 100), Node("n1", 1, "any", 100))), POLICIES["weft"]())
    scheduler.handle([job("a"), job("b")], 0.0)
    spec: dict[str, object] = {"memory_bytes": 10, **described}
    assert seats(scheduler.handle([Submitted(JobSpec("late", **spec))], 1.0)) == []  # type: ignore[arg-type]


def test_nobody_sits_beside_a_guaranteed_job() -> None:
    scheduler = scheduler_on(100)
    scheduler.ledger.tenants.quotas = {"gold": 1}
    scheduler.handle([job("g", tenant="gold", job_class=JobClass.GUARANTEED)], 0.0)
    assert seats(scheduler.handle([job("new", tenant="other")], 1.0)) == []


def test_who_has_had_its_first_share_leaves_its_seat_and_the_start_up_is_not_part_of_it() -> None:
    scheduler = scheduler_on(100, thresholds=(10.0, 100.0))
    scheduler.handle([job("a"), job("b")], 0.0)
    scheduler.handle([Launched("a", 1, 120.0), Launched("b", 1, 120.0)], 0.0)
    assert not [one for one in scheduler.handle([Woken()], 50.0) if isinstance(one, Unseat | Preempt)]
    scheduler.handle([Stepped("b", 1)], 60.0)  # a goes on starting up, so that b stays a guest, at half speed
    assert not [one for one in scheduler.handle([Woken()], 79.0) if isinstance(one, Unseat | Preempt)]
    (left,) = [one for one in scheduler.handle([Woken()], 80.0) if isinstance(one, Unseat | Preempt)]
    assert (left.job_id, left.reason.code) == ("b", Code.FIRST_SEAT_OVER)
    scheduler.ledger.validate()


def test_when_the_holder_has_had_its_first_share_a_newcomer_beside_it_takes_over_where_it_is() -> None:
    scheduler = scheduler_on(100, thresholds=(10.0, 100.0))
    scheduler.handle([job("a"), job("b"), job("c")], 0.0)
    commands = scheduler.handle([Woken()], 10.0)
    assert [one.job_id for one in commands if isinstance(one, Preempt)] == ["a"]
    assert [one.job_id for one in commands if isinstance(one, Start)] == ["b"]
    assert set(scheduler.ledger.seats.seated) == {"c"}
