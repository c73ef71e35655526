"""Lasting tasks: one that ends or fails is started again after a back-off, and is warned of meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from weft.system import supervisor as supervisors
from weft.system.supervisor import Supervisor


def fail(error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(24, "Too many open files"), "Too many open files"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "cancelled from within"),
        (KeyError("a fault"), "KeyError"),
        (None, "it ended"),
    ],
)
def test_whatever_ends_a_task_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch, error: BaseException | None, says: str
) -> None:
    monkeypatch.setattr(supervisors, "FIRST_WAIT_S", 0.0)

    async def story() -> None:
        supervisor, lives, is_back = Supervisor(), list[int](), asyncio.Event()

        async def work() -> None:
            lives.append(len(lives))
            if len(lives) < 3:
                fail(error)
            else:
                is_back.set()
                await asyncio.Event().wait()

        async with asyncio.timeout(30):
            task = supervisor.start("work", work)
            await is_back.wait()
        (warning,) = supervisor.warnings()
        assert "the task work failed and was started again, 2 times now" in warning
        assert says in warning
        monkeypatch.setattr(supervisors, "STEADY_S", -1.0)
        assert supervisor.warnings() == [], "it has run for long enough since"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(story())


def test_the_wait_doubles_up_to_a_bound() -> None:
    supervisor = Supervisor()
    waits = list[float]()
    for _ in range(12):
        supervisor._note("work", "it ended", None)
        waits.append(supervisor._wait_s("work"))
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == supervisors.LONGEST_WAIT_S


def test_other_tasks_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisors, "FIRST_WAIT_S", 0.0)

    async def story() -> None:
        supervisor, counts = Supervisor(), {"good": 0, "bad": 0}

        def counting(name: str, error: Exception | None) -> Callable[[], object]:
            async def work() -> None:
                while True:
                    counts[name] += 1
                    await asyncio.sleep(0)
                    fail(error)

            return work

        tasks = [
            supervisor.start("good", counting("good", None)),  # type: ignore[arg-type]
            supervisor.start("bad", counting("bad", OSError())),  # type: ignore[arg-type]
        ]
        while counts["good"] < 50 or counts["bad"] < 3:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())
