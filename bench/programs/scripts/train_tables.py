"""datasets, pandas, pyarrow and scikit-learn loaded beside a plain loop that gets its batches from them."""
# package: datasets, pandas, pyarrow, scikit-learn
# steps: 24

import numpy as np
import pandas
import torch
from datasets import Dataset
from fingerprint import finish, show
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(1)
torch.set_num_threads(1)

chance = np.random.default_rng(1)
frame = pandas.DataFrame(
    StandardScaler().fit_transform(chance.normal(size=(384, 32))), columns=list(map(str, range(32)))
)
frame["wanted"] = frame.sum(axis=1)
table = Dataset.from_pandas(frame).map(lambda row: {"wanted": row["wanted"] / 5}).with_format("torch")
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for number, batch in enumerate(DataLoader(table, batch_size=16, shuffle=True)):
    inputs = torch.stack([batch[str(column)] for column in range(32)], 1).float()
    optimizer.zero_grad()
    said = model(inputs)
    loss = nn.functional.mse_loss(said[:, 0], batch["wanted"].float())
    loss.backward()
    optimizer.step()
    show(number, loss=loss.detach(), r2=float(r2_score(batch["wanted"], said.detach()[:, 0])))
finish(model)
