"""Pretraining as an autoencoder with one optimizer, then fine-tuning of a classifier with a new one."""
# steps: 24

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(19)
torch.set_num_threads(1)

centres = torch.randn(5, 40)


def make_batch(size=512):
    labels = torch.randint(0, 5, (size,))
    return centres[labels] + torch.randn(size, 40), labels


encoder = nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 16))
decoder = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 40))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
for step in range(1, 13):
    points, _ = make_batch()
    loss = nn.functional.mse_loss(decoder(encoder(points)), points)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(step, reconstruction=loss)

finish(encoder, decoder, optimizer)
del optimizer, decoder

head = nn.Linear(16, 5)
optimizer = torch.optim.SGD(
    [{"params": encoder.parameters(), "lr": 0.005}, {"params": head.parameters()}], lr=0.05, momentum=0.9
)
for step in range(13, 25):
    points, labels = make_batch()
    loss = nn.functional.cross_entropy(head(encoder(points)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(step, classification=loss)

finish(encoder, head, optimizer)
