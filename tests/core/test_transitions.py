"""The table of transitions is what the scheduler does, no more and no less."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_helpers import Make, Script, eviction, grant, picture, submitted

from weft.core import commands, events
from weft.core.errors import IllegalEventError
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.transitions import TERMINAL, TRANSITIONS, State, table

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"

LIVE = [state for state in State if state not in TERMINAL]

EVENTS = {
    events.Held: events.Held("a"),
    events.Released: events.Released("a"),
    events.Cancelled: events.Cancelled("a"),
    events.NodeLost: events.NodeLost("n0"),
}

ENDINGS = [events.Finished, events.Failed]


def brought_to(state: State, make: Make) -> tuple[Scheduler, Script]:
    policy = Script()
    scheduler = make(policy, 1)
    policy.plans.append(Plan([grant("a", (0, 1))]))
    scheduler.handle([submitted("a")], 0.0)
    if state is not State.RUNNING:
        policy.plans.append(Plan([], [eviction("a")]))
        scheduler.handle([], 0.5)
    if state is State.HELD:
        scheduler.handle([events.Held("a")], 1.0)
    return scheduler, policy


@pytest.mark.parametrize(
    ("state", "cause"), [pair for pair in TRANSITIONS if pair[1] not in (commands.Start, commands.Preempt)]
)
def test_every_event_of_the_table_leads_where_it_says(make: Make, state: State, cause: type) -> None:
    scheduler, _ = brought_to(state, make)
    job = scheduler.ledger.jobs["a"]
    scheduler.handle([EVENTS.get(cause) or cause("a", job.generation)], 2.0)
    after = TRANSITIONS[state, cause]
    assert job.state is after
    assert ("a" in scheduler.ledger.jobs) == (after not in TERMINAL)


@pytest.mark.parametrize(
    ("state", "cause"), [pair for pair in TRANSITIONS if pair[1] in (commands.Start, commands.Preempt)]
)
def test_every_command_of_the_table_leads_where_it_says(make: Make, state: State, cause: type) -> None:
    scheduler, policy = brought_to(state, make)
    policy.plans.append(Plan([grant("a", (0, 1))]) if cause is commands.Start else Plan([], [eviction("a")]))
    (command,) = scheduler.handle([], 2.0)
    assert type(command) is cause
    assert scheduler.ledger.jobs["a"].state is TRANSITIONS[state, cause]


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (state, cause)
        for state in LIVE
        for cause in [events.Held, events.Released, events.Cancelled, *ENDINGS]
        if (state, cause) not in TRANSITIONS
    ],
)
def test_every_event_that_is_not_in_the_table_is_illegal(make: Make, state: State, cause: type) -> None:
    scheduler, _ = brought_to(state, make)
    before = picture(scheduler.ledger)
    with pytest.raises(IllegalEventError, match=f"{cause.__name__} does not fit"):
        scheduler.handle([EVENTS.get(cause) or cause("a", scheduler.ledger.jobs["a"].generation)], 2.0)
    assert picture(scheduler.ledger) == before


def test_a_lost_node_means_nothing_to_jobs_that_held_none_of_its_devices(make: Make) -> None:
    scheduler, _ = brought_to(State.HELD, make)
    scheduler.handle([events.NodeLost("n0")], 2.0)
    assert scheduler.ledger.jobs["a"].state is State.HELD


def test_nothing_leads_out_of_a_terminal_state() -> None:
    assert not [state for state, _ in TRANSITIONS if state in TERMINAL]


def test_every_state_can_be_reached() -> None:
    assert set(TRANSITIONS.values()) == set(State)


def test_the_table_that_architecture_shows_is_the_one_in_force() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    shown = text.partition("<!-- transitions -->")[2].partition("<!-- /transitions -->")[0]
    assert shown.strip() == table()
