"""PyTorch Geometric: graph classification with GCN layers over batches of graphs."""
# package: torch_geometric
# steps: 24

import torch
from fingerprint import finish, show
from torch import nn
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool
from torch_geometric.utils import erdos_renyi_graph

seed_everything(1)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = GCNConv(16, 64), GATConv(64, 64, heads=2), nn.Linear(128, 2)

    def forward(self, batch):
        x = self.first(batch.x, batch.edge_index).relu()
        return self.out(global_mean_pool(self.second(x, batch.edge_index), batch.batch))


def graph(label):
    size = int(torch.randint(10, 30, ()))
    return Data(torch.randn(size, 16) + label, erdos_renyi_graph(size, 0.2), y=torch.tensor([label]))


graphs = [graph(number % 2) for number in range(192)]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(2):
    model.train()
    for number, batch in enumerate(DataLoader(graphs[:96], batch_size=8, shuffle=True)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        show(number, loss=loss.detach())
    model.eval()
    with torch.no_grad():
        right = sum(int((model(batch).argmax(1) == batch.y).sum()) for batch in DataLoader(graphs[96:], batch_size=32))
    print("right", right, flush=True)
finish(model)
