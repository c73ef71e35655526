"""Under weft, people see a first step soon: who is new starts at once, whatever the jobs before it were like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from property_helpers import steady

from weft.core.commands import Start
from weft.core.events import Submitted, Woken
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.policies.registry import POLICIES

NOW = 1e6

humps = st.lists(st.tuples(st.floats(0.0, 1e7), st.integers(1, 200)), max_size=6)
"""How many jobs before needed how many device-seconds."""
devices = st.lists(st.tuples(st.floats(10.0, NOW), st.integers(1, 4)), min_size=1, max_size=8)
"""Who holds the machine: the device-seconds that each has had, and its gang."""


@given(humps=humps, devices=devices, wanted=st.sampled_from(JobClass), has_quotas=st.booleans(), data=st.data())
@steady(150)
def test_a_newcomer_on_a_full_machine_starts_at_once(
    humps: list[tuple[float, int]],
    devices: list[tuple[float, int]],
    wanted: JobClass,
    has_quotas: bool,
    data: st.DataObject,
) -> None:
    """All are of one standing: without quotas, all within theirs, or all opportunistic."""
    policy = POLICIES["weft"]()
    policy.recall(service for service, count in humps for _ in range(count))
    size = sum(gang_size for _, gang_size in devices)
    scheduler = Scheduler(Cluster((Node("n", size),)), policy)
    scheduler.ledger.tenants.quotas = {"default": 2 * size} if has_quotas else {}
    came = sorted((NOW - service / gang, f"old{i}", gang) for i, (service, gang) in enumerate(devices))
    for at, name, gang in came:
        scheduler.handle([Submitted(JobSpec(name, gang, job_class=wanted))], at)
    scheduler.handle([Woken()], NOW)
    assert len(scheduler.ledger.running) == len(devices)

    gang_size = data.draw(st.integers(1, size))
    commands = scheduler.handle([Submitted(JobSpec("new", gang_size, job_class=wanted))], NOW)

    assert "new" in {command.job_id for command in commands if isinstance(command, Start)}
    jobs = scheduler.ledger.jobs
    assert min(jobs, key=lambda name: policy.order.key(jobs[name], NOW)) == "new"
