"""A loop that updates its weights by hand, without torch.optim: manual.py [iterations]."""
# steps: 0
# There is nothing by which a boundary could be seen from outside.

import sys

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(13)
torch.set_num_threads(1)

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 30
learning_rate = 0.05
model = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
truth = torch.randn(16, 1)

for iteration in range(1, iterations + 1):
    inputs = torch.randn(512, 16)
    loss = nn.functional.mse_loss(model(inputs), torch.tanh(inputs @ truth))
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= learning_rate * p.grad
            p.grad = None
    show(iteration, loss=loss)

finish(model)
