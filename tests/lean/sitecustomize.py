"""PyTorch's compiler, loaded only where it is used. This folder is on the PYTHONPATH of all that tests start.

The first optimizer of a process loads torch._dynamo, to mark some of its methods as not to be compiled, and that takes
as long as torch itself. Here the marks are left out until somebody wants more of it: whoever compiles has the whole.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

NAME = "torch._dynamo"
ASKED = {
    "utils": SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer"),
    "trace_rules": SimpleNamespace(clear_lru_cache=lambda: None),
}
"""What DistributedDataParallel and its process group ask of it though nobody compiles, and what it would answer."""


class Lean(ModuleType):
    def disable(self, function=None, *_, **__):
        return function if function else self.disable

    def graph_break(self, *_):
        pass

    def __getattr__(self, name):
        """Whatever else is wanted of it is in the whole one, which takes its place; a submodule, say, by its path."""
        if NAME not in sys.modules or (name.startswith("__") and name != "__path__"):
            raise AttributeError(name)  # it is being made, or looked at
        if name in ASKED and finder in sys.meta_path:
            return ASKED[name]
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
            del sys.modules[NAME]
        return getattr(importlib.import_module(NAME), name)


class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == NAME else None

    def create_module(self, spec):
        return Lean(spec.name)

    def exec_module(self, module):
        pass


finder = Finder()
sys.meta_path.insert(0, finder)
