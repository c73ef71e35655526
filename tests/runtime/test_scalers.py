"""Scalers that are disabled, or keep their states in another way than PyTorch: the script does the same under weft."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from underweft import bare, forked_under_weft

SCRIPT = """
import torch
from torch import nn

class Foreign(torch.amp.GradScaler):
    def __init__(self):
        super().__init__("cpu")
        {states}

    def step(self, optimizer):
        return optimizer.step()

    def update(self):
        pass

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = {scaler}
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""
SCALERS = {
    "disabled": ('torch.amp.GradScaler("cpu", enabled=False)', "pass"),
    "without states": ("Foreign()", "del self._per_optimizer_states"),
    "a list of states": ("Foreign()", "self._per_optimizer_states = [1]"),
    "states that are no dicts": ("Foreign()", "self._per_optimizer_states = {1: None, 2: 3}"),
    "states without a stage": ("Foreign()", "self._per_optimizer_states = {1: {}, 2: {'stage': 2}}"),
}


@pytest.mark.parametrize("name", SCALERS)
def test_a_script_with_such_a_scaler_does_the_same_under_weft(name: str, tmp_path: Path) -> None:
    scaler, states = SCALERS[name]
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("{states}", states).replace("{scaler}", scaler))
    with forked_under_weft(sys.executable, str(script)) as running:
        out, err, code = running.end()
        assert (code, out) == (0, bare(script)), err
        assert running.task.status().step == 6
