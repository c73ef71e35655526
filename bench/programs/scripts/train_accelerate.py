"""Accelerate: prepared model, optimizer, loader and scheduler; gradients accumulated over three batches of 35."""
# package: accelerate
# steps: 24

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(1)
torch.set_num_threads(1)

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
loader = DataLoader(TensorDataset(torch.randn(560, 32), torch.randn(560, 1)), batch_size=16, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for _ in range(2):
    for number, (inputs, wanted) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), wanted)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        show(number, loss=loss.detach())
accelerator.print("gathered", accelerator.gather(loss.detach()).shape)
finish(model)
