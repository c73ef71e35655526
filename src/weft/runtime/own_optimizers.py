"""Libraries whose optimizers are not PyTorch's: they run none of its hooks, so their own method is watched.

Such a method updates all weights once, as `torch.optim.Optimizer.step` does, and counts as that does.
"""

import functools
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Set, Tuple

from .updates import Updates

METHODS: Dict[str, Tuple[str, str]] = {
    "fastai.optimizer": ("Optimizer", "step"),
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),  # Keras 3 on PyTorch
}


class OwnOptimizers:
    """The classes of METHODS, each watched from when its library is loaded."""

    def __init__(self, updates: Updates, noticed: Dict[str, Callable[[ModuleType], None]]) -> None:
        self._updates = updates
        self._watched: Set[str] = set()
        for module in METHODS:
            noticed[module] = self._watch
        self.look()

    def look(self) -> None:
        """Watch what is loaded. A library that was the first to import torch was not noticed: it was loading then."""
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
