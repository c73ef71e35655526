"""How deep a pause goes: as shallow as leaves room for whoever comes."""

from __future__ import annotations

GATE, CHECKPOINT = "gate", "checkpoint"


def depth_for(
    budget_bytes: int, held_by_paused_bytes: int, own_bytes: int, needs_bytes: int | None, can_checkpoint: bool
) -> str:
    """Gate if what pauses there fits beside who comes, else checkpoint if the job can; needs unknown are half of all.

    Who can do neither keeps what it holds: the kernel may move it to swap space, and no work is lost.
    """
    needs = budget_bytes // 2 if needs_bytes is None else needs_bytes
    if held_by_paused_bytes + own_bytes <= budget_bytes - needs:
        return GATE
    return CHECKPOINT if can_checkpoint else GATE
