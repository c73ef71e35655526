from __future__ import annotations

from collections.abc import Iterator

import pytest
from nodes import Node, a_node


@pytest.fixture
def unstarted() -> Iterator[Node]:
    """A node whose coordinator the test starts."""
    with a_node() as node:
        yield node


@pytest.fixture
def node(unstarted: Node) -> Node:
    """A node whose coordinator has said hello."""
    unstarted.start()
    unstarted.await_hello()
    return unstarted
