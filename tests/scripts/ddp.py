"""A gang: DistributedDataParallel over gloo, ranks of uneven speed, and an evaluation on rank 0 alone now and then."""
# steps: 40
# argv: a number of steps, or a file to go on until it exists; each rank prints to stdout what all ranks agree on.

import os
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from fingerprint import finish, show
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
noise = random.Random(rank)
until = sys.argv[1] if len(sys.argv) > 1 else "40"
last = int(until) if until.isdigit() else sys.maxsize

model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = torch.Generator().manual_seed(rank)

for step in range(1, last + 1):
    inputs = torch.randn(8, 16, generator=data)
    time.sleep(noise.random() * 0.001)  # never in step with the other rank
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0 and until.isdigit():
        show(step, loss=mean)
    if step % 25 == 0:
        if rank == 0:
            with torch.no_grad():
                model.module(torch.ones(64, 16))
        dist.barrier()
    if not until.isdigit():
        is_over = torch.tensor(float(Path(until).exists()))
        dist.broadcast(is_over, 0)
        if is_over.item():
            break
if rank == 0:
    finish(model, optimizer)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # or gloo's threads abort the interpreter at its end, about once in thirty times, with weft or without
