"""What comes next for an attempt, where no real process can show it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.node.attempt import ending, machine, pause_to_depth, resume
from weft.node.attempt.ending import MERCY_S, ending_of, see_stop
from weft.node.attempt.machine import Observed, next_action
from weft.node.attempt.order import AttemptState, Wanted
from weft.node.attempt.records import TaskExit
from weft.node.fence import process_tree

STATES, WANTED = st.sampled_from(AttemptState), st.sampled_from(Wanted)
OBSERVED = st.builds(Observed, is_over=st.booleans(), is_given_up=st.booleans(), is_broken=st.booleans())
ENDING = (machine.end, machine.lose, machine.stop_broken)
COMPUTING = (machine.launch, machine.help_launch, resume.continue_running, resume.resume)


@given(STATES, WANTED, OBSERVED)
def test_an_attempt_that_is_over_ends_whatever_is_wanted(state: AttemptState, wanted: Wanted, seen: Observed) -> None:
    assert (next_action(state, wanted, seen) is machine.end) == seen.is_over


@given(STATES, WANTED, OBSERVED)
def test_what_is_given_up_or_broken_never_computes_again(state: AttemptState, wanted: Wanted, seen: Observed) -> None:
    if seen.is_given_up or seen.is_broken:
        assert next_action(state, wanted, seen) not in COMPUTING


@given(STATES, OBSERVED)
def test_a_stop_leads_to_an_end_from_every_state(state: AttemptState, seen: Observed) -> None:
    stops = (
        ending.begin_stop,
        ending.see_stop,
        ending.end_unstarted,
        machine.stop_launch,
        pause_to_depth.give_up_pause,
    )
    if state is not AttemptState.ENDED:
        assert next_action(state, Wanted.STOP, seen) in (*ENDING, *stops)


@given(STATES, WANTED)
def test_only_what_is_wanted_to_run_is_launched_or_resumed(state: AttemptState, wanted: Wanted) -> None:
    if next_action(state, wanted, Observed()) in (machine.launch, resume.continue_running, resume.resume):
        assert wanted is Wanted.RUN


@given(STATES)
def test_nothing_begins_after_a_restart_before_an_order_comes(state: AttemptState) -> None:
    action = next_action(state, Wanted.NOTHING, Observed())
    assert action in (None, machine.see_launch, ending.see_stop)


def test_who_cannot_be_killed_is_waited_for_by_one_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[bool] = []
    may_end = threading.Event()

    def end_tree(with_shepherds: bool) -> None:
        trees.append(with_shepherds)
        may_end.wait()

    async def stop() -> None:
        attempt: Any = SimpleNamespace(kill_at_s=0.0, kills=0, killing=None, now_s=0.0, wake=lambda: None)
        attempt.tree = lambda with_shepherds: with_shepherds
        for attempt.now_s in (0.0, MERCY_S, 2 * MERCY_S):
            await see_stop(attempt, [])
        may_end.set()
        await attempt.killing
        assert trees == [False]
        await see_stop(attempt, [])
        await attempt.killing
        assert trees == [False, True]

    monkeypatch.setattr(process_tree, "end_tree", end_tree)
    asyncio.run(stop())


def test_a_gang_of_which_one_rank_failed_before_the_others_began_has_failed() -> None:
    failed = TaskExit(exit_code=5, at_s=1.0, by="shepherd", message="")
    how = ending_of([None, failed], "", None, 0.0, is_stop_wanted=False)
    assert (how.what, how.body["exit_code"]) == ("ended", 5)
    assert how.body["message"] == "rank 1 ended with exit code 5: weft logs --task 1 ID"
    assert ending_of([None, replace(failed, exit_code=0)], "", None, 0.0, is_stop_wanted=False).what == "lost"
