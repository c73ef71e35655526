"""torchrun with two ranks of which one fails once: both are started again and train to the end."""
# package: torch
# ranks: 2
# command: {bin}/torchrun --nproc-per-node 2 --max-restarts 1 --standalone {script}
# steps: 24

import os
import sys

import torch
from fingerprint import finish, show
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(1)
torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank, life = distributed.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1)))
optimizer = torch.optim.Adam(model.parameters())
chance = torch.Generator().manual_seed(rank)
for step in range(24):
    if life == 0 and rank == 1 and step == 10:
        sys.exit(3)
    loss = model(torch.randn(32, 32, generator=chance)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and life:
        show(step, loss=loss.detach())
if rank == 0:
    finish(model)
distributed.destroy_process_group()
