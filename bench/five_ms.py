"""A training loop with steps of about 5 ms on one core: for each number it reads, so many steps; their median in ns."""

import os
import statistics
import sys
import time

import torch
from torch import nn

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
torch.set_num_threads(1)
torch.manual_seed(0)
blocks = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())]
model = nn.Sequential(nn.Linear(64, 256), *blocks, nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
inputs, wanted = torch.randn(44, 64), torch.randint(0, 10, (44,))

for line in sys.stdin:
    times_ns = []
    for _ in range(int(line)):
        began_ns = time.perf_counter_ns()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        times_ns.append(time.perf_counter_ns() - began_ns)
    print(statistics.median(times_ns), flush=True)
