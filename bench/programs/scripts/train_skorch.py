"""skorch: NeuralNetClassifier in a scikit-learn pipeline, with its own validation split."""
# package: skorch
# steps: 26

import numpy as np
import torch
from fingerprint import finish
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

torch.manual_seed(1)
np.random.seed(1)
torch.set_num_threads(1)

points, labels = make_classification(256, 32, random_state=1)
net = NeuralNetClassifier(
    nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 2), nn.Softmax(-1)),
    optimizer=torch.optim.Adam,
    max_epochs=2,
    batch_size=16,
    iterator_train__shuffle=True,
    verbose=0,
)
pipeline = make_pipeline(StandardScaler(), net).fit(points.astype(np.float32), labels)
for row in net.history:
    print(row["epoch"], row["train_loss"].hex(), row["valid_loss"].hex(), row["valid_acc"], flush=True)
print("score", pipeline.score(points.astype(np.float32), labels), flush=True)
finish(net.module_)
