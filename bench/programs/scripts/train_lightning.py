"""Lightning: a Trainer with validation, gradient clipping and accumulation over two batches."""
# package: lightning
# steps: 24

import lightning
import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning.seed_everything(1)
torch.set_num_threads(1)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 4))

    def training_step(self, batch, index):
        points, labels = batch
        loss = nn.functional.cross_entropy(self.model(points), labels)
        show(index, loss=loss.detach())
        return loss

    def validation_step(self, batch, index):
        points, labels = batch
        self.log("accuracy", (self.model(points).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


labels = torch.randint(0, 4, (384,))
data = TensorDataset(torch.randn(384, 32) + labels[:, None], labels)
model = Classifier()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
)
trainer.fit(model, DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64))
show(trainer.global_step, accuracy=trainer.callback_metrics["accuracy"])
finish(model)
