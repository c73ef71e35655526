"""A WGAN: each iteration updates the critic three times with clipped weights, then the generator once."""
# steps: 30
# N is the number of critic updates (10 iterations of 3), for that is how weft counts.

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(18)
torch.set_num_threads(1)

LATENT, BATCH, CRITIC_UPDATES = 8, 256, 3

generator = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)


def sample_clusters():
    corners = 2.0 * torch.randint(0, 2, (BATCH, 2)) - 1
    return corners + 0.1 * torch.randn(BATCH, 2)


for iteration in range(1, 11):
    for _ in range(CRITIC_UPDATES):
        critic_optimizer.zero_grad()
        with torch.no_grad():
            fake = generator(torch.randn(BATCH, LATENT))
        critic_loss = critic(fake).mean() - critic(sample_clusters()).mean()
        critic_loss.backward()
        critic_optimizer.step()
        for parameter in critic.parameters():
            parameter.data.clamp_(-0.1, 0.1)

    generator_optimizer.zero_grad()
    generator_loss = -critic(generator(torch.randn(BATCH, LATENT))).mean()
    generator_loss.backward()
    generator_optimizer.step()
    show(iteration * CRITIC_UPDATES, critic=critic_loss, generator=generator_loss)

finish(generator, critic, generator_optimizer, critic_optimizer)
