"""Inference with TorchScript, which takes no hooks, and a Softmax made anew for each batch."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.jit.script(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)).eval())
for step in range(1, 31):
    with torch.no_grad():
        scores = nn.Softmax(dim=1)(model(torch.randn(16, 32)))
    show(step, best=scores.max())
finish(model)
