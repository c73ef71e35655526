"""A CNN with BatchNorm: shuffled loader with a partial last batch, evaluation between epochs, zero_grad on top."""
# steps: 24

import torch
from fingerprint import finish, show
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1)
torch.set_num_threads(1)


class Shapes(Dataset):
    """Noisy images; the class says in which quadrant the bright square is."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (size,), generator=generator)
        self.images = torch.randn(size, 3, 16, 16, generator=generator)
        for image, label in zip(self.images, self.labels.tolist(), strict=True):
            row, column = 8 * (label // 2), 8 * (label % 2)
            image[:, row + 2 : row + 6, column + 2 : column + 6] += 0.4

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        correct = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    model.train()
    return correct / len(loader.dataset)


model = nn.Sequential(
    *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Flatten(), nn.Linear(32 * 4 * 4, 4)),
)
train_loader = DataLoader(Shapes(232, seed=2), batch_size=32, shuffle=True)
test_loader = DataLoader(Shapes(64, seed=3), batch_size=32)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

step = 0
for epoch in range(3):
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        step += 1
        show(step, batch=len(labels), loss=loss)
    scheduler.step()
    print("epoch", epoch, "accuracy", evaluate(model, test_loader), flush=True)

finish(model, optimizer, scheduler)
