"""Stable-Baselines3: one algorithm on Pendulum or CartPole, named by the word."""
# package: stable_baselines3
# runs: ppo 24, sac 30, td3 30, dqn 30

import sys

import torch
from fingerprint import finish
from stable_baselines3 import DQN, PPO, SAC, TD3

torch.set_num_threads(1)
name = sys.argv[1]
off_policy = {"learning_starts": 60, "batch_size": 64, "policy_kwargs": {"net_arch": [64, 64]}, "seed": 1}
if name == "ppo":
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=4, seed=1, device="cpu")
    model.learn(192)
elif name == "sac":
    model = SAC("MlpPolicy", "Pendulum-v1", device="cpu", **off_policy)
    model.learn(90)
elif name == "td3":
    model = TD3("MlpPolicy", "Pendulum-v1", device="cpu", policy_delay=2, **off_policy)
    model.learn(90)
elif name == "dqn":
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", train_freq=1, **off_policy)
    model.learn(90)
print(name, "updates", model._n_updates, flush=True)
finish(model.policy)
