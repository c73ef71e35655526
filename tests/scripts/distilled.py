"""Distillation: a teacher under no_grad, and a Lookahead optimizer whose step() calls a fused Adam's step()."""
# steps: 30

import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(12)
torch.set_num_threads(1)


class Lookahead(torch.optim.Optimizer):
    """Every few steps of the inner optimizer, go half of the way that it went."""

    def __init__(self, inner, every=5, alpha=0.5):
        super().__init__(inner.param_groups, {})
        self.inner, self.every, self.alpha, self.count = inner, every, alpha, 0
        for parameter in self.parameters():
            self.state[parameter]["slow"] = parameter.detach().clone()

    def parameters(self):
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.inner.step(closure)
        self.count += 1
        if self.count % self.every == 0:
            for parameter in self.parameters():
                slow = self.state[parameter]["slow"]
                slow.lerp_(parameter, self.alpha)
                parameter.copy_(slow)
        return loss


teacher = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 5)).eval()
student = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 5))
optimizer = Lookahead(torch.optim.Adam(student.parameters(), lr=3e-3, fused=True))

for step in range(1, 31):
    inputs = torch.randn(256, 20)
    with torch.no_grad():
        targets = (5 * teacher(inputs)).softmax(1)
    optimizer.zero_grad()
    loss = nn.functional.kl_div(student(inputs).log_softmax(1), targets, reduction="batchmean")
    loss.backward()
    optimizer.step()
    show(step, loss=loss)

finish(teacher, student, optimizer, optimizer.inner)
