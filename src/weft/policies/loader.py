"""Policies as users ask for them: a name with parameters, a file of their own, or an object of a program."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType, NoneType, UnionType
from typing import Any, NamedTuple, Protocol, Union, get_args, get_origin

from weft.core.errors import InputError
from weft.core.policy_base import PolicyBase, completed
from weft.core.text import did_you_mean
from weft.policies.base import QueueOrder
from weft.policies.order.keyed import KeyedOrder
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

HINT = "a policy is NAME[:key=value]… or path/to/file.py:Name[:key=value]…"
FITTING = "it is to be, or to return, a Policy, a KeyedOrder, or an object with decide(view) and explain(view, job)"


@dataclass(frozen=True)
class NamedPolicy:
    """A policy as asked for. It keeps no state: what it builds does."""

    label: str
    source: PolicySource
    arguments: Mapping[str, Any]
    parameters: Mapping[str, Any]
    """All parameters, defaults included, as plain JSON values."""

    def build(self) -> PolicyBase:
        """A fresh one, for one run."""
        thing = self.source.load()
        made = thing(**self.arguments) if _is_maker(thing) else copy.deepcopy(thing)
        policy = Policy(made) if isinstance(made, KeyedOrder) else made
        if not callable(getattr(policy, "decide", None)) or not callable(getattr(policy, "explain", None)):
            raise InputError(f"{self.label} is no policy", FITTING)
        if isinstance(policy, Policy):
            policy.parameters = self.parameters
            _check_key(self.label, policy.order)
        return completed(policy)

    @property
    def heeds_classes(self) -> bool:
        """Whether opportunistic jobs yield to others under it; if not, all jobs are peers."""
        return self.build().heeds_classes


def policies_asked(policy: Any) -> list[NamedPolicy]:
    """From a text with commas, something that is or makes a policy, or several of these. Each has been built once."""
    is_several = isinstance(policy, Iterable) and not isinstance(policy, str)
    asked = [named for each in (policy if is_several else [policy]) for named in _named(each)]
    if not asked:
        raise InputError("no policy is named", f"the policies: {', '.join(POLICIES)}")
    for each in asked:
        each.build()
    return asked


def _named(policy: Any) -> list[NamedPolicy]:
    if isinstance(policy, str):
        texts = [text.strip() for text in policy.split(",")]
        if "" in texts and len(texts) > 1:
            raise InputError(f'the policies "{policy}" have a comma too many', "one comma between two policies")
        return [_from_text(text) for text in texts if text]
    named_thing = getattr(policy, "func", policy)  # of a functools.partial
    label = getattr(named_thing, "__name__", type(policy).__name__)
    return [_bound(label, label, Given(policy), {})]


def _from_text(text: str) -> NamedPolicy:
    head, *words = text.split(":")
    if not head.endswith(".py"):
        return _bound(text, head, Given(registered(head)), _texts(words, text))
    if not words or "=" in words[0]:
        raise InputError(f'"{text}" does not say which policy of the file', f"write {head}:Name")
    name, *words = words
    return _bound(text, f"{head}:{name}", InFile(Path(head), name), _texts(words, text))


def registered(name: str) -> Callable[..., Policy]:
    if name not in POLICIES:
        known = f"the policies: {', '.join(POLICIES)}; your own: path/to/file.py:Name"
        raise InputError(f'unknown policy "{name}"', f"{did_you_mean(name, POLICIES)}{known}")
    return POLICIES[name]


def _texts(words: Iterable[str], text: str) -> dict[str, str]:
    texts = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or not key or key in texts:
            raise InputError(f'"{word}" in the policy "{text}" is not one more key=value', HINT)
        texts[key] = value
    return texts


def _bound(label: str, name: str, source: PolicySource, texts: Mapping[str, str]) -> NamedPolicy:
    thing = source.load()
    readings = read_parameters(texts, declared(thing) if _is_maker(thing) else {}, name)
    arguments = {key: readings[key].value for key in texts}
    own = {} if _is_maker(thing) else getattr(thing, "parameters", {})
    shown = {key: plain(value) for key, value in own.items()} | {key: each.shown for key, each in readings.items()}
    return NamedPolicy(label, source, arguments, shown)


def _check_key(label: str, order: QueueOrder) -> None:
    if isinstance(order, KeyedOrder) and type(order).key is KeyedOrder.key:
        raise InputError(
            f"{label}: {type(order).__name__} has no key", "derive from KeyedOrder and write key(job, now)"
        )


def _is_maker(thing: Any) -> bool:
    return isinstance(thing, type) or (callable(thing) and not hasattr(thing, "decide"))


# ---- Parameters of a policy as text, read the way the policy's function declares them.

MOST_SHOWN = 16
"""Of a longer list of values only the length is shown."""


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
            hint = f"{did_you_mean(name, list(parameters))}{known}"
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
    """The text that gives this value."""
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


def _kinds(parameter: inspect.Parameter) -> list[ValueKind]:
    declared_as, default = parameter.annotation, parameter.default
    if declared_as is parameter.empty and default is not parameter.empty and default is not None:
        declared_as = type(default)
    is_union = isinstance(declared_as, UnionType) or get_origin(declared_as) is Union
    choices = get_args(declared_as) if is_union else (declared_as,)
    # None comes first, because as a text "none" would do as well.
    return [KINDS.get(each, UNDECLARED) for each in sorted(choices, key=lambda each: each is not NoneType)]


# ---- Where a policy comes from: an object in a program, or a name in a user's file.


class PolicySource(Protocol):
    """A value, because it is sent to other processes."""

    def load(self) -> Any: ...


@dataclass(frozen=True)
class Given:
    """A function or class that is importable, or an object."""

    thing: Any

    def load(self) -> Any:
        return self.thing


@dataclass(frozen=True)
class InFile:
    """A name in a file, which is loaded anew each time."""

    path: Path
    name: str

    def load(self) -> Any:
        module = _module(self.path)
        if not hasattr(module, self.name):
            own = [name for name, thing in vars(module).items() if _is_own(thing, module)]
            hint = f"{did_you_mean(self.name, own)}it defines {', '.join(own) or 'nothing'}"
            raise InputError(f'{self.path} has no "{self.name}"', hint)
        return getattr(module, self.name)


def _module(path: Path) -> ModuleType:
    name = f"weft_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: no such file", "your own policy is path/to/file.py:Name[:key=value]…")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    return module


def _is_own(thing: Any, module: ModuleType) -> bool:
    return (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__ == module.__name__


# ---- One value as text: numbers, lists with slashes, files of numbers, none. ValueError: it is not that.

LIST_MARK = "/"
NOTHING = ("none", "off")
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Reading(NamedTuple):
    """A value, and how it is shown beside results: as plain JSON."""

    value: Any
    shown: Any


@dataclass(frozen=True)
class ValueKind:
    """What a parameter may be, in words for a message, and how it is read."""

    words: str
    read: Callable[[str], Reading]
    besides: str = ""
    """What a refusal adds."""


def _number(text: str) -> Reading:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return Reading(value, value)


def _whole(text: str) -> Reading:
    value = int(text)
    return Reading(value, value)


def _truth(text: str) -> Reading:
    value = TRUTHS.get(text.lower())
    if value is None:
        raise ValueError(text)
    return Reading(value, value)


def _nothing(text: str) -> Reading:
    if text.lower() not in NOTHING:
        raise ValueError(text)
    return Reading(None, None)


def _text(text: str) -> Reading:
    return Reading(text, text)


def _numbers(text: str) -> Reading:
    try:
        values = [_number(each).value for each in text.split(LIST_MARK)]
    except ValueError:
        samples = _samples(Path(text))
        return Reading(samples, f"{text} ({len(samples)} samples)")
    return Reading(tuple(values), values)


def _samples(path: Path) -> tuple[float, ...]:
    """One number a line; the first line may be a heading."""
    if path == Path() or not path.exists():
        raise ValueError(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})", "give a text file of numbers") from error
    samples = []
    for count, line in enumerate(lines, 1):
        try:
            samples.append(_number(line).value)
        except ValueError:
            if count > 1 and line.strip():
                raise InputError(f'{path}, line {count}: "{line}" is not a number', "one a line") from None
    if not samples:
        raise InputError(f"{path}: holds no numbers", "one a line")
    return tuple(samples)


def _guess(text: str) -> Reading:
    for read in (_nothing, _whole, _number):
        try:
            return read(text)
        except ValueError:
            continue
    return _text(text)


UNDECLARED = ValueKind("a value", _guess)
NUMBERS = ValueKind("numbers like 300/1200 or a file of them", _numbers, ": no such file exists")
KINDS: Mapping[Any, ValueKind] = MappingProxyType(
    {
        float: ValueKind("a number", _number),
        int: ValueKind("a whole number", _whole),
        bool: ValueKind("true or false", _truth),
        str: ValueKind("a text", _text),
        NoneType: ValueKind(NOTHING[0], _nothing),
        tuple: NUMBERS,
        tuple[float, ...]: NUMBERS,
    }
)
