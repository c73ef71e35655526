"""Where a step ends, seen from PyTorch's own hooks.

The optimizer hook is not the step: it fires for each of several optimizers, twice for a wrapper around another
optimizer, once per layer for optimizers stepped inside backward, and never when GradScaler skips. So: the outermost
step() counts once, the rounds of optimizers are learnt (cycle.py), backward passes tell one round from the next, and a
skipped step ends where the scaler is updated. Without an optimizer and without backward the script is taken for
inference, where the end of a root forward is the boundary. Forwards in a script that trains (teachers, target nets,
evaluation) are no boundaries.
"""

import atexit
import functools
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import Any, Dict, Optional

from .agent import Agent
from .cycle import Cycle
from .layout import Source


class Updates:
    """Training: from optimizer steps to step boundaries."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.cycle = Cycle()
        self.phase = 0  # backward passes so far
        self.seen = 0  # outermost updates so far
        self._outermost: Dict[int, int] = {}  # thread → its optimizer that is inside step(), by id
        self._is_owed = False  # a skipped step closed the round; it ends when the scaler is updated

    def before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # An optimizer that is there already did not come back from its last step(): it raised.
        self._outermost.setdefault(get_ident(), id(optimizer))

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        thread = get_ident()
        if self._outermost.get(thread) != id(optimizer):
            return
        del self._outermost[thread]
        self.seen += 1
        if self._closes(optimizer):
            self.agent.boundary(Source.OPTIMIZER)

    def skipped(self, optimizer: Any) -> None:
        self._is_owed = self._closes(optimizer)

    def scaler_updated(self) -> None:
        if self._is_owed:
            self._is_owed = False
            self.agent.boundary(Source.OPTIMIZER)

    def end(self) -> None:
        """The script is over. A first round has no second one that could show its end."""
        if self.cycle.is_first or self._is_owed:
            self.agent.count(Source.OPTIMIZER)

    def _closes(self, optimizer: Any) -> bool:
        if self._is_owed:  # nobody updated the scaler
            self._is_owed = False
            self.agent.count(Source.OPTIMIZER)
        missed, closes = self.cycle.note(id(optimizer), self.phase)
        if missed:
            self.agent.count(Source.OPTIMIZER)
        return closes


class Forwards:
    """Inference: from root forwards to step boundaries. Costs nothing but at the root: the hook is off while inside."""

    def __init__(self, torch: Any, agent: Agent) -> None:
        self.agent = agent
        self.cycle = Cycle()
        self.is_over = False  # the script trains: forwards mean nothing
        self._register = torch.nn.modules.module.register_module_forward_pre_hook
        self._armed: Optional[Any] = None
        self._is_compiled = False
        self._is_inside = False
        self.arm()

    def arm(self) -> None:
        if not self.is_over and not self._is_compiled and self._armed is None:
            self._armed = self._register(self._enter)

    def disarm(self) -> None:
        if self._armed is not None:
            self._armed.remove()
            self._armed = None

    def disarm_for_good(self) -> None:
        self._is_compiled = True
        self.disarm()

    def stop(self) -> None:
        self.is_over = True
        self.disarm()

    def watch_compiled(self, kind: Any) -> None:
        """Watch the class of modules that torch.compile makes, from now on instead of all modules."""
        call = kind.__call__
        if kind.__name__ != "OptimizedModule" or hasattr(call, "__wrapped__"):
            return

        @functools.wraps(call)
        def noted_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_over or self._is_inside:
                return call(module, *args, **kwargs)
            self._is_inside = True
            try:
                return call(module, *args, **kwargs)
            finally:
                self._is_inside = False
                self.left(module)

        kind.__call__ = noted_call

    def _enter(self, root: Any, _args: Any) -> None:
        self.disarm()

        def leave(_module: Any, _args: Any, _result: Any) -> None:
            handle.remove()
            self.left(root)

        handle = root.register_forward_hook(leave, always_call=True)

    def left(self, root: Any) -> None:
        if self.is_over:
            return
        missed, closes = self.cycle.note(_lasting(root), 0)
        if missed:
            self.agent.count(Source.FORWARD)
        if closes:
            self.agent.boundary(Source.FORWARD)
        self.arm()

    def end(self) -> None:
        if not self.is_over and self.cycle.is_first:
            self.agent.count(Source.FORWARD)


def _lasting(module: Any) -> Any:
    """What tells this module when it comes again. One without parameters may be made anew each time: Softmax()(x)."""
    return id(module) if next(module.parameters(), None) is not None else type(module)


def watch(torch: ModuleType, agent: Agent) -> None:
    """Called once, when torch has just been imported."""
    try:
        _watch(torch, agent)
    except Exception as error:  # noqa: BLE001 -- whatever this torch is like, the script shall run
        agent.give_up("torch %s cannot be watched for steps (%s)" % (getattr(torch, "__version__", "?"), error))


def _watch(torch: Any, agent: Agent) -> None:
    updates, forwards = Updates(agent), Forwards(torch, agent)
    optimizer = import_module("torch.optim.optimizer")
    optimizer.register_optimizer_step_pre_hook(updates.before)
    optimizer.register_optimizer_step_post_hook(updates.after)
    _watch_training(torch, updates, forwards)
    _watch_scaler(torch.amp.GradScaler, updates)
    _watch_compiling(torch, forwards)
    atexit.register(updates.end)
    atexit.register(forwards.end)


def _watch_training(torch: Any, updates: Updates, forwards: Forwards) -> None:
    """A backward pass begins a phase; the first one, or the first optimizer made, shows that the script trains."""
    backward = torch.autograd.backward
    make_optimizer = torch.optim.Optimizer.__init__

    @functools.wraps(backward)
    def noted_backward(*args: Any, **kwargs: Any) -> Any:
        if not forwards.is_over:
            forwards.stop()
        updates.phase += 1
        return backward(*args, **kwargs)

    @functools.wraps(make_optimizer)
    def noted_optimizer(self: Any, *args: Any, **kwargs: Any) -> None:
        forwards.stop()
        make_optimizer(self, *args, **kwargs)

    torch.autograd.backward = noted_backward
    torch.optim.Optimizer.__init__ = noted_optimizer


def _watch_scaler(scaler: Any, updates: Updates) -> None:
    step, update = scaler.step, scaler.update

    @functools.wraps(step)
    def noted_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        seen = updates.seen
        result = step(self, optimizer, *args, **kwargs)
        if updates.seen == seen:
            updates.skipped(optimizer)
        return result

    @functools.wraps(update)
    def noted_update(self: Any, *args: Any, **kwargs: Any) -> None:
        update(self, *args, **kwargs)
        updates.scaler_updated()

    scaler.step, scaler.update = noted_step, noted_update


def _watch_compiling(torch: Any, forwards: Forwards) -> None:
    """A global module hook would be traced into compiled code and change it: none is armed once anything is compiled.

    A compiled module is a root by itself and can be watched at its own call; compiled functions cannot.
    """
    compile_anything = torch.compile

    @functools.wraps(compile_anything)
    def noted_compile(*args: Any, **kwargs: Any) -> Any:
        forwards.disarm_for_good()
        compiled = compile_anything(*args, **kwargs)
        forwards.watch_compiled(type(compiled))
        return compiled

    torch.compile = noted_compile
