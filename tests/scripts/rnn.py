"""An LSTM over sequences of different lengths (packed), clipped gradients, zero_grad at the loop's end."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

torch.manual_seed(2)
torch.set_num_threads(1)

VOCABULARY = 20


class Classifier(nn.Module):
    """Says which half of the vocabulary a sequence took most of its tokens from."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 48, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(48, 2)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(hidden[-1])


def make_batch(size=32):
    lengths = torch.randint(3, 21, (size,))
    sequences = [torch.randint(1, VOCABULARY, (length,)) for length in lengths.tolist()]
    labels = torch.stack([(sequence >= VOCABULARY // 2).float().mean().round().long() for sequence in sequences])
    return pad_sequence(sequences, batch_first=True), lengths, labels


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(1, 31):
    tokens, lengths, labels = make_batch()
    loss = nn.functional.cross_entropy(model(tokens, lengths), labels)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    optimizer.step()
    optimizer.zero_grad()
    show(step, longest=tokens.shape[1], loss=loss, norm=norm)

finish(model, optimizer)
