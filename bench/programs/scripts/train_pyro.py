"""Pyro: stochastic variational inference, with one torch optimizer for each parameter."""
# package: pyro-ppl
# steps: 24

import pyro
import torch
from fingerprint import show
from pyro import distributions as dist
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(1)
torch.set_num_threads(1)
inputs = torch.randn(256, 8)
wanted = inputs.sum(1) + 0.1 * torch.randn(256)


def model(inputs, wanted):
    weights = pyro.sample("weights", dist.Normal(torch.zeros(8), 1.0).to_event(1))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("rows", len(inputs)):
        pyro.sample("wanted", dist.Normal(inputs @ weights, scale), obs=wanted)


svi = SVI(model, AutoNormal(model), pyro.optim.ClippedAdam({"lr": 0.05}), Trace_ELBO())
for step in range(24):
    show(step, loss=svi.step(inputs, wanted))
for name, value in sorted(pyro.get_param_store().items()):
    show(name, value=value.detach())
