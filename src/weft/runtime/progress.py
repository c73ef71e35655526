"""How far a training run has come: what another process needs to go on from here as if it were this one."""

import os
import sys
from typing import Any, Dict, Iterator, List, Optional

from . import randomness
from .agent import Agent, RefusedError
from .layout import Source
from .store import CheckpointError, Store

NO_STORE = "there is no directory for checkpoints (weft exec --checkpoints DIR)"
NO_STEPS = (
    "the script marks no steps: its loop should go over weft.steps(loader), or its body be inside `with weft.step():`"
)


class Progress:
    """Parts with a state_dict, randomness, the step, and the position in the loader.

    A pass over the loader is repeated from its start to get to a position: the randomness it began with is restored,
    and the batches that were used are fetched and dropped. So shuffling, workers and augmentation come out as they did.
    A loader that has a state_dict of its own (StatefulDataLoader) is asked instead, which is faster.
    """

    def __init__(self, agent: Agent, directory: Optional[str]) -> None:
        self.agent = agent
        self.step = 0
        self.epoch = 0
        self.parts: Dict[str, Any] = {}
        self._store = Store(directory, rank=_rank()) if directory else None
        self._position = 0
        self._pass_began: Optional[Dict[str, Any]] = None
        self._loader: Any = None
        self._resumed: Optional[Dict[str, Any]] = None
        self._is_inside = False
        self._is_save_wanted = False
        agent.save = self._save_for_pause

    # ---- steps -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The script marks its steps itself, from now on."""
        if self.agent.source != Source.SCRIPT and self.agent.begin(Source.SCRIPT, self.step):
            self.agent.can_save(self._store is not None and bool(self.parts))

    def end_step(self) -> None:
        self.step += 1
        self._is_inside = False
        if self._is_save_wanted:
            self._is_save_wanted = False
            self._save_and_tell()
        self.agent.boundary(Source.SCRIPT)

    @property
    def is_inside(self) -> bool:
        return self._is_inside

    def begin_step(self) -> None:
        self._is_inside = True

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches of one pass, each of them one step."""
        self.begin()
        iterator = self._begin_pass(loader)
        try:
            for batch in iterator:
                self.begin_step()
                try:
                    yield batch
                except (
                    GeneratorExit
                ):  # the loop was left: by `break` its step is done, and there is no boundary to pause at
                    self.step += 1
                    self._is_inside = False
                    self.agent.count(Source.SCRIPT)
                    raise
                self._position += 1
                self.end_step()
        finally:
            self.epoch += 1
            self._position, self._loader, self._pass_began = 0, None, None

    def _begin_pass(self, loader: Any) -> Iterator[Any]:
        self._loader = loader
        resumed, self._resumed = self._resumed, None
        if resumed is None or resumed["pass_began"] is None:
            self._pass_began = _capture_pass(loader)
            return iter(loader)
        self._pass_began = resumed["pass_began"]
        self._position = resumed["position"]
        iterator = _go_to(loader, resumed)
        randomness.restore(resumed["randomness"])
        return iterator

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Load the newest checkpoint that every rank has whole. False if there is none."""
        if self._store is None:
            return False
        common = _common(self._store.good_steps())
        for refused in self._store.refused:
            print("weft: %s" % refused, file=sys.stderr)
        if not common:
            return False
        self._store.forget_after(
            common[-1]
        )  # or a later kill could join an old step of one rank with a new one of another
        state = self._store.load(common[-1])
        _load_parts(self.parts, state.pop("parts"))
        randomness.restore(state["randomness"])
        self.step, self.epoch, self._resumed = state["step"], state["epoch"], state
        self.agent.saved(self.step)
        return True

    def checkpoint(self) -> None:
        """Save at the end of the step we are inside of; at once if we are inside of none."""
        if self._store is None:
            _tell_once(NO_STORE)
        elif not self.parts:
            _tell_once("nothing to checkpoint: the script has not called weft.init(model=…, optimizer=…)")
        elif self._is_inside:
            self._is_save_wanted = True
        else:
            self._save_and_tell()

    def _save_and_tell(self) -> None:
        try:
            self._save()
        except CheckpointError as error:
            print("weft: %s" % error, file=sys.stderr)

    def _save_for_pause(self) -> None:
        if not self.parts:
            raise RefusedError("the script has not called weft.init(model=…, optimizer=…), so nothing is known to save")
        if self.agent.source != Source.SCRIPT:
            raise RefusedError(NO_STEPS)
        try:
            self._save()
        except CheckpointError as error:
            raise RefusedError(str(error)) from error

    def _save(self) -> None:
        if self._store is None:
            raise CheckpointError(NO_STORE)
        state = {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "step": self.step,
            "epoch": self.epoch,
            "position": self._position,
            "pass_began": self._pass_began,
            "loader": self._loader.state_dict() if _keeps_its_place(self._loader) else None,
            "randomness": randomness.capture(),
        }
        self._store.save(self.step, state)
        self.agent.saved(self.step)


def _capture_pass(loader: Any) -> Dict[str, Any]:
    """Randomness as it is when a pass over the loader begins."""
    return {
        "randomness": randomness.capture(),
        "generators": [generator.get_state() for generator in randomness.generators(loader)],
    }


def _go_to(loader: Any, resumed: Dict[str, Any]) -> Iterator[Any]:
    if resumed["loader"] is not None:
        loader.load_state_dict(resumed["loader"])
        return iter(loader)
    randomness.restore(resumed["pass_began"]["randomness"])
    for generator, state in zip(randomness.generators(loader), resumed["pass_began"]["generators"]):
        generator.set_state(state)
    iterator: Iterator[Any] = iter(loader)
    for _ in range(resumed["position"]):
        next(iterator)
    return iterator


def _keeps_its_place(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def _load_parts(parts: Dict[str, Any], states: Dict[str, Any]) -> None:
    if parts.keys() != states.keys():
        raise CheckpointError(
            "the checkpoint holds %s, but weft.init was given %s: give it the same, or take another directory"
            % (", ".join(sorted(states)), ", ".join(sorted(parts)) or "nothing")
        )
    for name, part in parts.items():
        part.load_state_dict(states[name])


def _common(steps: List[int]) -> List[int]:
    """The steps that every rank of the gang can go on from."""
    distributed = sys.modules.get("torch.distributed")
    if not (distributed and distributed.is_available() and distributed.is_initialized()):
        return steps
    everybodys: List[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everybodys, steps)
    return sorted(set.intersection(*map(set, everybodys)))


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


_told: List[str] = []


def _tell_once(text: str) -> None:
    if text not in _told:
        _told.append(text)
        print("weft: %s" % text, file=sys.stderr)
