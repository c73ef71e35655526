"""Training: from optimizer steps to step boundaries.

The optimizer hook is not the step: it fires for each of several optimizers, twice for a wrapper around another one,
once per layer for optimizers stepped inside backward, and never when GradScaler skips. So the outermost step() counts
once, the rounds of optimizers are learnt (step_cycle.py), and a skipped step ends where the scaler is updated.
"""

import functools
import sys
from threading import get_ident
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..agent import Agent
from ..page.layout import StepSource
from .call_site import Site
from .step_cycle import Cycle

MOST_PLACES = 4096  # of optimizers; where they are made all the time, those of the dead are forgotten


class Updates:
    """The optimizer steps of this process."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.cycle = Cycle()
        self.phase = 0  # backward passes so far
        self._outermost: Dict[int, Tuple[int, Any]] = {}  # thread → its optimizer inside step(), by id, and the frame
        self._places: Dict[int, Optional[Site]] = {}  # optimizer, by id → where it was stepped last
        self._stepped: Set[int] = set()  # since the last update of a scaler; only if there is one
        self._has_scaler = False
        self._is_owed = False  # a skipped step closed the round; it ends when the scaler is updated

    def before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        thread, frame = get_ident(), sys._getframe(1)
        outer = self._outermost.get(thread)
        if outer is None or not _is_within(outer[1], frame):
            self._outermost[thread] = (id(optimizer), frame)

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        thread, member = get_ident(), id(optimizer)
        if self._outermost.get(thread, (0, None))[0] != member:
            return
        del self._outermost[thread]
        self.agent.updates += 1
        if self._has_scaler:
            self._stepped.add(member)
        site = self.cycle.sites.at(sys._getframe(1))
        if len(self._places) > MOST_PLACES:
            self._places.clear()
        self._places[member] = site
        if self._closes(member, site):
            self.agent.boundary(StepSource.OPTIMIZER)

    def scaler_steps(self, scaler: Any) -> None:
        """A scaler is about to step an optimizer. It may have left out one before."""
        self._has_scaler = True
        self._note_skipped(scaler)

    def scaler_updates(self, scaler: Any) -> None:
        """A scaler is about to be updated: whatever its optimizers did, the round is over then."""
        self._note_skipped(scaler)
        self._stepped.clear()
        if self._is_owed:
            self._is_owed = False
            self.agent.boundary(StepSource.OPTIMIZER)

    def end(self) -> None:
        """The script is over. The last round has no other one after it that could show its end."""
        if self.cycle.is_open or self._is_owed:
            self.agent.count(StepSource.OPTIMIZER)

    def _note_skipped(self, scaler: Any) -> None:
        """Those that the scaler is done with, and which did not step."""
        for member in _done_by(scaler):
            if member not in self._stepped:
                self._stepped.add(member)
                self._is_owed = self._closes(member, self._places.get(member))

    def _closes(self, member: int, site: Optional[Site]) -> bool:
        if self._is_owed:  # the scaler was not updated
            self._is_owed = False
            self.agent.count(StepSource.OPTIMIZER)
        missed, closes = self.cycle.note(member, self.phase, site)
        for _ in range(missed):
            self.agent.count(StepSource.OPTIMIZER)
        return closes


def _done_by(scaler: Any) -> List[int]:
    """The optimizers, by id, that a scaler has stepped or skipped. One that is disabled keeps no states, and one of
    another library may keep them in another way."""
    states = getattr(scaler, "_per_optimizer_states", None)
    if not isinstance(states, dict):
        return []
    stages = {member: state.get("stage") for member, state in states.items() if isinstance(state, dict)}
    return [member for member, stage in stages.items() if getattr(stage, "name", "") == "STEPPED"]


def _is_within(outer: Any, frame: Any) -> bool:
    """Whether `frame` was called from inside `outer`. If not, that step() raised."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer


# ---- Libraries with optimizers of their own run none of PyTorch's hooks, so their method that updates all weights once
# is wrapped. It counts as `torch.optim.Optimizer.step` does.

METHODS: Dict[str, Tuple[str, str]] = {
    "fastai.optimizer": ("Optimizer", "step"),
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),  # Keras 3 on PyTorch
}


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
