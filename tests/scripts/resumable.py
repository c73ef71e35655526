"""Says the little that makes a run resumable: weft.init and weft.steps. Everything else as in any script."""
# steps: 25
# argv: worker processes of the loader (0); checkpoint after every so many steps (0: never)

import random
import sys

import numpy as np
import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, Dataset

import weft

WORKERS, EVERY = (int(word) for word in [*sys.argv[1:3], "0", "0"][:2])
torch.set_num_threads(1)


class Noisy(Dataset):
    """Every source of randomness a data set can have: torch's, Python's and numpy's."""

    def __init__(self):
        made = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(70, 8, generator=made)
        self.wanted = self.inputs.sum(1, keepdim=True)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        noise = torch.rand(8) + random.random() + torch.from_numpy(np.random.rand(8)).float()
        return self.inputs[index] + noise * 0.1, self.wanted[index]


def main():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    loader = DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=WORKERS)
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    run = weft.init(model=model, optimizer=optimizer, scheduler=scheduler)
    step = run.step
    for epoch in range(run.epoch, 5):
        for inputs, wanted in weft.steps(loader):
            optimizer.zero_grad()
            loss = (model(inputs) - wanted).square().mean()
            loss.backward()
            optimizer.step()
            step += 1
            weft.report(loss=loss.detach(), epoch=epoch)
            show(step, loss=loss)
            if EVERY and step % EVERY == 0:
                weft.checkpoint()
        scheduler.step()
    finish(model, optimizer, scheduler)


if __name__ == "__main__":
    main()
