"""A training job to be measured under a limit: limit_job.py MODEL STEPS, where MODEL is cnn or mlp.

Prints a line of JSON: what a step takes after the first eight, and what the native library says of its memory.
The cnn is mostly activations (T), the mlp with Adam mostly parameters and what belongs to them (P).
"""

import json
import resource
import sys
import time

import torch
from torch import nn

WARM_UP = 8  # by then the library knows which tensors last


def cnn() -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    return model, torch.randn(32, 3, 32, 32)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(256, 1024)


def spent() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_ms": 1e3 * time.perf_counter(),
        "cpu_ms": 1e3 * (used.ru_utime + used.ru_stime),
        "system_ms": 1e3 * used.ru_stime,
        "faults": used.ru_minflt + used.ru_majflt,
        "written_mb": used.ru_oublock * 512 / 1e6,  # dirtied in files, whether or not it reached the disk
    }


def main(name: str, steps: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs = {"cnn": cnn, "mlp": mlp}[name]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    before: dict[str, float] = {}
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            before = spent()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    seen = {what: (number - before[what]) / steps for what, number in spent().items()}
    seen["sum"] = sum(parameter.double().sum().item() for parameter in model.parameters())
    if "weft_runtime" in sys.modules:
        from weft_runtime.allocator import preloaded

        native = preloaded()
        if native is not None:
            state = native.look()
            seen |= {"needs_bytes": state.persistent + state.ephemeral}
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
