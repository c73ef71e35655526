"""A small training job for the live benchmarks: so much computing and so much waiting for its data in each step.

python share_job.py train STEPS WIDTH INPUT_MS    INPUT_MS is what a slow disk or network takes for a batch
python share_job.py serve REQUESTS WIDTH          answers requests; prints how long each took, in ms
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import torch

BATCH = 64
PAUSE_S = 0.2
"""Between two requests."""


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


def serve(requests: int, width: int) -> None:
    net, took_ms = model(width).eval(), []
    with torch.inference_mode():
        for batch in batches(requests, width, PAUSE_S):
            begun_s = time.perf_counter()
            net(batch).sum().item()
            took_ms.append(1000 * (time.perf_counter() - begun_s))
    print(json.dumps(took_ms[len(took_ms) // 5 :]))


if __name__ == "__main__":
    kind, count, width, *rest = sys.argv[1:]
    if kind == "serve":
        serve(int(count), int(width))
    else:
        train(int(count), int(width), float(rest[0]) / 1000)
