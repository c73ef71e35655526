"""GPyTorch: exact Gaussian process regression, full batches; prediction after it."""
# package: gpytorch
# steps: 24

import gpytorch
import torch
from fingerprint import finish, show

torch.manual_seed(1)
torch.set_num_threads(1)


class Process(gpytorch.models.ExactGP):
    def __init__(self, inputs, wanted, likelihood):
        super().__init__(inputs, wanted, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, inputs):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))


inputs = torch.linspace(0, 1, 200)
wanted = torch.sin(6 * inputs) + 0.1 * torch.randn(200)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(inputs, wanted, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for step in range(24):
    optimizer.zero_grad()
    loss = -likelihood_of(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    show(step, loss=loss.detach())
model.eval()
with torch.no_grad():
    show("mean", value=likelihood(model(torch.linspace(0, 1, 5))).mean)
finish(model)
