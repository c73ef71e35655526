"""The model and the optimizer's step are compiled by torch.compile with the default backend."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(17)
torch.set_num_threads(1)


class Gated(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.gate = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.stem(x)
        return self.head(self.norm(torch.sigmoid(self.gate(x)) * x))


model = Gated()
compiled_model = torch.compile(model)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


@torch.compile
def update():
    optimizer.step()


for step in range(1, 31):
    inputs = torch.randn(256, 16)
    targets = inputs[:, :1] * inputs[:, 1:2].relu()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(compiled_model(inputs), targets)
    loss.backward()
    update()
    show(step, loss=loss)

finish(model, optimizer)
