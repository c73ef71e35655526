"""The optimizer runs inside backward, one per parameter; stochastic depth leaves some of them out of an iteration."""
# steps: 30
# One iteration is one step, however many of the small optimizers ran in it.

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(8)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        return x + self.body(x)


class Network(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)
        self.used = []

    def forward(self, x):
        x = self.stem(x)
        self.used = (torch.rand(len(self.blocks)) < 0.7).tolist()
        for block, is_used in zip(self.blocks, self.used, strict=True):
            if is_used:
                x = block(x)
        return self.head(x)


model = Network()
optimizers = {parameter: torch.optim.Adam([parameter], lr=1e-3) for parameter in model.parameters()}


def step_and_free(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step_and_free)

for step in range(1, 31):
    inputs = torch.randn(64, 16)
    targets = inputs[:, :4].sum(1, keepdim=True).sin()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    show(step, used=sum(model.used), loss=loss)

finish(model, *optimizers.values())
