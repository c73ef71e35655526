"""What a script sees of its own stack is what it would see without weft: file, line and function of every frame.

Warnings, logging, inspect, profilers and tracebacks all go by that. So one comparison stands for all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from underweft import bare, environment, under_weft

PLACES = """
import logging, sys, traceback, warnings
import torch
from torch import nn


def where(place):
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_stack()[:-1]]
    print(place, *frames, sep="\\n    ", flush=True)


warnings.showwarning = lambda text, kind, file, line, *_: print("warned", text, file, line, flush=True)
warnings.simplefilter("always")
logging.basicConfig(stream=sys.stdout, format="%(message)s %(pathname)s %(lineno)d %(funcName)s")


def told(place):
    where(place)
    for level in range(1, 12):
        warnings.warn(f"{place} {level}", stacklevel=level)
    logging.warning(place)


class Watching(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        told("forward")
        return x * 1

    @staticmethod
    def backward(context, gradient):
        told("backward")
        return gradient


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x):
        told("module")
        return Watching.apply(self.inner(x))


class Descent(torch.optim.SGD):
    def step(self, closure=None):
        told("step")
        return super().step(closure)


def parameters(model):
    told("parameters")
    yield from model.parameters()


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        told("item")
        return torch.ones(3)


def failing(gradient):
    raise ValueError("from a hook")


model = Model()
optimizer = Descent(parameters(model), lr=0.1)
twice = list(model.parameters())
torch.optim.SGD([twice[0], twice[0]], lr=0.1)  # which warns that a parameter comes twice
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
schedule.step()  # which warns that the optimizer was not stepped before
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
for batch in torch.utils.data.DataLoader(Numbers()):
    optimizer.zero_grad()
    loss = scaler.scale(model(batch).sum())
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    schedule.step()

weights = torch.ones(2, requires_grad=True)
(weights * 2).sum().backward(create_graph=True)  # which warns of a cycle of references
weights.register_hook(failing)
for call in (lambda: (weights * 2).sum().backward(), lambda: optimizer.step(1, 2, 3), lambda: scaler.step(3)):
    try:
        call()
    except Exception:
        print(traceback.format_exc(), flush=True)
"""


def test_a_training_script_sees_its_own_frames_alone(tmp_path: Path) -> None:
    script = tmp_path / "places.py"
    script.write_text(PLACES)
    with under_weft(sys.executable, str(script)) as running:
        out, err, code = running.end()
        assert (code, out) == (0, bare(script)), err
        assert running.task.status().step == 3
    assert out.count("backward\n") >= 3
    assert "reference cycle" in out
    assert str(Path(weft.__file__).parent) not in out


def test_so_does_what_runs_when_torch_is_imported(tmp_path: Path) -> None:
    """A package of that name which warns as it is loaded, and one that cannot be loaded at all."""
    (tmp_path / "torch").mkdir()
    loaded = "import traceback, warnings\nwarnings.warn('loaded', stacklevel=2)\ntraceback.print_stack()\n"
    (tmp_path / "torch" / "__init__.py").write_text(loaded + "import missing_module\n")
    script = tmp_path / "importing.py"
    script.write_text("import traceback\ntry:\n    import torch\nexcept ImportError:\n    traceback.print_exc()\n")
    alone = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment(), check=True)
    with under_weft(sys.executable, str(script)) as running:
        out, err, code = running.end()
    assert (code, out, err) == (0, alone.stdout, alone.stderr)
    assert "importing.py:3: UserWarning: loaded" in err


@pytest.mark.parametrize("name", ["backward", "__init__"])
def test_a_class_hands_out_its_own_functions(name: str, tmp_path: Path) -> None:
    owner = "torch.Tensor" if name == "backward" else "torch.optim.Optimizer"
    script = tmp_path / "owner.py"
    script.write_text(f"import torch\nprint(torch.utils, {owner}.{name}.__code__.co_filename)\n")
    with under_weft(sys.executable, str(script)) as running:
        out, err, code = running.end()
    assert (code, out) == (0, bare(script)), err


def test_looking_at_a_tensor_is_no_training(tmp_path: Path) -> None:
    script = tmp_path / "looking.py"
    script.write_text(
        "import torch\nmodel = torch.nn.Linear(2, 1)\nwith torch.no_grad():\n    for _ in range(10):\n"
        "        y = model(torch.ones(2))\n        assert hasattr(y, 'backward') and getattr(y, 'backward')\n"
    )
    with under_weft(sys.executable, str(script)) as running:
        _, err, code = running.end()
        assert code == 0, err
        assert running.task.status().step == 10
