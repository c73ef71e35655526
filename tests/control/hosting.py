"""Policies that let jobs sit as guests: by a test's word, or wherever anybody fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from weft.core.commands import Seating
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import Offer, Sharing, Withdrawal, seated_lane
from weft.core.view import Decider, View
from weft.policies.loader import policies_asked

Word = Sharing | Exception
PACKED = Reason(Code.PACKED, ("1",))
UNDONE = Reason(Code.PACKED_UNDONE, ("1", 0.8))


class Hosting:
    """Any policy, with a share stage that says what the test has put into `words`, each once."""

    def __init__(self, policy: str, words: list[Word]) -> None:
        self.inner: Decider = policies_asked(policy)[0].build()
        self.words = words

    def decide(self, view: View) -> Plan:
        return self.inner.decide(view)

    def explain(self, view: View, job: Job) -> Reason:
        return self.inner.explain(view, job)

    def seat(self, view: View) -> Sharing:
        word = self.words.pop(0) if self.words else Sharing()
        if isinstance(word, Exception):
            raise word
        return word


def hosting(words: list[Word], policy: str = "fifo") -> Callable[[], Decider]:
    return lambda: Hosting(policy, words)


def seated(job_id: str, mask: int = 1, lane: int = 0, is_throttled: bool = False, speed: float = 1.0) -> Sharing:
    """A seat on these devices of the first node."""
    return Sharing([Offer(job_id, Seating(((0, mask),), lane, is_throttled, speed=speed), PACKED)])


def unseated(job_id: str) -> Sharing:
    return Sharing(withdrawals=[Withdrawal(job_id, UNDONE)])


class Restless(Hosting):
    """Seats whoever fits somewhere, and now and then asks one to leave."""

    def __init__(self, policy: str) -> None:
        super().__init__(policy, [])

    def seat(self, view: View) -> Sharing:
        held = view.holders()
        leaving = [job for job in view.seated.values() if (int(view.now) + int(job.tie[1])) % 3 == 0]
        there = {
            (node, device): [
                *([(held[node, device], held[node, device].lane)] if (node, device) in held else []),
                *((one, seated_lane(one)) for one in view.guests.get((node, device), ()) if one not in leaving),
            ]
            for node, mask in enumerate(view.free_masks)
            for device in range(view.nodes[node].device_count if view.is_present[node] else 0)
            if not view.blocked_masks[node] >> device & 1
        }
        offers: list[Offer] = []
        for job in view.jobs.values():
            if not job.is_waiting or job.seating:
                continue
            lane = 1 + int(job.tie[1]) % 2 if job.gang_size == 1 else 0
            for places in _gangs(sorted(there), job.gang_size):
                if all(view.fits(device, [*there[device], (job, lane)]) for device in places):
                    for device in places:
                        there[device].append((job, lane))
                    mask = sum(1 << device for _, device in places)
                    offers.append(Offer(job.id, Seating(((places[0][0], mask),), lane, speed=0.5), PACKED))
                    break
        return Sharing(offers, [Withdrawal(job.id, UNDONE) for job in leaving])


def _gangs(devices: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[tuple[int, int], ...]]:
    return (each for each in combinations(devices, size) if len({node for node, _ in each}) == 1)
