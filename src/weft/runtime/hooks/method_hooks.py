"""Noticing calls of methods that no hook of PyTorch reports.

A wrapper's frame would stand between the script and what it calls: warnings name the wrapper's file, and so do
tracebacks and the callers that logging and inspect find. But a method is looked up before it is called: a descriptor
can note the lookup, return the method itself, and leave no frame.

Libraries with optimizers of their own run none of PyTorch's hooks, so their method that updates all weights once is
wrapped. It counts as `torch.optim.Optimizer.step` does.
"""

import functools
import opcode
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Set, Tuple

from .optimizer import Updates

BY_NAME = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
METHODS: Dict[str, Tuple[str, str]] = {
    "fastai.optimizer": ("Optimizer", "step"),
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),  # Keras 3 on PyTorch
}


class Looked:
    """In place of a class's function: calls `note(instance)` when an instance's method is looked up."""

    def __init__(self, function: Callable[..., Any], note: Callable[[Any], None]) -> None:
        self._function: Any = function
        self._note = note

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._function
        self._note(instance)
        return self._function.__get__(instance, owner)


def note_lookups(owner: Any, name: str, note: Callable[[Any], None]) -> None:
    setattr(owner, name, Looked(owner.__dict__[name], note))


def is_by_name() -> bool:
    """Is the method written out where it is looked up, as for a call? Not so if hasattr asks for it. For a `note`."""
    frame = sys._getframe(3)  # above us: the note, the descriptor, the script
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] in BY_NAME


class OwnOptimizers:
    """The classes of METHODS, each watched from when its library is loaded."""

    def __init__(self, updates: Updates, on_import: Dict[str, Callable[[ModuleType], None]]) -> None:
        self._updates = updates
        self._watched: Set[str] = set()
        for module in METHODS:
            on_import[module] = self._watch
        self.look()

    def look(self) -> None:
        """Watch what is loaded. A library that imported torch first was still loading when torch came."""
        for module in METHODS:
            loaded = sys.modules.get(module)
            if loaded is not None:
                self._watch(loaded)

    def _watch(self, module: Any) -> None:
        owner, method = METHODS[module.__name__]
        optimizers = getattr(module, owner, None)
        update = getattr(optimizers, method, None)
        if update is None or module.__name__ in self._watched:  # still loading, or another version than we know
            return
        self._watched.add(module.__name__)
        updates = self._updates

        @functools.wraps(update)
        def noted_update(self: Any, *args: Any, **kwargs: Any) -> Any:
            updates.before(self, args, kwargs)
            result = update(self, *args, **kwargs)
            updates.after(self, args, kwargs)
            return result

        setattr(optimizers, method, noted_update)
