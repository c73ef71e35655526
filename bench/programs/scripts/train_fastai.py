"""fastai: a Learner with its own Adam, one cycle, validation, mixup and a tracker."""
# package: fastai
# steps: 24

import torch
from fastai.basics import DataLoader, DataLoaders, Learner, accuracy, set_seed
from fastai.callback.all import MixUp, SaveModelCallback  # noqa: F401 -- loaded as fastai.vision.all does
from fastai.callback.schedule import fit_one_cycle  # noqa: F401 -- adds the method to Learner
from fastai.losses import CrossEntropyLossFlat
from fingerprint import finish
from torch import nn
from torch.utils.data import TensorDataset

set_seed(1, reproducible=True)
torch.set_num_threads(1)

labels = torch.randint(0, 4, (256,))
points = torch.randn(256, 32) + labels[:, None]
train, valid = TensorDataset(points[:192], labels[:192]), TensorDataset(points[192:], labels[192:])
loaders = DataLoaders(
    DataLoader(train, bs=16, shuffle=True, num_workers=0), DataLoader(valid, bs=32, num_workers=0), device="cpu"
)
model = nn.Sequential(nn.Linear(32, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 4))
learner = Learner(loaders, model, loss_func=CrossEntropyLossFlat(), metrics=accuracy, cbs=[MixUp(0.4)])
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(2, 1e-2)
for row in learner.recorder.values:
    print(*(value.hex() for value in row), flush=True)
finish(model)
