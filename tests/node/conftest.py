from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes import Node, a_node

from weft.system.files import is_in_memory
from weft.system.runtime_dir import SHARED_MEMORY


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


@pytest.fixture
def shm() -> Iterator[Path]:
    if not is_in_memory(SHARED_MEMORY) or not os.access(SHARED_MEMORY, os.W_OK):
        pytest.skip("needs a /dev/shm in memory")
    folder = Path(tempfile.mkdtemp(prefix="weft-test-", dir=SHARED_MEMORY))
    yield folder
    shutil.rmtree(folder)
