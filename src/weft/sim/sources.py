"""Where a policy comes from: handed over by a program, or found in a file of the user's."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from weft.core.errors import InputError
from weft.core.words import closest


class Source(Protocol):
    """A value, because it is sent to other processes."""

    def load(self) -> Any: ...


@dataclass(frozen=True)
class Given:
    """A function or class that is importable, or an object."""

    thing: Any

    def load(self) -> Any:
        return self.thing


@dataclass(frozen=True)
class InFile:
    """A name in a file, which is loaded anew each time."""

    path: Path
    name: str

    def load(self) -> Any:
        module = _module(self.path)
        if not hasattr(module, self.name):
            own = [name for name, thing in vars(module).items() if _is_own(thing, module)]
            hint = f"{closest(self.name, own)}it defines {', '.join(own) or 'nothing'}"
            raise InputError(f'{self.path} has no "{self.name}"', hint)
        return getattr(module, self.name)


def _module(path: Path) -> ModuleType:
    name = f"weft_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: no such file", "your own policy is path/to/file.py:Name[:key=value]…")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    return module


def _is_own(thing: Any, module: ModuleType) -> bool:
    return (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__ == module.__name__
