"""A training job for measurements beside another one: opportunistic_job.py CORE WIDTH WAIT_MS [BURST_STEPS...].

A small CNN on one core; before each step it waits for its input for WAIT_MS. In a step of BURST_STEPS, and each as many
steps after them, it needs four times the memory. Runs until its standard input ends.
"""

import os
import select
import sys
import time

import torch
from torch import nn

core, width, wait_ms = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
bursts = {int(each) for each in sys.argv[4:]}
os.sched_setaffinity(0, {core})
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(width, 2 * width, 3, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(2 * width * 15 * 15, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(model.parameters())
inputs, wanted = torch.randn(48, 3, 32, 32), torch.randint(0, 10, (48,))
step = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    time.sleep(wait_ms / 1e3)
    optimizer.zero_grad()
    times = 4 if step in bursts else 1
    batch, labels = inputs.repeat(times, 1, 1, 1), wanted.repeat(times)
    nn.functional.cross_entropy(model(batch), labels).backward()
    optimizer.step()
    step += 1
