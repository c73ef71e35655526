"""A small transformer language model with dropout: AdamW, warm-up, each update accumulated over 3 micro-batches."""
# steps: 20

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(3)
torch.set_num_threads(1)

VOCABULARY, LENGTH, WIDTH = 32, 24, 48
ACCUMULATE = 3


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 96, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.positions
        return self.head(self.encoder(hidden, mask=self.mask, is_causal=True))


def make_batch(size=8):
    """Sequences that count up from a random start by a random stride."""
    start, stride = torch.randint(0, VOCABULARY, (size, 1)), torch.randint(1, 4, (size, 1))
    sequence = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
    return sequence[:, :-1], sequence[:, 1:]


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / 5))

total = 0.0
for i in range(20 * ACCUMULATE):
    inputs, targets = make_batch()
    loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / ACCUMULATE
    loss.backward()
    total += loss.item()
    if (i + 1) % ACCUMULATE == 0:
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        show((i + 1) // ACCUMULATE, loss=total, lr=scheduler.get_last_lr())
        total = 0.0

finish(model, optimizer, scheduler)
