"""Every scheduler that a core test makes is validated when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from core_helpers import Make, nodes

from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, Node
from weft.core.view import Decider
from weft.policies.registry import POLICIES


@pytest.fixture
def make() -> Iterator[Make]:
    """A scheduler with a policy, by name or as an object, on nodes, given whole or by their sizes."""
    made: list[Scheduler] = []

    def make(policy: str | Decider, *shape: int | Node, **parameters: Any) -> Scheduler:
        decider = POLICIES[policy](**parameters) if isinstance(policy, str) else policy
        given = [node for node in shape if isinstance(node, Node)]
        cluster = Cluster((*given, *nodes(*(size for size in shape if isinstance(size, int)))))
        made.append(Scheduler(cluster, decider))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.ledger.validate()
