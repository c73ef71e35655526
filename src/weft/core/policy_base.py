"""What the scheduler asks of a policy, with the answers of a policy that has nothing special to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import NO_CHANGE, Sharing, Withdrawal
from weft.core.view import Decider, View


class Positions(Protocol):
    """Positions of waiting jobs, for listings that ask for many at once. Valid until the ledger changes."""

    def of(self, job: Job) -> int | None:
        """Its position, counted from 1; None if it does not wait."""
        ...

    def front(self, count: int) -> list[Job]:
        """The jobs that go first, at most so many."""
        ...


class SortedPositions:
    """From the whole queue, already in order. It takes time in proportion to the queue's length to make."""

    def __init__(self, line: Sequence[Job]) -> None:
        self._line = line
        self._positions = {job.id: at for at, job in enumerate(line, 1)}

    def of(self, job: Job) -> int | None:
        return self._positions.get(job.id)

    def front(self, count: int) -> list[Job]:
        return list(self._line[:count])


class PolicyBase:
    """Derive from it, write `decide` and `explain`, and override what else the policy knows better.

    An object that has only some of these methods is a policy too: `completed` adds the others.
    """

    heeds_classes = False
    """Whether quotas and classes count by the policy."""
    shares = False
    """Whether `seat` may offer seats to guests."""
    learns_from_measures = False
    """Whether what is measured of jobs may change what the policy decides."""

    @property
    def rule(self) -> str:
        """By which rule the policy orders jobs, in a few words."""
        return type(self).__name__

    def decide(self, view: View) -> Plan:
        """Which jobs are granted devices, and which running jobs lose theirs."""
        raise NotImplementedError

    def explain(self, view: View, job: Job) -> Reason:
        """Why a job waits. A policy that lets a waiting job go unexplained is wrong."""
        raise NotImplementedError

    def seat(self, view: View) -> Sharing:
        """Which jobs compute as guests. Asked once it is clear which job holds which devices.

        A policy that does not share lets no guest stay that another policy has seated.
        """
        if not view.seated:
            return NO_CHANGE
        return Sharing((), [Withdrawal(each, Reason(Code.NO_SHARING)) for each in view.seated])

    def waiting_line(self, view: View) -> list[Job]:
        """The waiting jobs in the policy's order: by arrival, unless it says otherwise."""
        return [job for job in view.jobs.values() if job.is_waiting]

    def positions(self, view: View) -> Positions | None:
        """The same without sorting all jobs, if the policy keeps them in order."""
        return None

    def is_guaranteed(self, job: Job) -> bool:
        """Whether the job runs, or is to run, as if alone: within a quota, if the policy heeds quotas."""
        return False

    def recall(self, services: Iterable[float]) -> None:
        """Learn from the device-seconds that earlier jobs needed, if the policy learns."""


def completed(policy: Decider) -> PolicyBase:
    """The policy itself if it derives from `PolicyBase`; else one that has its methods, and defaults for the rest."""
    return policy if isinstance(policy, PolicyBase) else _Completed(policy)


class _Completed(PolicyBase):
    def __init__(self, own: Decider) -> None:
        self.shares = hasattr(own, "seat")
        self._rule = str(getattr(own, "rule", "") or type(own).__name__)
        for name in _OVERRIDABLE:
            if hasattr(own, name):
                setattr(self, name, getattr(own, name))

    @property
    def rule(self) -> str:
        return self._rule


_OVERRIDABLE = [name for name, each in vars(PolicyBase).items() if name[0] != "_" and not isinstance(each, property)]
