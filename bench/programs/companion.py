"""What a program shares a device or a lane with: a plain loop that trains until the file in its word is there."""

import sys
from pathlib import Path

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.Adam(model.parameters())
while not Path(sys.argv[1]).exists():
    loss = model(torch.randn(64, 64)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
