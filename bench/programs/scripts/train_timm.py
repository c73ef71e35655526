"""timm: a small network of its own with its optimizer, scheduler, label smoothing and EMA; as its train.py does it."""
# package: timm
# needs: torchvision
# steps: 16

import without_torchvision_ops  # noqa: F401 -- before what imports torchvision

# isort: split
import timm
import torch
from fingerprint import finish, show
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

torch.manual_seed(1)
torch.set_num_threads(1)

model = timm.create_model("test_resnet", num_classes=4)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-2, weight_decay=0.01)
scheduler = CosineLRScheduler(optimizer, t_initial=16, t_in_epochs=False)
average = ModelEmaV3(model, decay=0.9)
criterion = LabelSmoothingCrossEntropy()
for step in range(16):
    labels = torch.randint(0, 4, (8,))
    loss = criterion(model(torch.randn(8, 3, 96, 96) + labels[:, None, None, None]), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model, step=step)
    scheduler.step_update(step)
    show(step, loss=loss.detach())
finish(model, average)
