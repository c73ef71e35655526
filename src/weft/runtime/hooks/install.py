"""Step boundaries from PyTorch's own hooks: at an update if the script trains, at a root forward if it infers.

It trains as soon as it makes an optimizer or runs backward. Forwards in a script that trains (teachers, target nets,
evaluation) are no boundaries.
"""

import atexit
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, Dict

from ..agent import Agent
from .call_site import is_by_name, note_lookups
from .forward import Forwards
from .optimizer import OwnOptimizers, Updates


def watch(torch: ModuleType, agent: Agent, on_import: Dict[str, Callable[[ModuleType], None]]) -> None:
    """Called once, after torch is imported. `on_import` maps further modules to what is done once they are imported."""
    try:
        agent.serve()
        _watch(torch, agent, on_import)
    except Exception as error:  # noqa: BLE001 -- whatever this torch does, the script has to run
        agent.give_up("torch %s cannot be watched for steps (%s)" % (getattr(torch, "__version__", "?"), error))


def _watch(torch: Any, agent: Agent, on_import: Dict[str, Callable[[ModuleType], None]]) -> None:
    updates, forwards = Updates(agent), Forwards(torch, agent)
    optimizer = import_module("torch.optim.optimizer")
    optimizer.register_optimizer_step_pre_hook(updates.before)
    optimizer.register_optimizer_step_post_hook(updates.after)
    _watch_scaler(torch.amp.GradScaler, updates)
    _watch_training(torch, updates, forwards, OwnOptimizers(updates, on_import))
    on_import["torch._dynamo.eval_frame"] = forwards.watch_compiled
    atexit.register(updates.end)
    atexit.register(forwards.end)


def _watch_training(torch: Any, updates: Updates, forwards: Forwards, own: OwnOptimizers) -> None:
    """A backward pass begins a phase; the first one, or the first optimizer made, shows that the script trains."""

    def on_backward(_tensor: Any) -> None:
        if is_by_name():
            if not forwards.is_over:
                forwards.stop()
            if not updates.phase:
                own.look()
            updates.phase += 1

    def on_optimizer(_optimizer: Any) -> None:
        if not forwards.is_over:
            forwards.stop()

    note_lookups(torch.Tensor, "backward", on_backward)
    note_lookups(torch.optim.Optimizer, "__init__", on_optimizer)


def _watch_scaler(scaler: Any, updates: Updates) -> None:
    note_lookups(scaler, "step", updates.scaler_steps)
    note_lookups(scaler, "update", updates.scaler_updates)
