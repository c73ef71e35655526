"""An import hook that causes no imports. When the script imports torch, step boundaries begin to be watched."""

from __future__ import annotations

import atexit
import sys

TYPE_CHECKING = False  # typing is not loaded for this: every interpreter of a job would pay for it at its start
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Sequence


class ImportHook:
    """A finder that finds nothing itself: it lets the others find a module, and acts once that module is loaded."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self.actions = actions

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.actions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._act_after(spec)
                return spec
        return None

    def _act_after(self, spec: ModuleSpec) -> None:
        """Once it is loaded: many specs are only looked up, to learn whether the module exists.

        Importing marks a spec as being loaded, and takes the mark off at the end. We look at that mark instead of
        loading the module ourselves, so that no frame of ours is on the stack while its code runs.
        """
        hook, kind = self, type(spec)

        class Loading(kind):  # type: ignore[valid-type, misc]
            @property
            def _initializing(self) -> bool:
                return True

            @_initializing.setter
            def _initializing(self, is_loading: bool) -> None:
                if is_loading:
                    return
                self.__class__ = kind  # type: ignore[assignment]
                self._initializing = False
                module = sys.modules.get(self.name)
                if module is not None and self.name in hook.actions:
                    hook.actions.pop(self.name)(module)

        spec.__dict__.pop("_initializing", None)
        spec.__class__ = Loading


def begin(page: str) -> None:
    """Called at the interpreter's start."""

    hook = ImportHook({})

    def on_torch(torch: ModuleType) -> None:
        try:
            from .agent import the_agent
            from .hooks import install

            agent = the_agent(page)
        except Exception as error:  # noqa: BLE001 -- a file of weft's is gone or damaged, and the script shall run
            if sys.stderr is not None:
                sys.stderr.write("weft: step boundaries are unavailable: %s: %s\n" % (type(error).__name__, error))
            return
        install.watch(torch, agent, hook.actions)

    def on_dynamo(trace_rules: ModuleType) -> None:
        # Compiled code runs our hooks as they are. Tracing into them would add guards and graph breaks to the user's
        # program.
        trace_rules.add(__name__.partition(".")[0])

    def on_exit() -> None:
        agent = sys.modules.get("weft_runtime.agent")
        if agent is not None:
            agent.the_agent(page).end()

    hook.actions.update({"torch": on_torch, "torch._dynamo.trace_rules": on_dynamo})
    sys.meta_path.insert(0, hook)
    atexit.register(on_exit)  # registered first, so that it runs after all other handlers
