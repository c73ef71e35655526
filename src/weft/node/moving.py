"""An attempt that is to be on other devices: its cores are changed under it, or it has to leave and come anew."""

from __future__ import annotations

from dataclasses import replace

from weft.node.attempt import Attempt
from weft.node.children import in_thread

GATE, LEAVE = "gate", ("checkpoint", "gate")


async def move(attempt: Attempt) -> bool:
    """Bind it to the devices of its order, while it runs or pauses; False if somebody there has to leave first.

    Before this is noted: who comes after a coordinator that is killed in between is ordered to move it, and does so.
    """
    ground, order = attempt.ground, attempt.order
    if not ground.company.take(attempt, order.devices):
        return False
    there = replace(attempt.record, devices=order.devices)
    for task in attempt.tasks if attempt.wants_to_move else ():
        await in_thread(ground.kind.move, task.pid, ground.some(there.devices_of(task.rank)))
    return True


def should_leave(attempt: Attempt) -> bool:
    """Whether it, which cannot move, is to save and end: whoever is told so launches it where it was to go."""
    ranks = attempt.attached().status().ranks
    if attempt.stays[0] == attempt.order.generation:
        return False
    if ranks and all(rank.can_checkpoint for rank in ranks):
        return True
    stay(attempt, "it cannot save")
    return False


def stay(attempt: Attempt, because: str) -> None:
    """It goes on where it is, which its next report says."""
    devices = ", ".join(map(str, attempt.record.devices))
    attempt.stays = (attempt.order.generation, f"it was launched on {devices}, and stays there: {because}")
