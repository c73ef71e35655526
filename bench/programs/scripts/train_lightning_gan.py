"""Lightning with manual optimization: a GAN whose two optimizers are toggled in each batch."""
# package: lightning
# steps: 24

import lightning
import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning.seed_everything(1)
torch.set_num_threads(1)


class Gan(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 32))
        self.discriminator = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))

    def training_step(self, batch, index):
        (real,) = batch
        fake = self.generator(torch.randn(len(real), 16))
        losses = []
        for optimizer, loss in zip(self.optimizers(), (self.fooling, self.telling), strict=True):
            self.toggle_optimizer(optimizer)
            losses.append(loss(real, fake))
            optimizer.zero_grad()
            self.manual_backward(losses[-1])
            optimizer.step()
            self.untoggle_optimizer(optimizer)
        show(index, losses=[loss.item() for loss in losses])

    def fooling(self, _real, fake):
        return nn.functional.softplus(-self.discriminator(fake)).mean()

    def telling(self, real, fake):
        told = nn.functional.softplus(self.discriminator(fake.detach())).mean()
        return told + nn.functional.softplus(-self.discriminator(real)).mean()

    def configure_optimizers(self):
        return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.generator, self.discriminator)]


model = Gan()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(model, DataLoader(TensorDataset(torch.randn(192, 32)), batch_size=16, shuffle=True))
finish(model)
