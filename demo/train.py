"""An ordinary training script, which knows nothing of weft: train.py STEPS"""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(steps):
    inputs, labels = torch.randn(256, 256), torch.randint(10, (256,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f} after {steps} steps")
