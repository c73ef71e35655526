"""The position of a run in its passes over a loader, and how another process gets there."""

import opcode
import random
import sys
from importlib import import_module
from itertools import islice
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional

from ..log import warn_once
from .rank_store import CheckpointError

ITERATOR = (
    "weft.steps was given an iterator (%s), behind which it cannot see what the batches are drawn with: after a resume "
    "they may differ. Instead of weft.steps(enumerate(loader)) write enumerate(weft.steps(loader))"
)
PERSISTENT_WORKERS = (
    "the loader's workers are persistent, and what they had drawn since the first epoch is in no checkpoint: random "
    "augmentation in them will differ from an uninterrupted run. Without persistent_workers=True it would be the same"
)
SHORTER = (
    "the checkpoint was made after batch %d of a pass, but the loader now ends after %d: give it the same data and "
    "batch size, or take another directory (weft exec --checkpoints DIR)"
)
# The instructions by which `break` and `return` drop the iterator of the loop they leave.
DROP_ITERATOR = ("POP_TOP", "POP_ITER")


class LoaderPosition:
    """Which pass a run is in (its epoch), and how many batches of it were used.

    A pass over the loader is repeated from its start to get to a position: the randomness it began with is restored,
    and the batches that were used are fetched and dropped. So shuffling, workers and augmentation come out as they did,
    except in persistent workers, whose randomness goes back to passes that are not repeated. A loader that has a
    state_dict of its own (StatefulDataLoader) is asked instead, which is faster.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.is_in_pass = False
        self._loader: Any = None  # between two passes: that of the last one
        self._position = 0
        self._began: Optional[Dict[str, Any]] = None
        self._resumed: Optional[Dict[str, Any]] = None  # until a pass begins there

    def begin_pass(self, loader: Any) -> Iterator[Any]:
        """The batches of a pass that are not used yet."""
        self._loader, self.is_in_pass = loader, True
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            self._began = _capture(loader)
            return iter(loader)
        if self.epoch and getattr(loader, "persistent_workers", False) and loader.num_workers:
            warn_once(PERSISTENT_WORKERS)
        return self._go_on(loader, resumed) if resumed["began"] else self._begin_next(loader, resumed)

    def stepped(self) -> None:
        if self.is_in_pass:
            self._position += 1
        elif self._resumed is not None and not self._resumed["began"]:
            # Steps were taken since the checkpoint: the next pass is to go on from the randomness they left.
            self._resumed["drawn"]["randomness"] = None

    def end_pass(self) -> None:
        if self.is_in_pass:
            self.is_in_pass = False
            self.epoch += 1
            self._position, self._began = 0, None

    def state(self) -> Dict[str, Any]:
        """What resume() needs, as of now."""
        if self._resumed is not None:
            return self._not_yet_begun(self._resumed)
        if hasattr(self._loader, "__next__"):
            warn_once(ITERATOR % type(self._loader).__name__)
        return {
            "epoch": self.epoch,
            "position": self._position,
            "began": self._began,
            "drawn": _capture(self._loader),
            "loader": self._loader.state_dict() if _keeps_its_place(self._loader) else None,
        }

    def resume(self, state: Dict[str, Any]) -> None:
        """Continue where `state` was taken: the first pass resumes there, whatever was drawn before it begins."""
        self._resumed = state
        self.epoch = state["epoch"]
        restore_randomness(state["drawn"]["randomness"])

    @property
    def is_in_resumed_pass(self) -> bool:
        """The checkpoint was made inside a pass, and that pass has not begun here yet."""
        return self._resumed is not None and self._resumed["began"] is not None

    def _not_yet_begun(self, resumed: Dict[str, Any]) -> Dict[str, Any]:
        """Resumed, and saved again before the first pass: nothing was taken from the loader in between."""
        if resumed["began"]:
            return resumed
        return {**resumed, "drawn": {**resumed["drawn"], "randomness": capture_randomness()}}

    def _begin_next(self, loader: Any, resumed: Dict[str, Any]) -> Iterator[Any]:
        """The checkpoint was made between two passes."""
        _restore(loader, resumed["drawn"])
        if resumed["loader"] is not None and _keeps_its_place(loader):
            loader.load_state_dict(resumed["loader"])
        self._began = _capture(loader)
        return iter(loader)

    def _go_on(self, loader: Any, resumed: Dict[str, Any]) -> Iterator[Any]:
        """The checkpoint was made inside a pass."""
        self._began, self._position = resumed["began"], resumed["position"]
        if resumed["loader"] is not None and _keeps_its_place(loader):
            loader.load_state_dict(resumed["loader"])
            iterator: Iterator[Any] = iter(loader)
            # Its generators are its own affair: it may only draw when it is asked for the first batch.
            restore_randomness(resumed["drawn"]["randomness"])
            return iterator
        _restore(loader, resumed["began"])
        iterator = iter(loader)
        _drop(iterator, self._position)
        _restore(loader, resumed["drawn"])
        return iterator


def is_place(state: Any) -> bool:
    """Whether a state() could have been this."""
    if not isinstance(state, dict) or not {"epoch", "position", "began", "drawn", "loader"} <= state.keys():
        return False
    is_counted = all(type(state[name]) is int and state[name] >= 0 for name in ("epoch", "position"))
    drawn = [state["drawn"]] + ([] if state["began"] is None else [state["began"]])
    return is_counted and all(
        isinstance(one, dict)
        and isinstance(one.get("randomness", 0), (dict, type(None)))
        and isinstance(one.get("generators"), list)
        for one in drawn
    )


def is_leaving_by_break(frame: Optional[FrameType]) -> bool:
    """Is it by `break` or `return` that this frame drops a generator just now, not by an exception?

    A generator that is dropped cannot see why. The instruction at which its loop is can: an exception leaves it at
    a call, or at `raise`.
    """
    return frame is not None and opcode.opname[frame.f_code.co_code[frame.f_lasti]] in DROP_ITERATOR


def _drop(iterator: Iterator[Any], batches: int) -> None:
    dropped = sum(1 for _ in islice(iterator, batches))
    if dropped < batches:
        raise CheckpointError(SHORTER % (batches, dropped))


def _capture(loader: Any) -> Dict[str, Any]:
    """Everything that batches are drawn with."""
    return {"randomness": capture_randomness(), "generators": [one.get_state() for one in _generators(loader)]}


def _restore(loader: Any, drawn: Dict[str, Any]) -> None:
    if drawn["randomness"] is not None:
        restore_randomness(drawn["randomness"])
    for generator, state in zip(_generators(loader), drawn["generators"]):
        generator.set_state(state)


def _generators(loader: Any) -> List[Any]:
    """Those of the loader inside a progress bar too: tqdm(loader) keeps it as its `iterable`."""
    return generators(getattr(loader, "iterable", loader))


def _keeps_its_place(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def capture_randomness() -> Dict[str, Any]:
    """The state of Python's random generator, and of PyTorch's (each GPU's too) and numpy's if the script uses them."""
    state: Dict[str, Any] = {"python": random.getstate()}
    torch = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy.random" in sys.modules:
        state["numpy"] = _plain(sys.modules["numpy.random"].get_state())
    return state


def restore_randomness(state: Dict[str, Any]) -> None:
    random.setstate(state["python"])
    if "torch" in state:
        import_module("torch").set_rng_state(state["torch"])
    if "cuda" in state and import_module("torch.cuda").is_available():
        import_module("torch.cuda").set_rng_state_all(state["cuda"])
    if "numpy" in state:
        import_module("numpy.random").set_state(state["numpy"])


def _plain(state: Any) -> Any:
    """Numbers and lists: what numpy keeps in arrays, torch.load takes for something that may run code."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_plain, state))
    return state.tolist() if hasattr(state, "tolist") else state


def generators(loader: Any) -> List[Any]:
    """The generators that a DataLoader shuffles with, each once."""
    by_batch = getattr(loader, "batch_sampler", None)
    owners = [loader, getattr(loader, "sampler", None), by_batch, getattr(by_batch, "sampler", None)]
    found = {id(own): own for own in (getattr(owner, "generator", None) for owner in owners)}
    return [own for own in found.values() if hasattr(own, "get_state")]
