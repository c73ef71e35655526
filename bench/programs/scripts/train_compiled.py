"""torch.compile with an empty cache: the first steps compile, in a pool of processes."""
# package: torch
# env: TORCHINDUCTOR_CACHE_DIR={scratch}
# steps: 24

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters())


@torch.compile
def loss_of(inputs, wanted):
    return nn.functional.mse_loss(model(inputs), wanted)


for step in range(24):
    rows = 64 if step < 12 else 48  # another shape: compiled again
    loss = loss_of(torch.randn(rows, 32), torch.randn(rows, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(step, loss=loss.detach())
finish(model)
