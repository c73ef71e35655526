"""A GAN: discriminator and generator take turns in one iteration, and the discriminator gets two backward calls."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(5)
torch.set_num_threads(1)

LATENT, BATCH = 16, 128

generator = nn.Sequential(nn.Linear(LATENT, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2))
discriminator = nn.Sequential(
    nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
)
criterion = nn.BCEWithLogitsLoss()
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)


def sample_ring():
    angle = 2 * torch.pi * torch.rand(BATCH)
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(BATCH, 2)


for step in range(1, 31):
    # Discriminator: real samples are 1, fake ones 0.
    discriminator.zero_grad()
    loss_real = criterion(discriminator(sample_ring()), ones)
    loss_real.backward()
    fake = generator(torch.randn(BATCH, LATENT))
    loss_fake = criterion(discriminator(fake.detach()), zeros)
    loss_fake.backward()
    optimizer_d.step()

    # Generator: make the discriminator say 1.
    generator.zero_grad()
    loss_g = criterion(discriminator(fake), ones)
    loss_g.backward()
    optimizer_g.step()

    show(step, real=loss_real, fake=loss_fake, generator=loss_g)

finish(generator, discriminator, optimizer_g, optimizer_d)
