"""Inference: from root forwards to step boundaries.

A global module hook makes every submodule take PyTorch's slow path, so it is taken off while inside a root. Dynamo
would trace it into what it compiles or exports, and change that or fail; so it is taken off for good when the script
trains, and when Dynamo is loaded. A compiled module is then watched at its own call; a compiled function cannot be.
"""

from typing import Any, Optional

from ..agent import Agent
from ..page.layout import StepSource
from .call_site import note_lookups
from .step_cycle import Cycle


class Forwards:
    """The root modules of this process, as they are called."""

    def __init__(self, torch: Any, agent: Agent) -> None:
        self.agent = agent
        self.cycle = Cycle()
        self.is_over = False  # the script trains: forwards mean nothing
        self._register = torch.nn.modules.module.register_module_forward_pre_hook
        self._register_after = torch.nn.modules.module.register_module_forward_hook
        self._armed: Optional[Any] = None
        self._is_compiled = False
        self._inside: Optional[int] = None  # the compiled root that is being called, by id
        self._arm()

    def stop(self) -> None:
        self.is_over = True
        self._disarm()

    def end(self) -> None:
        """The script is over. The last round has no other one after it that could show its end."""
        if not self.is_over and self.cycle.is_open:
            self.agent.count(StepSource.FORWARD)

    def watch_compiled(self, eval_frame: Any) -> None:
        """Dynamo has been loaded: from now on only the modules that it makes are watched, at their own call."""
        self._is_compiled = True
        self._disarm()
        compiled = getattr(eval_frame, "OptimizedModule", None)
        if compiled is None:  # another Dynamo than we know
            return
        note_lookups(compiled, "__call__", self._enter_compiled)

    def _enter_compiled(self, root: Any) -> None:
        if self.is_over or self._inside not in (None, id(root)):  # the latter inside another root
            return
        if self._inside is None:
            self._inside = id(root)
            self._note_leaving(root)

    def _arm(self) -> None:
        if not self.is_over and not self._is_compiled and self._armed is None:
            self._armed = self._register(self._enter)

    def _disarm(self) -> None:
        armed, self._armed = self._armed, None
        if armed is not None:
            armed.remove()

    def _enter(self, root: Any, _args: Any) -> None:
        self._disarm()
        self._note_leaving(root)

    def _note_leaving(self, root: Any) -> None:
        def leave(module: Any, _args: Any, _result: Any) -> None:
            if module is root:
                handle.remove()
                self._inside = None
                self._left(root)

        try:
            handle = root.register_forward_hook(leave, always_call=True)
        except RuntimeError:  # TorchScript's modules take none of their own
            handle = self._register_after(leave, always_call=True)

    def _left(self, root: Any) -> None:
        if self.is_over:
            return
        missed, closes = self.cycle.note(_lasting(root), 0)
        for _ in range(missed):
            self.agent.count(StepSource.FORWARD)
        if closes:
            self.agent.boundary(StepSource.FORWARD)
        self._arm()


def _lasting(module: Any) -> Any:
    """What identifies this module in a later call. One without parameters may be made anew each time: Softmax()(x)."""
    return id(module) if next(module.parameters(), None) is not None else type(module)
