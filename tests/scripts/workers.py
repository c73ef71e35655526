"""A DataLoader with two worker processes that draw random numbers of their own: workers.py [fork|spawn]."""
# steps: 24

import sys

import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Points on two arms of a spiral, jittered anew every time they are read."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        angle = 3 * torch.rand(()) + 0.5  # the worker's generator, which the loader seeded
        arm = index % 2
        point = angle * torch.stack([(angle + arm * torch.pi).cos(), (angle + arm * torch.pi).sin()])
        return point + 0.1 * torch.randn(2), arm


def main():
    torch.manual_seed(14)
    torch.set_num_threads(1)
    start_method = sys.argv[1] if len(sys.argv) > 1 else "fork"
    loader = DataLoader(
        Noisy(380),
        batch_size=32,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=start_method,
        persistent_workers=start_method == "spawn",  # a spawned worker has to import torch: do that once
    )
    model = nn.Sequential(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    step = 0
    for _ in range(2):
        for points, arms in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), arms)
            loss.backward()
            optimizer.step()
            step += 1
            show(step, points=points.sum(), loss=loss)

    finish(model, optimizer)


if __name__ == "__main__":
    main()
