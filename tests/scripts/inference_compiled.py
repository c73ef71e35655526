"""Inference with a compiled model, gradients left on as beginners do."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10)).eval())
for step in range(1, 31):
    scores = model(torch.randn(16, 32))
    show(step, best=scores.detach().max())
finish(model)
