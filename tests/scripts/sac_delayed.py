"""Soft actor-critic with a delayed policy: critics each time; every second time, actor and temperature twice each."""
# steps: 40

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(23)
torch.set_num_threads(1)

STATE, ACTION, BATCH, POLICY_FREQUENCY = 8, 2, 128, 2


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


actor = network(STATE, 2 * ACTION)
critics = nn.ModuleList(network(STATE + ACTION, 1) for _ in range(2))
targets = nn.ModuleList(network(STATE + ACTION, 1) for _ in range(2))
targets.load_state_dict(critics.state_dict())
log_alpha = torch.zeros(1, requires_grad=True)
q_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-3)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)


def act(states):
    mean, log_std = actor(states).chunk(2, dim=1)
    noise = torch.randn_like(mean)
    log_std = log_std.clamp(-5, 2)
    action = torch.tanh(mean + noise * log_std.exp())
    log_probability = (-0.5 * noise**2 - log_std - torch.log(1 - action**2 + 1e-6)).sum(1, keepdim=True)
    return action, log_probability


def lowest(networks, states, actions):
    both = torch.cat([states, actions], dim=1)
    return torch.minimum(networks[0](both), networks[1](both))


for step in range(1, 41):
    states, actions = torch.randn(BATCH, STATE), torch.rand(BATCH, ACTION) * 2 - 1
    rewards, following = -states[:, :1].abs(), torch.randn(BATCH, STATE)
    with torch.no_grad():
        next_actions, entropy = act(following)
        wanted = rewards + 0.99 * (lowest(targets, following, next_actions) - log_alpha.exp() * entropy)
    both = torch.cat([states, actions], dim=1)
    q_loss = sum(nn.functional.mse_loss(critic(both), wanted) for critic in critics)
    q_optimizer.zero_grad()
    q_loss.backward()
    q_optimizer.step()

    if step % POLICY_FREQUENCY == 0:
        for _ in range(POLICY_FREQUENCY):  # as many updates as it was delayed for
            chosen, entropy = act(states)
            actor_loss = (log_alpha.exp().detach() * entropy - lowest(critics, states, chosen)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()

            alpha_loss = (-log_alpha.exp() * (entropy.detach() - ACTION)).mean()
            alpha_optimizer.zero_grad()
            alpha_loss.backward()
            alpha_optimizer.step()
    with torch.no_grad():
        for target, critic in zip(targets.parameters(), critics.parameters(), strict=True):
            target.lerp_(critic, 0.005)
    show(step, q=q_loss, alpha=log_alpha)

finish(actor, critics, targets, q_optimizer, actor_optimizer, alpha_optimizer)
