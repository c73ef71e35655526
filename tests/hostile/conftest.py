"""Attacks are counted: each is one `with attack("class: what is done"):`, and the counts are printed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from box import Attack, Box

from attacks import PROPERTY


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A weft that is up, with two bystanders, for all attacks of a module. At the end these have computed the same
    bits as alone."""
    with Box(tmp_path_factory.mktemp("hostile")).running() as box:
        yield box


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Attack:
    """Count an attack; afterwards the weft of this test, if it uses `box`, is checked."""
    box: Box | None = request.getfixturevalue("box") if "box" in request.fixturenames else None

    @contextmanager
    def attack(name: str) -> Iterator[None]:
        assert name.partition(": ")[2], f'an attack is named "class: what is done", not "{name}"'
        try:
            yield
            if box is not None:
                box.check()
        except BaseException:
            request.node.user_properties.append((PROPERTY, (name, "fell")))
            raise
        request.node.user_properties.append((PROPERTY, (name, "held")))

    return attack
