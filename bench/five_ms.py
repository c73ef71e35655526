"""A training loop with steps of about 5 ms on one core.

For each line it reads, "20" or "20 off", it takes so many steps and prints their median in ns; with "off", weft's hooks
are taken out for that long.
"""

import os
import statistics
import sys
import time
from contextlib import contextmanager

import torch
from torch import nn

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
torch.set_num_threads(1)
torch.manual_seed(0)
blocks = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())]
model = nn.Sequential(nn.Linear(64, 256), *blocks, nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
inputs, wanted = torch.randn(44, 64), torch.randint(0, 10, (44,))


@contextmanager
def hooks_off():
    module = sys.modules["torch.optim.optimizer"]
    hooks = (module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks)
    kept = [dict(each) for each in hooks]
    backward = torch.Tensor.backward
    for each in hooks:
        each.clear()
    torch.Tensor.backward = backward.__wrapped__
    yield
    torch.Tensor.backward = backward
    for each, those in zip(hooks, kept, strict=True):
        each.update(those)


def median_step_ns(steps):
    times_ns = []
    for _ in range(steps):
        began_ns = time.perf_counter_ns()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        times_ns.append(time.perf_counter_ns() - began_ns)
    return statistics.median(times_ns)


for line in sys.stdin:
    count, *mode = line.split()
    if mode == ["off"]:
        with hooks_off():
            took_ns = median_step_ns(int(count))
    else:
        took_ns = median_step_ns(int(count))
    print(took_ns, flush=True)
