"""A trainer class as detection packages have it: gradients accumulated over more and more batches during warm-up, a
scaler, clipping, EMA, callbacks, validation after each epoch, and a last epoch with other data."""
# steps: 17

import copy
import math

import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
torch.set_num_threads(1)


class Ema:
    def __init__(self, model):
        self.model, self.updates = copy.deepcopy(model).eval(), 0

    def update(self, model):
        self.updates += 1
        decay = 0.99 * (1 - math.exp(-self.updates / 10))
        with torch.no_grad():
            for kept, fresh in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
                if kept.dtype.is_floating_point:
                    kept.mul_(decay).add_(fresh, alpha=1 - decay)


class Trainer:
    epochs, batch, nominal = 3, 8, 16  # samples; an update is made for `nominal` of them

    def __init__(self):
        self.model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 5, 1))
        decayed = [each for each in self.model.parameters() if each.ndim > 1]
        others = [each for each in self.model.parameters() if each.ndim <= 1]
        self.optimizer = torch.optim.SGD(others, lr=0.01, momentum=0.9, nesterov=True)
        self.optimizer.add_param_group({"params": decayed, "weight_decay": 5e-4})
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda epoch: 1 - epoch / self.epochs)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.ema, self.callbacks = Ema(self.model), {"on_train_batch_end": [self.log]}
        images, boxes = torch.randn(80, 1, 8, 8), torch.randn(80, 5, 8, 8)
        self.loader = DataLoader(TensorDataset(images, boxes), batch_size=self.batch, shuffle=True)

    def train(self):
        seen, last_update, warm_up = 0, -1, 8
        self.optimizer.zero_grad()
        for epoch in range(self.epochs):
            self.model.train()
            for index, (images, boxes) in enumerate(self.loader):
                batches = seen + 1
                accumulate = max(1, round(1 + (self.nominal / self.batch - 1) * min(1, seen / warm_up)))
                if epoch == self.epochs - 1:
                    images = images.flip(-1)  # other augmentation towards the end
                loss = nn.functional.mse_loss(self.model(images), boxes) + 0.1 * self.model[0].weight.abs().mean()
                self.scaler.scale(loss).backward()
                if seen - last_update >= accumulate:
                    self.update()
                    last_update = seen
                for callback in self.callbacks["on_train_batch_end"]:
                    callback(batches, epoch, index, loss)
                seen += 1
            self.scheduler.step()
            print("epoch", epoch, "loss", self.validate().hex(), flush=True)
        print("updates", self.ema.updates, flush=True)
        finish(self.model, self.ema.model, self.optimizer, self.scheduler)

    def update(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=10.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.ema.update(self.model)

    def validate(self):
        with torch.inference_mode():
            return sum(nn.functional.mse_loss(self.ema.model(images), boxes).item() for images, boxes in self.loader)

    def log(self, batches, epoch, index, loss):
        show(batches, epoch=epoch, index=index, loss=loss.detach())


Trainer().train()
