"""Encoder and decoder have an optimizer each: both after one backward, but the encoder's only every second time."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(11)
torch.set_num_threads(1)

encoder = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 8))
decoder = nn.Sequential(nn.Linear(8, 128), nn.Tanh(), nn.Linear(128, 64))
encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9, nesterov=True)
decoder_optimizer = torch.optim.AdamW(decoder.parameters(), lr=2e-3)
mixing = torch.randn(8, 64)

for step in range(1, 31):
    batch = torch.randn(256, 8) @ mixing
    code = encoder(batch + 0.1 * torch.randn_like(batch))
    loss = nn.functional.mse_loss(decoder(code), batch)
    loss.backward()
    decoder_optimizer.step()
    decoder_optimizer.zero_grad()
    if step % 2 == 0:  # the encoder's gradients are those of two batches
        encoder_optimizer.step()
        encoder_optimizer.zero_grad()
    show(step, loss=loss)

finish(encoder, decoder, encoder_optimizer, decoder_optimizer)
