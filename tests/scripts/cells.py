"""Cells as a notebook runs them, each compiled by itself; one is interrupted in a step, and the next ones train on."""
# steps: 26

CELLS = [
    """
import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(model.parameters())


def update():
    inputs = torch.randn(64, 32)
    loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
""",
    """
for step in range(12):
    show(step, loss=update())
""",
    """
def interrupt(optimizer, args, kwargs):
    raise KeyboardInterrupt


interruption = optimizer.register_step_pre_hook(interrupt)
update()
""",
    """
interruption.remove()
model.eval()
with torch.no_grad():
    show("evaluated", value=model(torch.ones(1, 32)))
model.train()
show("alone", loss=update())
""",
    """
show("alone", loss=update())
""",
    """
for step in range(12):
    show(step, loss=update())
finish(model, optimizer)
""",
]

namespace = {"__name__": "__main__"}
for number, cell in enumerate(CELLS):
    try:
        exec(compile(cell, f"<cell {number}>", "exec"), namespace)  # noqa: S102 -- as a notebook's kernel does
    except KeyboardInterrupt:
        print("interrupted", flush=True)
