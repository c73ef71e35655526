"""Two background threads: one prefetches batches with a generator of its own, one keeps statistics of the weights."""
# steps: 30

import queue
import threading

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(15)
torch.set_num_threads(1)

STEPS = 30
batches = queue.Queue(maxsize=4)
snapshots = queue.Queue(maxsize=4)
averages = []


def prefetch():
    generator = torch.Generator().manual_seed(16)
    for _ in range(STEPS):
        inputs = torch.randn(256, 24, generator=generator)
        noise = 0.1 * torch.randn(256, 1, generator=generator)
        batches.put((inputs, (inputs**2).mean(1, keepdim=True) + noise))
    batches.put(None)


def watch_weights():
    mean, count = None, 0
    while (snapshot := snapshots.get()) is not None:
        count += 1
        mean = snapshot if mean is None else mean + (snapshot - mean) / count
        averages.append((mean.mean().item(), mean.std().item()))


model = nn.Sequential(nn.Linear(24, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
threads = [threading.Thread(target=work, daemon=True) for work in (prefetch, watch_weights)]
for thread in threads:
    thread.start()

step = 0
while (batch := batches.get()) is not None:
    inputs, targets = batch
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    snapshots.put(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
    step += 1
    show(step, loss=loss)

snapshots.put(None)
for thread in threads:
    thread.join()
for step, (mean, deviation) in enumerate(averages, start=1):
    print("weights after", step, mean.hex(), deviation.hex())
finish(model, optimizer)
