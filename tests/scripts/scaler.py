"""Mixed precision on the CPU: the GradScaler really skips steps, as its first scale and one batch are too large."""
# steps: 30
# An iteration counts as a step also where the scaler saw an infinite gradient and left optimizer.step() out.

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=6)
truth = torch.randn(32, 8)

for step in range(1, 31):
    inputs = torch.randn(128, 32)
    if step == 20:
        inputs[0, 0] = 1e30  # a sensor fault: infinite in float16
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(inputs), (inputs @ truth).argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    show(step, loss=loss, scale=scaler.get_scale())

finish(model, optimizer, scaler)
