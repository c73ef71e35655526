"""Whose owner does not want it moved computes where it sits until it has those devices, whatever else happens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from property_helpers import INCREMENTAL, SHARED, Log, Twin, Variant, build, label, run_watched, steady, workloads

from weft.core.commands import Allocation, Seat, Start, Unseat
from weft.core.values import Cluster
from weft.sim.trace import TraceJob

SHARING = [variant for variant in INCREMENTAL if build(variant).share is not None]


def check_nobody_moves(log: Log, to_stay: set[str]) -> None:
    seats: dict[str, Allocation] = {}
    for now, commands in log:
        for command in commands:
            match command:
                case Seat():
                    seats[command.job_id] = command.seating.allocation
                case Unseat():
                    del seats[command.job_id]
                case Start(job_id=job_id) if job_id in seats:
                    seat = seats.pop(job_id)
                    assert job_id not in to_stay or command.allocation == seat, f"{job_id} was moved at {now} s"


@pytest.mark.parametrize("variant", SHARING, ids=label)
@given(workload=workloads())
@steady(9)
def test_nobody_who_is_not_to_be_moved_is_granted_other_devices_than_its_seat_and_the_planners_agree(
    variant: Variant, workload: tuple[Cluster, list[TraceJob]]
) -> None:
    cluster, jobs = workload
    jobs = [replace(one, spec=replace(one.spec, may_migrate=at % 3 == 0)) for at, one in enumerate(jobs)]
    _, log = run_watched(jobs, cluster, Twin(variant), SHARED)
    check_nobody_moves(log, {one.spec.id for one in jobs if not one.spec.may_migrate})
