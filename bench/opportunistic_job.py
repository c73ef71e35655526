"""A training job for measurements beside another one: opportunistic_job.py WIDTH WAIT_MS [FILE].

A small CNN; before each step it waits for its input for WAIT_MS. When FILE is there it says for how many steps from now
on four times the memory is needed: it is removed, and of each of these steps it is printed how long it took, in ms.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn

width, wait_s = int(sys.argv[1]), float(sys.argv[2]) / 1e3
file = Path(sys.argv[3]) if sys.argv[3:] else None
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(width, 2 * width, 3, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(2 * width * 15 * 15, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(model.parameters())
inputs, wanted = torch.randn(48, 3, 32, 32), torch.randint(0, 10, (48,))
bursts = 0
while True:
    time.sleep(wait_s)
    if file and file.exists():
        bursts = int(file.read_text())
        file.unlink()
    begun_s, times = time.monotonic(), 4 if bursts else 1
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs.repeat(times, 1, 1, 1)), wanted.repeat(times)).backward()
    optimizer.step()
    if bursts:
        bursts -= 1
        print(1e3 * (time.monotonic() - begun_s), flush=True)
