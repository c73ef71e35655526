"""A gang that can be checkpointed: weft.init after init_process_group, and each step inside `with weft.step()`."""
# steps: 30

import os

import torch
import torch.distributed as dist
from fingerprint import finish, show
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import weft

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)  # each rank draws batches of its own

model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
run = weft.init(model=model, optimizer=optimizer)
for step in range(run.step + 1, 31):
    with weft.step():
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            show(step, loss=mean)
if rank == 0:
    finish(model, optimizer)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # or gloo's threads abort the interpreter at its end, about once in thirty times, with weft or without
