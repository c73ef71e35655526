"""A small training job for the live benchmarks: so much computing and so much waiting for its data in each step.

python share_job.py STEPS WIDTH INPUT_MS [IMPORT_S]    INPUT_MS is what a slow disk or network takes for a batch,
IMPORT_S what importing takes on top of torch
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch

BATCH = 64


def model(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


def batches(count: int, width: int, wait_s: float) -> Iterator[torch.Tensor]:
    for _ in range(count):
        if wait_s:
            time.sleep(wait_s)
        yield torch.randn(BATCH, width)


def train(steps: int, width: int, input_s: float) -> None:
    net = model(width)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for batch in batches(steps, width, input_s):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    steps, width, input_ms, *import_s = sys.argv[1:]
    time.sleep(sum(map(float, import_s)))
    train(int(steps), int(width), float(input_ms) / 1000)
