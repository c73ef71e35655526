"""LBFGS: each step() calls a closure several times, so one step holds many forwards and backwards."""
# steps: 10

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(9)
torch.set_num_threads(1)

inputs = torch.linspace(-3, 3, 200).unsqueeze(1)
targets = inputs.sin() + 0.1 * torch.randn_like(inputs)

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=10, line_search_fn="strong_wolfe")
evaluations = 0


def closure():
    global evaluations
    evaluations += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for step in range(1, 11):
    loss = optimizer.step(closure)
    show(step, evaluations=evaluations, loss=loss)

finish(model, optimizer)
