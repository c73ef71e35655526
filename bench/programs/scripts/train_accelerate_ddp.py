"""Accelerate with two processes on the CPU, started by torchrun; rank 0 prints."""
# package: accelerate
# ranks: 2
# command: {bin}/torchrun --standalone --nproc-per-node 2 {script}
# steps: 24

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(1)
torch.set_num_threads(1)

accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
loader = DataLoader(TensorDataset(torch.randn(384, 32), torch.randn(384, 1)), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(2):
    for number, (inputs, wanted) in enumerate(loader):
        loss = nn.functional.mse_loss(model(inputs), wanted)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        mean = accelerator.gather(loss.detach()[None]).mean()
        if accelerator.is_main_process:
            show(number, loss=mean)
if accelerator.is_main_process:
    finish(accelerator.unwrap_model(model))
accelerator.end_training()
