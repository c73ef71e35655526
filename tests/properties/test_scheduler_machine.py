"""Anything may happen to a scheduler, in any order: jobs, holds, losses, nodes that go and come, restarts."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from property_helpers import POLICIES, Twin, Variant, build, check_reasons, is_incremental, label, steady, variants_of

from weft.core.commands import Preempt, Seat, Start, WakeAt
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Grown,
    Held,
    Launched,
    Lost,
    Measured,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Stepped,
    Submitted,
    Woken,
)
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.sharing import Device, devices_of
from weft.core.snapshot import restored, snapshot
from weft.core.transitions import State
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.core.view import Decider

PAUSED = Reason(Code.PAUSED)
HOLDS = (PAUSED, Reason(Code.HELD), Reason(Code.COMES_AFTER, ("7",)), Reason(Code.ARRAY_LIMIT, (2,)))
PAUSES_S = st.sampled_from((0.0, 0.25, 1.0, 3.3, 12.0, 70.0))
MEMORY_BYTES = 100
FIRST_NODES = (Node("n0", 2, "V100", MEMORY_BYTES), Node("n1", 4, "V100", MEMORY_BYTES), Node("n2", 2, "K80"))
"""Of the last one's memory nothing is known: there nobody shares a device."""


class Anything(RuleBasedStateMachine):
    """Every job is told apart from all others by its number; picks are by position, so that they always hit."""

    def __init__(self, variant: Variant, seats: list[Seat]) -> None:
        super().__init__()
        self.variant = variant
        self.seats = seats
        self.scheduler = Scheduler(Cluster(FIRST_NODES), self.new_policy())
        self.now = 0.0
        self.wake_at = math.inf
        self.named = 0
        self.started: set[tuple[str, int]] = set()

    def new_policy(self) -> Decider:
        return Twin(self.variant) if is_incremental(self.variant) else build(self.variant)

    def tell(self, *events: Event) -> None:
        named = {getattr(event, "job_id", "") for event in events}
        starting = {job.id for job in self.computing() if self.is_kept(job) and job.id not in named}
        for command in self.scheduler.handle(events, self.now):
            match command:
                case Preempt():
                    assert command.job_id not in starting, f"{command} though it starts up and nobody is guaranteed"
                case WakeAt():
                    self.wake_at = command.time_s
                case Start() | Seat():
                    self.seats += [command] if isinstance(command, Seat) else []
                    assert (command.job_id, command.generation) not in self.started
                    self.started.add((command.job_id, command.generation))

    def is_kept(self, job: Job) -> bool:
        return job.is_starting(self.now) and self.now < job.startup_kept_until_s

    def let_pass(self, pause_s: float) -> None:
        until = self.now + pause_s
        for _ in range(1000):
            if self.wake_at > until:
                break
            self.now, self.wake_at = max(self.now, self.wake_at), math.inf
            self.tell(Woken())
        else:
            raise AssertionError(f"the policy asks to be woken again and again until {self.now} s")
        self.now = until

    def jobs(self, *states: State) -> list[Job]:
        return [job for job in self.scheduler.ledger.jobs.values() if job.state in states]

    def pick(self, at: int, *states: State) -> Job:
        some = self.jobs(*states)
        return some[at % len(some)]

    def computing(self) -> list[Job]:
        """Those that hold devices, then guests."""
        ledger = self.scheduler.ledger
        return [*ledger.running.values(), *ledger.seats.seated.values()]

    def pick_computing(self, at: int) -> Job:
        """From the end, so that guests are hit often."""
        some = self.computing()
        return some[-1 - at % len(some)]

    def new_job(self, gang_size: int, min_run_s: float, skew: float, kind: str | None) -> Submitted:
        self.named += 1
        return Submitted(
            JobSpec(
                f"j{self.named}",
                gang_size,
                tenant="abc"[self.named % 3],
                device_types=None if kind is None else frozenset({kind}),
                declared_steps=float(7 * self.named % 31 + 1),
                step_rate_hz={} if self.named % 2 else {"V100": 2.0, "K80": 0.5},
                skew=skew,
                min_run_s=min_run_s,
                job_class=tuple(JobClass)[self.named % 3],
                memory_bytes=gang_size * 25 if self.named % 4 == 1 else None,
                may_share=self.named % 7 != 0,
            )
        )

    @initialize(is_crowded=st.booleans())
    def begin(self, is_crowded: bool) -> None:
        """Perhaps with a few more jobs than devices, each of which has been measured alone."""
        if is_crowded:
            self.tell(*(self.new_job(1, 0.0, 0.0, None) for _ in range(12)))
            for _ in range(3):
                self.measure(70.0, [0.3, 0.05], [2.0], [(10, 20), (5, 40)])

    @rule(
        pause_s=PAUSES_S,
        gangs=st.lists(st.sampled_from((1, 1, 1, 2, 3, 4)), min_size=1, max_size=6),
        min_run_s=st.sampled_from((0.0, 0.0, 2.0)),
        skew=st.sampled_from((0.0, 0.5)),
        kind=st.sampled_from((None, None, "V100", "K80")),
    )
    def submit(self, pause_s: float, gangs: list[int], min_run_s: float, skew: float, kind: str | None) -> None:
        self.let_pass(pause_s)
        self.tell(*(self.new_job(gang_size, min_run_s, skew, kind) for gang_size in gangs))

    @rule(pause_s=PAUSES_S)
    def wait(self, pause_s: float) -> None:
        self.let_pass(pause_s)

    @precondition(lambda self: self.computing())
    @rule(at=st.integers(0, 9), kind=st.sampled_from((Finished, Finished, Failed)), gang_size=st.integers(0, 3))
    def end(self, at: int, kind: type[Finished | Failed], gang_size: int) -> None:
        """An attempt ends, perhaps at the very instant at which another job arrives."""
        job = self.pick_computing(at)
        arrivals = [self.new_job(gang_size, 0.0, 0.0, None)] if gang_size else []
        self.tell(*arrivals, kind(job.id, job.generation))

    @precondition(lambda self: self.jobs(State.PENDING, State.HELD, State.RUNNING))
    @rule(at=st.integers(0, 9))
    def cancel(self, at: int) -> None:
        self.tell(Cancelled(self.pick(at, State.PENDING, State.HELD, State.RUNNING).id))

    @precondition(lambda self: self.jobs(State.PENDING, State.HELD))
    @rule(at=st.integers(0, 9), why=st.sampled_from(HOLDS))
    def hold(self, at: int, why: Reason) -> None:
        self.tell(Held(self.pick(at, State.PENDING, State.HELD).id, why))

    @precondition(lambda self: self.jobs(State.PENDING, State.HELD, State.RUNNING))
    @rule(at=st.integers(0, 9), gang_size=st.integers(0, 3), is_brief=st.booleans())
    def pause(self, at: int, gang_size: int, is_brief: bool) -> None:
        """Its owner pauses a job, perhaps as another arrives, and perhaps has it go on within the same instant."""
        job = self.pick(at, State.RUNNING) if self.jobs(State.RUNNING) else self.pick(at, State.PENDING, State.HELD)
        before, arrivals = job.generation, [self.new_job(gang_size, 0.0, 0.0, None)] if gang_size else []
        self.tell(*arrivals, Held(job.id, PAUSED), *([Released(job.id, Code.PAUSED)] if is_brief else []))
        assert is_brief or (job.state is State.HELD and not job.is_computing and job.generation == before)

    @precondition(lambda self: self.jobs(State.HELD))
    @rule(at=st.integers(0, 9), which=st.integers(0, 2), pause_s=PAUSES_S)
    def release(self, at: int, which: int, pause_s: float) -> None:
        self.let_pass(pause_s)
        job = self.pick(at, State.HELD)
        before = job.holds
        self.tell(Released(job.id, before[which % len(before)].code))
        assert (job.state is State.HELD) == (len(before) > 1)

    @precondition(lambda self: self.computing())
    @rule(at=st.integers(0, 9), backs_off=st.booleans(), gang_size=st.integers(0, 3))
    def lose(self, at: int, backs_off: bool, gang_size: int) -> None:
        """An attempt is lost, and perhaps tried again only after a while; perhaps another job arrives just then."""
        job = self.pick_computing(at)
        hold = [Held(job.id, Reason(Code.BACKING_OFF, (1, "was lost", "1")))] if backs_off else []
        arrivals = [self.new_job(gang_size, 0.0, 0.0, None)] if gang_size else []
        self.tell(*arrivals, Lost(job.id, job.generation), *hold)

    @rule(at=st.integers(0, 9), mask=st.integers(0, 15))
    def block_devices(self, at: int, mask: int) -> None:
        ledger = self.scheduler.ledger
        here = [node.name for node, there in zip(ledger.nodes, ledger.is_present, strict=True) if there]
        self.tell(DevicesBlocked(here[at % len(here)], mask))

    @rule()
    def start_again_from_a_snapshot(self) -> None:
        """With a policy that remembers nothing."""
        taken = json.dumps(snapshot(self.scheduler.ledger))
        ledger = restored(json.loads(taken))
        ledger.validate()
        assert json.dumps(snapshot(ledger)) == taken
        self.scheduler = Scheduler(ledger, self.new_policy())
        self.wake_at = math.inf
        self.tell()

    @rule()
    def change_the_policy(self) -> None:
        """To one like it that remembers nothing."""
        self.scheduler.change_policy(self.new_policy())
        self.wake_at = math.inf
        self.tell()

    @precondition(lambda self: self.computing())
    @rule(at=st.integers(0, 9))
    def say_something_late(self, at: int) -> None:
        job = self.pick_computing(at)
        self.tell(Finished(job.id, job.generation - 1), Lost(job.id, job.generation - 1))

    @precondition(lambda self: self.computing())
    @rule(at=st.integers(0, 9), share=st.floats(0.0, 1.0))
    def progress(self, at: int, share: float) -> None:
        job = self.pick_computing(at)
        self.tell(Progressed(job.id, job.generation, round(share * (job.spec.declared_steps or 0.0), 2)))

    @precondition(lambda self: self.computing())
    @rule(
        pause_s=PAUSES_S, some=st.sets(st.integers(0, 9), min_size=1), startup_s=st.sampled_from((0.0, 1.0, 5.0, 80.0))
    )
    def launch(self, pause_s: float, some: set[int], startup_s: float) -> None:
        """Attempts are launched; whose devices those are is decided before anybody knows of it."""
        self.let_pass(pause_s)
        jobs = {job.id: job for job in map(self.pick_computing, some)}
        self.tell(*(Launched(job.id, job.generation, startup_s) for job in jobs.values()))

    @precondition(lambda self: self.computing())
    @rule(pause_s=PAUSES_S, at=st.integers(0, 9))
    def make_a_first_step(self, pause_s: float, at: int) -> None:
        self.let_pass(pause_s)
        if self.computing():
            job = self.pick_computing(at)
            self.tell(Stepped(job.id, job.generation))
            assert not job.is_starting(self.now)

    @precondition(lambda self: self.computing())
    @rule(
        pause_s=PAUSES_S,
        utilisations=st.lists(st.sampled_from((0.05, 0.3, 0.7, 1.0)), min_size=1, max_size=3),
        rates_hz=st.lists(st.sampled_from((0.5, 1.5, 2.0)), min_size=1, max_size=3),
        sizes=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=3),
    )
    def measure(
        self, pause_s: float, utilisations: list[float], rates_hz: list[float], sizes: list[tuple[int, int]]
    ) -> None:
        """The nodes tell of everybody who computes, and of some that they need more than was known."""
        self.let_pass(pause_s)
        self.tell(
            *(
                Measured(
                    job.id,
                    job.generation,
                    rates_hz[at % len(rates_hz)],
                    utilisations[at % len(utilisations)],
                    *sizes[at % len(sizes)],
                    self.neighbours_of(job),
                )
                for at, job in enumerate(self.computing())
            )
        )

    @rule(pause_s=PAUSES_S, sizes=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=3))
    def grow(self, pause_s: float, sizes: list[tuple[int, int]]) -> None:
        self.let_pass(pause_s)
        self.tell(*(Grown(job.id, job.generation, *sizes[at % len(sizes)]) for at, job in enumerate(self.computing())))

    def neighbours_of(self, job: Job) -> tuple[str, ...]:
        def where(one: Job) -> set[Device]:
            return set(devices_of(one.seating.allocation if one.seating else one.allocation))

        return tuple(sorted(one.id for one in self.computing() if one is not job and where(one) & where(job)))

    @precondition(lambda self: self.scheduler.ledger.seats.seated)
    @rule(at=st.integers(0, 9), why=st.sampled_from(HOLDS))
    def hold_a_guest(self, at: int, why: Reason) -> None:
        guest = self.pick_guest(at)
        self.tell(Held(guest.id, why))
        assert guest.seating is None

    @precondition(lambda self: self.scheduler.ledger.seats.seated)
    @rule(at=st.integers(0, 9))
    def cancel_a_guest(self, at: int) -> None:
        self.tell(Cancelled(self.pick_guest(at).id))

    def pick_guest(self, at: int) -> Job:
        some = list(self.scheduler.ledger.seats.seated.values())
        return some[at % len(some)]

    @precondition(lambda self: sum(self.scheduler.ledger.is_present) > 1)
    @rule(at=st.integers(0, 9))
    def lose_a_node(self, at: int) -> None:
        ledger = self.scheduler.ledger
        here = [node.name for node, there in zip(ledger.nodes, ledger.is_present, strict=True) if there]
        self.tell(NodeLost(here[at % len(here)]))

    @precondition(lambda self: len(self.scheduler.ledger.nodes) < 12)
    @rule(size=st.integers(1, 4), kind=st.sampled_from(("V100", "K80")))
    def join_a_node(self, size: int, kind: str) -> None:
        self.tell(NodeJoined(Node(f"n{len(self.scheduler.ledger.nodes)}", size, kind, MEMORY_BYTES)))

    @invariant()
    def holds_together(self) -> None:
        self.scheduler.ledger.validate()
        check_reasons(self.scheduler, self.now)


SOME = [variants_of(name)[at] for name in POLICIES for at in (0, -1)]
"""Of each policy the defaults and the setting with the most going on."""


@pytest.mark.parametrize("variant", [v for i, v in enumerate(SOME) if v not in SOME[:i]], ids=label)
def test_a_scheduler_bears_anything(variant: Variant) -> None:
    shares = build(variant).share is not None
    seats: list[Seat] = []
    examples = steady(16 if shares else 6)
    run_state_machine_as_test(lambda: Anything(variant, seats), settings=settings(examples, stateful_step_count=25))
    assert bool(seats) == shares, "nobody ever sat down, so nothing of that was tried"
