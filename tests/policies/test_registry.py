from __future__ import annotations

import inspect

from weft.policies.registry import PARAMETERS, POLICIES


def test_every_parameter_of_every_policy_is_explained_and_no_other() -> None:
    used = {name for make in POLICIES.values() for name in inspect.signature(make).parameters}
    assert used == set(PARAMETERS)
