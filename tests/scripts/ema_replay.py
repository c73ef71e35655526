"""A small DQN: replay buffer, target network under no_grad, averaged weights, and three sources of randomness."""
# steps: 40

import random
from collections import deque

import numpy as np
import torch
from fingerprint import finish, show
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

random.seed(6)
np.random.seed(6)
torch.manual_seed(6)
torch.set_num_threads(1)


class Corridor:
    """Walk a noisy line: three actions, the reward is for being near the middle."""

    def __init__(self):
        self.state = np.random.uniform(-1, 1, size=4)

    def act(self, action):
        before = torch.tensor(self.state, dtype=torch.float32)
        self.state = 0.9 * self.state + 0.2 * (action - 1) + np.random.normal(0, 0.05, size=4)
        reward = 1.0 - float(np.abs(self.state).mean())
        after = torch.tensor(self.state, dtype=torch.float32)
        return before, torch.tensor(action), torch.tensor(reward), after


q_network = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
target_network = AveragedModel(q_network, multi_avg_fn=get_ema_multi_avg_fn(0.95))
optimizer = torch.optim.RMSprop(q_network.parameters(), lr=1e-3)

environment = Corridor()
replay = deque(maxlen=300)
while len(replay) < 200:
    replay.append(environment.act(random.randrange(3)))

for step in range(1, 41):
    for _ in range(4):
        action = random.randrange(3)
        if random.random() > 0.3:
            with torch.no_grad():
                action = q_network(torch.tensor(environment.state, dtype=torch.float32)).argmax().item()
        replay.append(environment.act(action))

    before, actions, rewards, after = map(torch.stack, zip(*random.sample(replay, 64), strict=True))
    with torch.no_grad():
        target = rewards + 0.9 * target_network(after).max(1).values
    value = q_network(before).gather(1, actions[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target_network.update_parameters(q_network)
    show(step, loss=loss, reward=rewards.mean())

finish(q_network, target_network, optimizer, *(tensor for transition in replay for tensor in transition))
