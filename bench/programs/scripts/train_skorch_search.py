"""skorch in scikit-learn's grid search: two joblib workers, each training several small networks after another."""
# package: skorch
# steps: any

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.layers = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 2), nn.Softmax(-1))

    def forward(self, points):
        return self.layers(points)


if __name__ == "__main__":
    points, labels = make_classification(256, 32, random_state=1)
    net = NeuralNetClassifier(Net, max_epochs=2, batch_size=16, train_split=None, verbose=0)
    search = GridSearchCV(net, {"lr": [0.01, 0.1, 1.0]}, cv=3, n_jobs=2, refit=False, scoring="accuracy")
    search.fit(points.astype(np.float32), labels)
    print(*(score.hex() for score in search.cv_results_["mean_test_score"].tolist()), flush=True)
