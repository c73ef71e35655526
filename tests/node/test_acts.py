"""What comes next for an attempt, where no real process can show it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from weft.node.attempt.ending import MERCY_S, ending_of, see_stop
from weft.node.attempt.records import TaskExit
from weft.node.fence import process_tree


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
