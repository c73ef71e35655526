"""A VAE that draws randn in every forward (reparametrisation), with a foreach Adam."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(4)
torch.set_num_threads(1)


class VAE(nn.Module):
    def __init__(self, inputs=196, hidden=128, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, inputs))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(latent), mean, log_variance


# Pictures of 14 × 14 pixels with one soft blob each, at a random place.
centres = 14 * torch.rand(512, 2, 1, 1)
rows, columns = torch.meshgrid(torch.arange(14.0), torch.arange(14.0), indexing="ij")
pictures = torch.exp(-((rows - centres[:, 0]) ** 2 + (columns - centres[:, 1]) ** 2) / 8).flatten(1)

model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=True)

for step in range(1, 31):
    batch = pictures[torch.randint(0, len(pictures), (256,))]
    logits, mean, log_variance = model(batch)
    reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, batch, reduction="sum") / len(batch)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum() / len(batch)
    loss = reconstruction + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(step, reconstruction=reconstruction, divergence=divergence)

with torch.no_grad():
    samples = torch.sigmoid(model.decoder(torch.randn(4, 8)))
finish(model, optimizer, samples)
