"""What a guest in the process could break: strict export, TorchScript with backward, pickles, a step() that raises."""
# steps: 20

import copy
import io
import pickle

import torch
from fingerprint import finish, show
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.inner(x)).sum(1)


@torch.jit.script
def gradient(x: torch.Tensor):
    x = x.detach().requires_grad_(True)
    torch.autograd.backward([(x * x).sum()])
    return x.grad


def broken():
    raise ValueError("no loss today")


model = Small()
inputs = torch.randn(3, 4)
exported = torch.export.export(model, (inputs,), strict=True)
show(0, plain=model(inputs), exported=exported.module()(inputs), scripted=gradient(inputs))

try:
    torch.optim.LBFGS(model.parameters()).step(broken)
except ValueError as error:
    print(error)

optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(1, 21):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        model, optimizer = pickle.loads(pickle.dumps(copy.deepcopy((model, optimizer))))  # noqa: S301 -- our own
    show(step, loss=loss)
saved = io.BytesIO()
torch.save(model, saved)
saved.seek(0)
finish(torch.load(saved, weights_only=False), optimizer)
