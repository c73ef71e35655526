"""Gradients that no optimizer has used yet, as between two micro-batches whose gradients are added up."""

from typing import Any, Dict, Iterator, Tuple

Gradients = Dict[str, Dict[int, Any]]


def capture(parts: Dict[str, Any]) -> Gradients:
    """Part, number of the parameter → its gradient, for the parameters that have one."""
    pending: Gradients = {}
    for name, number, parameter in _parameters(parts):
        if parameter.grad is not None:
            pending.setdefault(name, {})[number] = parameter.grad
    return pending


def restore(parts: Dict[str, Any], pending: Gradients) -> None:
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
