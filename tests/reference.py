"""A slow simulator to check the fast one against: everything is sorted again at every decision.

Identical devices, free preemption, only counts matter. At one instant completions are recorded first, then
arrivals are taken in, then one decision says who runs until the next event.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import floor, inf, nextafter

TINY = 1e-6  # seconds left (or device-seconds short of a threshold) that count as nothing


class Job:
    """One job; it runs while `since_s` is a time, and `served_s` is what it had been given by then."""

    def __init__(self, place: int, arrival_s: float, duration_s: float, gang: int) -> None:
        self.place = place
        self.arrival_s = arrival_s
        self.duration_s = duration_s
        self.gang = gang
        self.served_s = 0.0
        self.since_s: float | None = None
        self.first_start_s = inf

    def served_by(self, now_s: float) -> float:
        return self.served_s if self.since_s is None else self.served_s + (now_s - self.since_s)

    def remaining_s(self, now_s: float) -> float:
        return self.duration_s - self.served_by(now_s)

    def attained(self, now_s: float) -> float:
        """Device-seconds received so far."""
        return self.gang * self.served_by(now_s)

    def attained_before(self, quantum_began_s: float, now_s: float) -> float:
        """The same without what a running job has received since the quantum, or since it started."""
        if self.since_s is None:
            return self.attained(now_s)
        return self.attained(max(quantum_began_s, self.since_s))

    def when_served(self, served_s: float) -> float:
        """The time at which this job, if it keeps running, has been given `served_s` seconds in all."""
        return self.since_s + (served_s - self.served_s)

    def start(self, now_s: float) -> None:
        if self.since_s is None:
            self.since_s = now_s
            self.first_start_s = min(self.first_start_s, now_s)

    def stop(self, now_s: float) -> None:
        self.served_s = self.served_by(now_s)
        self.since_s = None


def queue_of(job: Job, now_s: float, thresholds: Iterable[float]) -> int:
    attained = job.attained(now_s)
    return sum(threshold <= attained + TINY for threshold in thresholds)


def quanta_by(now_s: float, quantum_s: float) -> int:
    return floor(now_s / quantum_s + 1e-9)


def order_key(policy: str, now_s: float, quantum_s: float, thresholds: tuple[float, ...]) -> Callable[[Job], object]:
    """What jobs are sorted by; the sort is stable, so ties stay by arrival, then by place in the trace."""
    quantum_began_s = quanta_by(now_s, quantum_s) * quantum_s
    keys: dict[str, Callable[[Job], object]] = {
        "fifo": lambda job: job.since_s is None,  # what runs keeps its devices
        "backfill": lambda job: job.since_s is None,
        "srtf": lambda job: job.remaining_s(now_s),
        "srsf": lambda job: job.remaining_s(now_s) * job.gang,
        "las": lambda job: job.attained_before(quantum_began_s, now_s),
        "tiresias-l": lambda job: (queue_of(job, now_s, thresholds), job.first_start_s),
    }
    return keys[policy]


def choose(ordered: list[Job], devices: int, head_blocks: bool) -> list[Job]:
    """Give devices in this order; what does not fit is skipped, or blocks all behind it."""
    chosen = []
    free = devices
    for job in ordered:
        if job.gang <= free:
            chosen.append(job)
            free -= job.gang
        elif head_blocks:
            break
        if free == 0:
            break
    return chosen


def hand_over(running: list[Job], chosen: list[Job], now_s: float) -> None:
    """Stop who is not chosen, start who is; who is chosen again is left untouched, so no rounding adds up."""
    for job in set(running) - set(chosen):
        job.stop(now_s)
    for job in chosen:
        job.start(now_s)


def threshold_times(job: Job, now_s: float, thresholds: tuple[float, ...]) -> list[float]:
    """When this running job reaches each threshold still ahead of it."""
    ahead = [threshold for threshold in thresholds if threshold > job.attained(now_s) + TINY]
    return [job.when_served(threshold / job.gang) for threshold in ahead]


def arrive(to_come: deque[Job], now_s: float) -> list[Job]:
    """Take out of `to_come` everyone who has arrived by now."""
    arrived = []
    while to_come and to_come[0].arrival_s <= now_s:
        arrived.append(to_come.popleft())
    return arrived


def simulate(
    jobs: list[tuple[float, float, int]],
    devices: int,
    policy: str,
    *,
    quantum_s: float = 60.0,
    thresholds: tuple[float, ...] = (3250.0,),
) -> list[float]:
    """The finish time of each job (arrival_s, duration_s, gang), in the order given."""
    if any(not 1 <= gang <= devices for _, _, gang in jobs):
        raise ValueError(f"a gang must be between 1 and the {devices} devices there are")
    everyone = [Job(place, *job) for place, job in enumerate(jobs)]
    to_come = deque(sorted(everyone, key=lambda job: job.arrival_s))
    live: list[Job] = []  # always by arrival, then by place in the trace
    running: list[Job] = []
    finish_s: dict[int, float] = {}
    now_s = -inf

    while to_come or live:
        # The next event: an arrival, a completion, the end of a quantum, or a threshold reached.
        events = [job.when_served(job.duration_s) for job in running]
        if to_come:
            events.append(to_come[0].arrival_s)
        if policy == "las" and len(running) < len(live):
            events.append((quanta_by(now_s, quantum_s) + 1) * quantum_s)
        if policy == "tiresias-l":
            events += [at_s for job in running for at_s in threshold_times(job, now_s, thresholds)]
        now_s = max(min(events), nextafter(now_s, inf))  # rounding must never make time stand still

        # All that happens at this instant; a job that arrives with nothing to do is finished at once.
        finished = [job for job in running if job.remaining_s(now_s) <= TINY]
        arrived = arrive(to_come, now_s)
        finished += [job for job in arrived if job.duration_s <= TINY]
        finish_s |= {job.place: now_s for job in finished}
        live = [job for job in live + arrived if job.place not in finish_s]
        running = [job for job in running if job.place not in finish_s]

        # One decision.
        ordered = sorted(live, key=order_key(policy, now_s, quantum_s, thresholds))
        chosen = choose(ordered, devices, head_blocks=policy == "fifo")
        hand_over(running, chosen, now_s)
        running = chosen

    return [finish_s[job.place] for job in everyone]
