"""The state of every random generator a training script draws from."""

import random
import sys
from importlib import import_module
from typing import Any, Dict, List


def capture() -> Dict[str, Any]:
    """Python's, and those of PyTorch (each GPU's too) and numpy if the script uses them."""
    state: Dict[str, Any] = {"python": random.getstate()}
    torch = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy.random" in sys.modules:
        state["numpy"] = _plain(sys.modules["numpy.random"].get_state())
    return state


def restore(state: Dict[str, Any]) -> None:
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
