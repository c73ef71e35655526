"""How deep a pause goes: as shallow as leaves room for whoever comes."""

from __future__ import annotations

from weft.core.value import value

GATE, DROP_CACHES, SWAP_OUT, CHECKPOINT = "gate", "drop-caches", "swap-out", "checkpoint"


@value
class Held:
    """What a job holds of its devices' memory, and what it can do about that.

    What it gives back is known only where the native library serves it; elsewhere both are 0.
    """

    own_bytes: int
    ephemeral_bytes: int = 0
    """Of these, what lasts no longer than a step: drop-caches gives it back."""
    persistent_bytes: int = 0
    """Of these, what lasts and is on the device: swap-out gives that back too."""
    can_swap: bool = False
    can_checkpoint: bool = False

    def stays_bytes(self) -> dict[str, int]:
        """What stays with the job at each depth that it can go to, the cheapest first.

        | depth       | what stays                       | if                                       |
        |-------------|----------------------------------|------------------------------------------|
        | gate        | all                              | always                                   |
        | drop-caches | all but the ephemeral            | it has any                               |
        | swap-out    | neither that nor the persistent  | every rank can move it to the next tier  |
        | checkpoint  | nothing                          | every rank can save                      |
        """
        stays = {GATE: self.own_bytes}
        if self.ephemeral_bytes:
            stays[DROP_CACHES] = max(0, self.own_bytes - self.ephemeral_bytes)
        if self.can_swap:
            stays[SWAP_OUT] = max(0, self.own_bytes - self.ephemeral_bytes - self.persistent_bytes)
        if self.can_checkpoint:
            stays[CHECKPOINT] = 0
        return stays


def depth_for(budget_bytes: int, held_by_others_bytes: int, needs_bytes: int | None, held: Held) -> str:
    """The cheapest depth at which what stays fits beside who comes; needs unknown are half of all.

    If it fits at none, the one at which the least stays: the memory is over-committed then, but no work is lost.
    """
    needs = budget_bytes // 2 if needs_bytes is None else needs_bytes
    room = budget_bytes - needs - held_by_others_bytes
    stays = held.stays_bytes()
    return next((depth for depth in stays if stays[depth] <= room), min(stays, key=lambda depth: stays[depth]))


def depths_to_try(depth: str, shallow: str, held: Held) -> list[str]:
    """The depth itself, then, if a job refuses, each cheaper one. `shallow`: a pause goes at least so deep."""
    order = (GATE, DROP_CACHES, SWAP_OUT, CHECKPOINT)
    possible = [each for each in order if each in {*held.stays_bytes(), shallow}]
    deepest = max(possible.index(depth), possible.index(shallow))
    return possible[deepest::-1]
