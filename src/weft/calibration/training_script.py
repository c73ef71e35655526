"""A small training job to measure a device with: `python -m weft.calibration.training_script NAME CORE...`.

Each model loads a device in another way; a step takes some milliseconds on one core.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

LOADER_WAITS_S = 0.012
"""What the input-bound one waits for each batch, as if for a disk or for the network."""


def _mlp(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def _cnn(nn: Any) -> Any:
    convolutions = (nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU())
    return nn.Sequential(nn.Unflatten(1, (3, 32, 32)), *convolutions, nn.Flatten(), nn.Linear(24 * 15 * 15, 10))


def _attention(nn: Any) -> Any:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Unflatten(1, (24, 64)), encoder, nn.Flatten(), nn.Linear(24 * 64, 10))


MODELS = {
    "loader": (_mlp, 16, 256),
    "mlp": (_mlp, 96, 256),
    "cnn": (_cnn, 8, 3072),
    "attention": (_attention, 8, 1536),
}
"""How to make it, its batch size, and the numbers in one sample."""


def main(name: str, cores: set[int]) -> None:
    import torch

    import weft

    os.sched_setaffinity(0, cores)  # PyTorch's threads, which are still to come, inherit it
    torch.manual_seed(0)
    make, batch, width = MODELS[name]
    model = make(torch.nn)
    optimizer = torch.optim.Adam(model.parameters())
    weft.init(model=model, optimizer=optimizer)
    wanted = torch.randint(0, 10, (batch,))
    while True:
        with weft.step():
            if name == "loader":
                time.sleep(LOADER_WAITS_S)
            inputs = torch.randn(batch, width)
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(model(inputs), wanted)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1], {int(core) for core in sys.argv[2:]})
