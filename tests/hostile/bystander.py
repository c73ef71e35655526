"""A training job that minds its own business: one line a step with the exact loss, until it is told to finish.

    python bystander.py STOP_FILE PAUSE_S [STEPS]

Its steps are the same in every run, so its lines must be those of a run without weft and without attacks.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(7)
torch.set_num_threads(1)

stop_file, pause_s = Path(sys.argv[1]), float(sys.argv[2])
most_steps = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 30

model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
inputs, wanted = torch.randn(64, 16), torch.randn(64, 1)

for step in range(1, most_steps + 1):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs + 0.1 * torch.randn(64, 16)), wanted)
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
    if stop_file.exists():
        break
    time.sleep(pause_s)  # stands for loading data; it leaves the cores to the attacks
