"""First come, first served, and who waits takes turns with a holder; a move is taken to cost a second."""

from __future__ import annotations

from weft.policies.migrate.migration import Migration
from weft.policies.order.keyed import Fifo
from weft.policies.policy import Policy
from weft.policies.share.lanes import Lanes


def policy() -> Policy:
    return Policy(Fifo(strict=False), share=Lanes(lanes=1), migration=Migration(1.0))
