"""A notebook of three cells of which two train; the third one prints the hash. Written to the file that is named."""

import sys

import nbformat

CELLS = [
    """
rows = 32
""",
    """
import torch
from fingerprint import finish, show
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters())


def train(steps):
    for step in range(steps):
        inputs = torch.randn(rows, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show(step, loss=loss.detach())


train(12)
""",
    """
model.eval()
with torch.no_grad():
    show("evaluated", value=model(torch.ones(1, 32)))
model.train()
train(12)
finish(model)
""",
]


def notebook():
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    made.cells[0].metadata["tags"] = ["parameters"]
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def printed(run):
    """What the cells printed, in order."""
    return "".join(
        output["text"]
        for cell in run.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
    )


if __name__ == "__main__":
    nbformat.write(notebook(), sys.argv[1])
