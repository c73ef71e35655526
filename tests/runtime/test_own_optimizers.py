"""Libraries with optimizers of their own, which run none of PyTorch's hooks. Stand-ins have the libraries' names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from underweft import environment, forked_under_weft, pause_at_random_steps, under_weft
from weft.runtime.hooks.optimizer import METHODS

STEPS = 12
LIBRARY = """
import torch

class {owner}:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    def {method}(self, rate=0.1):
        with torch.no_grad():
            for each in self.parameters:
                each -= rate * each.grad
                each.grad = None
        return rate

class Derived({owner}):
    def {method}(self, rate=0.1):  # a wrapper: what it calls is part of the same update
        return super().{method}(rate / 2)
"""
SCRIPT = """
{imports}
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = library.{kind}(model.parameters())
for step in range({steps}):
    loss = model(torch.randn(64, 16)).pow(2).mean()
    loss.backward()
    assert optimizer.{method}(rate=0.2) == {rate}
    print(loss.item().hex(), flush=True)
"""
ORDERS = {
    "torch first": "import torch\nimport {module} as library",
    "library first": "import {module} as library\nimport torch",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["own", "Derived"])
@pytest.mark.parametrize("module", METHODS)
def test_its_updates_are_steps(tmp_path: Path, module: str, kind: str, order: str) -> None:
    owner, method = METHODS[module]
    made = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    made.parent.mkdir(parents=True)
    made.write_text(LIBRARY.format(owner=owner, method=method))
    script = tmp_path / "script.py"
    name, rate = (owner, 0.2) if kind == "own" else (kind, 0.1)
    imports = ORDERS[order].format(module=module)
    script.write_text(SCRIPT.format(imports=imports, kind=name, method=method, steps=STEPS, rate=rate))
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env.get("PYTHONPATH", "")])
    start = forked_under_weft if order == "torch first" else under_weft
    with start(sys.executable, str(script), env=env) as running:
        pauses = pause_at_random_steps(running, seed=1)
        out, err, code = running.end()
        assert (code, len(out.splitlines())) == (0, STEPS), err
        assert running.task.status().step == STEPS
        assert pauses >= STEPS // 5
