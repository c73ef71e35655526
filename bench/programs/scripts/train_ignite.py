"""ignite: a supervised trainer with an evaluator, a metric and handlers."""
# package: pytorch-ignite
# steps: 24

import torch
from fingerprint import finish, show
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy
from ignite.utils import manual_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

manual_seed(1)
torch.set_num_threads(1)

labels = torch.randint(0, 4, (192,))
data = TensorDataset(torch.randn(192, 32) + labels[:, None], labels)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss())
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy()})


@trainer.on(Events.ITERATION_COMPLETED)
def say(engine):
    show(engine.state.iteration, loss=engine.state.output)


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(DataLoader(data, batch_size=64))
    show(engine.state.epoch, accuracy=evaluator.state.metrics["accuracy"])


trainer.run(DataLoader(data, batch_size=16, shuffle=True), max_epochs=2)
finish(model)
