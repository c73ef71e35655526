"""`weft` as a person calls it, and a file with policies of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable

from click.testing import Result

Weft = Callable[..., Result]

BY_NAME = '''
from weft import KeyedOrder, Policy
from weft.policies.order.keyed import Fifo


class ByName(KeyedOrder):
    """Jobs in the order of their ids, backwards if wanted."""

    def __init__(self, backwards: bool = False):
        self.sign = -1 if backwards else 1

    def key(self, job, now):
        return (self.sign * int(job.id.rpartition("-")[2]), job.tie)


def composed(strict=True, note=None):
    return Policy(Fifo(strict))


READY = Policy(Fifo(False))


class Handmade:
    def __init__(self, share: float):
        self.policy = Policy(Fifo(False))

    def decide(self, view):
        return self.policy.decide(view)

    def explain(self, view, job):
        return self.policy.explain(view, job)


def wrong():
    return "fifo"
'''


def command_line(*words: str) -> list[str]:
    """For a process of its own."""
    return [sys.executable, "-W", "error", "-m", "weft.cli.main", *words]
