"""Parameters of a policy as people write them, read the way the policy's function declares them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from weft.core.errors import InputError
from weft.core.words import closest
from weft.sim.reading import KINDS, LIST_MARK, NOTHING, UNDECLARED, Kind, Reading

MOST_SHOWN = 16
"""A longer list of values is told by its length."""


def declared(thing: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The keyword parameters of a function or class."""
    try:
        signature = inspect.signature(thing, eval_str=True)
    except NameError:  # an annotation that only a type checker can see
        signature = inspect.signature(thing)
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in signature.parameters.items() if each.kind not in unnamed}


def read_parameters(
    texts: Mapping[str, str], parameters: Mapping[str, inspect.Parameter], policy: str
) -> dict[str, Reading]:
    """Every parameter, defaults included, or an InputError that says what could have been given."""
    for name in texts:
        if name not in parameters:
            known = f"its parameters: {', '.join(parameters)}" if parameters else "it has none"
            hint = f"{closest(name, list(parameters))}{known}"
            raise InputError(f"{policy} has no parameter {name}", hint)
    return {name: _read(texts.get(name), each, policy) for name, each in parameters.items()}


def plain(value: Any) -> Any:
    """A value as JSON has them."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value] if len(value) <= MOST_SHOWN else f"{len(value)} values"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | NoneType) else repr(value)


def as_typed(value: Any) -> str:
    """What one would type to get this value."""
    if isinstance(value, tuple | list):
        return LIST_MARK.join(as_typed(each) for each in value)
    if isinstance(value, bool):
        return str(value).lower()
    return NOTHING[0] if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _read(text: str | None, parameter: inspect.Parameter, policy: str) -> Reading:
    name, default = parameter.name, parameter.default
    if text is None:
        if default is parameter.empty:
            raise InputError(f"{policy} needs the parameter {name}", f"write {policy}:{name}=VALUE")
        return Reading(default, plain(default))
    kinds = _kinds(parameter)
    for kind in kinds:
        try:
            return kind.read(text)
        except ValueError:
            continue
    hint = "" if default is parameter.empty else f"the default is {name}={as_typed(default)}"
    expected = " or ".join(kind.words for kind in kinds)
    if not text:
        raise InputError(f"{policy}: {name} is empty, it takes {expected}", hint)
    besides = "".join(kind.besides for kind in kinds)
    raise InputError(f'{policy}: {name}="{text}" is not {expected}{besides}', hint)


def _kinds(parameter: inspect.Parameter) -> list[Kind]:
    declared_as, default = parameter.annotation, parameter.default
    if declared_as is parameter.empty and default is not parameter.empty and default is not None:
        declared_as = type(default)
    is_union = isinstance(declared_as, UnionType) or get_origin(declared_as) is Union
    choices = get_args(declared_as) if is_union else (declared_as,)
    # None comes first, because as a text "none" would do as well.
    return [KINDS.get(each, UNDECLARED) for each in sorted(choices, key=lambda each: each is not NoneType)]
