"""Opacus: differentially private SGD, large batches cut into small ones whose optimizer steps are skipped."""
# package: opacus
# steps: 24

import torch
from fingerprint import finish, show
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_num_threads(1)

labels = torch.randint(0, 4, (384,))
loader = DataLoader(TensorDataset(torch.randn(384, 32) + labels[:, None], labels), batch_size=32)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    noise_multiplier=1.0,
    max_grad_norm=1.0,
    noise_generator=torch.Generator().manual_seed(1),
)
loader.batch_sampler.generator = torch.Generator().manual_seed(2)
for _ in range(2):
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=16, optimizer=optimizer) as small:
        for number, (points, wanted) in enumerate(small):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), wanted)
            loss.backward()
            optimizer.step()
            show(number, loss=loss.detach())
finish(model)
