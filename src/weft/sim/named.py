"""Policies as people ask for them: a name with parameters, a file of their own, or what a program hands over."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.view import Decider
from weft.core.words import closest
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.stages import KeyedOrder, Order
from weft.sim.parameters import declared, plain, read_parameters
from weft.sim.sources import Given, InFile, Source

HINT = "a policy is NAME[:key=value]… or path/to/file.py:Name[:key=value]…"
FITTING = "it is to be, or to return, a Policy, a KeyedOrder, or an object with decide(view) and explain(view, job)"


@dataclass(frozen=True)
class NamedPolicy:
    """A policy as asked for. It keeps no state: what it builds does."""

    label: str
    source: Source
    arguments: Mapping[str, Any]
    parameters: Mapping[str, Any]
    """All of them, defaults included, as plain JSON values."""

    def build(self) -> Decider:
        """A fresh one, for one run."""
        thing = self.source.load()
        made = thing(**self.arguments) if _is_maker(thing) else copy.deepcopy(thing)
        policy = Policy(made) if isinstance(made, KeyedOrder) else made
        if not callable(getattr(policy, "decide", None)) or not callable(getattr(policy, "explain", None)):
            raise InputError(f"{self.label} is no policy", FITTING)
        if isinstance(policy, Policy):
            policy.parameters = self.parameters
            _check_key(self.label, policy.order)
        decider: Decider = policy
        return decider

    @property
    def heeds_classes(self) -> bool:
        """Whether opportunistic jobs yield to others under it; if not, all jobs are peers."""
        return bool(getattr(self.build(), "heeds_classes", False))


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
        raise InputError(f'unknown policy "{name}"', f"{closest(name, POLICIES)}{known}")
    return POLICIES[name]


def _texts(words: Iterable[str], text: str) -> dict[str, str]:
    texts = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or not key or key in texts:
            raise InputError(f'"{word}" in the policy "{text}" is not one more key=value', HINT)
        texts[key] = value
    return texts


def _bound(label: str, name: str, source: Source, texts: Mapping[str, str]) -> NamedPolicy:
    thing = source.load()
    readings = read_parameters(texts, declared(thing) if _is_maker(thing) else {}, name)
    arguments = {key: readings[key].value for key in texts}
    own = {} if _is_maker(thing) else getattr(thing, "parameters", {})
    shown = {key: plain(value) for key, value in own.items()} | {key: each.shown for key, each in readings.items()}
    return NamedPolicy(label, source, arguments, shown)


def _check_key(label: str, order: Order) -> None:
    if isinstance(order, KeyedOrder) and type(order).key is KeyedOrder.key:
        raise InputError(
            f"{label}: {type(order).__name__} has no key", "derive from KeyedOrder and write key(job, now)"
        )


def _is_maker(thing: Any) -> bool:
    return isinstance(thing, type) or (callable(thing) and not hasattr(thing, "decide"))
