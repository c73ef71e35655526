"""Optuna: six trials in one process, each with its own model and optimizer, some pruned early."""
# package: optuna
# steps: 34

import optuna
import torch
from fingerprint import show
from torch import nn

torch.set_num_threads(1)
optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    torch.manual_seed(trial.number)
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))
    kind = getattr(torch.optim, trial.suggest_categorical("kind", ["Adam", "SGD"]))
    optimizer = kind(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 1e-1, log=True))
    for step in range(8):
        inputs = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trial.report(loss.item(), step)
        show(step, trial=trial.number, loss=loss.detach())
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss.item()


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1), pruner=optuna.pruners.MedianPruner(2))
study.optimize(objective, 6)
show("best", value=study.best_value)
