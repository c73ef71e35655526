"""TD3: an agent whose update() steps the critic, and the actor every third time; ten updates without it come first."""
# steps: 40

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(29)
torch.set_num_threads(1)

STATE, ACTION, BATCH, DELAY, WARM_UP = 8, 2, 128, 3, 10


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, outputs))


class Agent:
    def __init__(self):
        self.actor, self.critic = network(STATE, ACTION), network(STATE + ACTION, 2)
        self.target = network(STATE + ACTION, 2)
        self.target.load_state_dict(self.critic.state_dict())
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.actor_optimizer = None
        self.updates = 0

    def update(self):
        self.updates += 1
        states, actions = torch.randn(BATCH, STATE), torch.rand(BATCH, ACTION) * 2 - 1
        loss = self.update_critic(states, actions)
        if self.updates > WARM_UP and self.updates % DELAY == 0:
            self.update_actor(states)
        return loss

    def update_critic(self, states, actions):
        with torch.no_grad():
            following = torch.randn(BATCH, STATE)
            smoothed = (torch.tanh(self.actor(following)) + 0.1 * torch.randn(BATCH, ACTION)).clamp(-1, 1)
            worth = self.target(torch.cat([following, smoothed], 1)).min(1, keepdim=True).values
            wanted = -states[:, :1].abs() + 0.99 * worth
        loss = nn.functional.mse_loss(self.critic(torch.cat([states, actions], 1)), wanted.expand(-1, 2))
        self._apply(self.critic_optimizer, loss)
        return loss

    def update_actor(self, states):
        if self.actor_optimizer is None:
            self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        loss = -self.critic(torch.cat([states, torch.tanh(self.actor(states))], 1))[:, 0].mean()
        self._apply(self.actor_optimizer, loss)
        with torch.no_grad():
            for target, own in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(own, 0.01)

    @staticmethod
    def _apply(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


agent = Agent()
for step in range(1, 41):
    show(step, loss=agent.update())

finish(agent.actor, agent.critic, agent.target, agent.critic_optimizer, agent.actor_optimizer)
