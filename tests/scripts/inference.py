"""Pure inference, first under no_grad and then under inference_mode: no optimizer is ever made."""
# steps: 30
# One forward of the whole model is one step.

import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.convolution(x)))


model = nn.Sequential(
    *(nn.Conv2d(3, 16, 3, stride=2, padding=1), Residual(16), Residual(16)),
    *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 10)),
)
model.eval()
loader = DataLoader(TensorDataset(torch.randn(480, 3, 32, 32)), batch_size=32)

step = 0
outputs = []
for mode in (torch.no_grad, torch.inference_mode):
    with mode():
        for (images,) in loader:
            logits = model(images)
            outputs.append(logits)
            step += 1
            show(step, largest=logits.max(), sum=logits.sum())

finish(model, *outputs)
