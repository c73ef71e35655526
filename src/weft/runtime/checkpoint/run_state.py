"""The state of a training run: what another process needs to continue exactly from here."""

import sys
from typing import Any, Dict, Iterator, Optional, Tuple

from ..agent import Agent
from ..log import warn, warn_once
from ..page.layout import StepSource
from ..pause import NO_PARTS, DepthRefusedError
from .loader_position import LoaderPosition, is_leaving_by_break
from .rank_store import CheckpointError
from .run_checkpoints import Checkpoints

Gradients = Dict[str, Dict[int, Any]]

NO_STEPS = (
    "the script marks no steps: its loop should go over weft.steps(loader), or its body be inside `with weft.step():`"
)


class Progress:
    """The parts of a run, its step, its place in the loader: counted as it goes, saved together, resumed together."""

    def __init__(self, agent: Agent, directory: Optional[str]) -> None:
        self.agent = agent
        self.step = 0
        self.is_inside = False  # of a step
        self.place = LoaderPosition()
        self._parts: Dict[str, Any] = {}
        self._checkpoints = Checkpoints(directory)
        self._is_save_wanted = False
        self._updates_before = 0  # when the last step began
        self._pending: Optional[Gradients] = None  # of a resumed pass, until it begins
        agent.save = self._save_for_pause

    # ---- steps -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The script marks its steps itself, from now on."""
        if self.agent.source != StepSource.SCRIPT and self.agent.begin(StepSource.SCRIPT, self.step):
            self._show_ability()

    def begin_step(self) -> None:
        self.is_inside = True
        self._updates_before = self.agent.updates

    def end_step(self) -> None:
        self._count_step()
        self._save_if_wanted()
        self.agent.boundary(StepSource.SCRIPT)

    def fail_step(self) -> None:
        """The step's body raised. It does not count, and the script may go on with the next one."""
        self.is_inside = False

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches of one pass, each of them one step; or just the batches, if the pass is no part of training."""
        if self.is_inside or self.place.is_in_pass or self._is_evaluation():
            yield from loader
            return
        self.begin()
        try:
            for batch in self._begin_pass(loader):
                self.begin_step()
                try:
                    yield batch
                except GeneratorExit:
                    self._leave_pass(is_over=is_leaving_by_break(sys._getframe().f_back))
                    raise
                self.end_step()
        finally:
            self.place.end_pass()

    def _begin_pass(self, loader: Any) -> Iterator[Any]:
        pending, self._pending = self._pending, None
        iterator = self.place.begin_pass(loader)
        # Again, since a script that adds gradients up has set them to zero before its loop.
        restore_gradients(self._parts, pending or {})
        return iterator

    def _leave_pass(self, is_over: bool) -> None:
        """The loop was left inside a step, which is done then; and by `break` its pass too. No boundary to pause at."""
        self._count_step()
        if is_over:
            self.place.end_pass()
        self._save_if_wanted()
        self.agent.count(StepSource.SCRIPT)

    def _count_step(self) -> None:
        self.step += 1
        self.is_inside = False
        self.place.stepped()

    def _is_evaluation(self) -> bool:
        """A pass without gradients, in a script that trains."""
        torch = sys.modules.get("torch")
        is_training = any(hasattr(part, "param_groups") for part in self._parts.values())
        return is_training and torch is not None and not torch.is_grad_enabled()

    def report(self, name: str, figure: Any) -> None:
        try:
            value = float(figure)
        except Exception:  # noqa: BLE001 -- it is the script's, and may be anything
            warn_once("weft.report(%s=…) is left out: a %s is no number" % (name, type(figure).__name__))
        else:
            self.agent.report(name, value)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def resume(self, parts: Dict[str, Any]) -> bool:
        """Load the newest checkpoint into these parts, which make up the run. False if there is none."""
        self._parts = parts
        self._checkpoints.open()
        self._show_ability()
        state = self._checkpoints.load_newest()
        if state is None:
            return False
        _load_parts(parts, state["parts"])
        restore_gradients(parts, state["gradients"])
        self.step = state["step"]
        self.place.resume(state["place"])
        self._pending = state["gradients"] if self.place.is_in_resumed_pass else None
        self.agent.saved(self.step)
        return True

    def checkpoint(self) -> None:
        """Save at the end of the step we are inside of; at once if we are inside of none."""
        if not self._parts:
            warn_once(NO_PARTS)
        elif self._checkpoints.why_not():
            warn_once(self._checkpoints.why_not())
        else:
            self._is_save_wanted = True
            if not self.is_inside:
                self._save_if_wanted()

    def _show_ability(self) -> None:
        self.agent.can_save(bool(self._parts) and not self._checkpoints.why_not())

    def _save_if_wanted(self) -> None:
        if self._is_save_wanted:
            self._is_save_wanted = False
            try:
                self._save()
            except CheckpointError as error:
                warn(str(error))

    def _save_for_pause(self) -> None:
        if not self._parts:
            raise DepthRefusedError(NO_PARTS)
        if self.agent.source != StepSource.SCRIPT:
            raise DepthRefusedError(NO_STEPS)
        try:
            self._save()
        except CheckpointError as error:
            raise DepthRefusedError(str(error)) from error

    def _save(self) -> None:
        why_not = self._checkpoints.why_not()
        if why_not:
            raise CheckpointError(why_not)
        self._checkpoints.save(self.step, self._gather())
        self.agent.saved(self.step)

    def _gather(self) -> Dict[str, Any]:
        """Whatever a part raises when it is asked for its state, the job goes on without this checkpoint."""
        try:
            return {
                "parts": {name: part.state_dict() for name, part in self._parts.items()},
                "gradients": self._gradients(),
                "place": self.place.state(),
            }
        except Exception as error:
            problem = "the state of step %d cannot be gathered: %s: %s; the earlier checkpoints are untouched"
            raise CheckpointError(problem % (self.step, type(error).__name__, error)) from error

    def _gradients(self) -> Gradients:
        """Those that a later step adds to. After an update they are spent: to save them would double the size."""
        if self._pending is not None:
            return self._pending
        return pending_gradients(self._parts) if self.agent.updates == self._updates_before else {}


def _load_parts(parts: Dict[str, Any], states: Dict[str, Any]) -> None:
    if parts.keys() != states.keys():
        raise CheckpointError(
            "the checkpoint holds %s, but weft.init was given %s: give it the same, or take another directory"
            % (", ".join(sorted(states)), ", ".join(sorted(parts)) or "nothing")
        )
    for name, part in parts.items():
        part.load_state_dict(states[name])


def pending_gradients(parts: Dict[str, Any]) -> Gradients:
    """Gradients that no optimizer has used yet, as between micro-batches: part → number of the parameter → gradient."""
    pending: Gradients = {}
    for name, number, parameter in _parameters(parts):
        if parameter.grad is not None:
            pending.setdefault(name, {})[number] = parameter.grad
    return pending


def restore_gradients(parts: Dict[str, Any], pending: Gradients) -> None:
    for name, number, parameter in _parameters(parts):
        gradient = pending.get(name, {}).get(number)
        if gradient is not None:
            # A copy: the script adds to this one, and what was saved may be restored once more.
            parameter.grad = gradient.to(parameter.device, copy=True)


def _parameters(parts: Dict[str, Any]) -> Iterator[Tuple[str, int, Any]]:
    for name, part in parts.items():
        if callable(getattr(part, "parameters", None)):
            for number, parameter in enumerate(part.parameters()):
                yield name, number, parameter
