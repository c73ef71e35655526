"""World files: TOML, in which every value is checked and everything not said is as in the default world."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.text import did_you_mean
from weft.sim.colocation import Fitted, plain, read_table
from weft.sim.world.model import Habits, World
from weft.system.units import parsed_bytes

PACKAGED = ("ideal", "default")
KEYS: Mapping[str, str] = {
    "counts_only": "true or false",
    "preemption_s": "a number of seconds ≥ 0",
    "startup_s": "a number of seconds ≥ 0",
    "pause_s": "a number of seconds ≥ 0, and not more than preemption_s",
    "measure_s": "a number of seconds ≥ 0",
    "rate_noise": "a number from 0 to 1",
    "interference": 'a table {contention = 0.1}, or the path of a file of measured pairs, as "pairs.json"',
    "speed": "a table of numbers, one a device type",
    "skew": "a table of numbers, one a model",
    "memory": 'a table of sizes, one a device type, as V100 = "16G"',
    "models": "a table for each model with utilisation, a number above 0 and at most 1 or [utilisation, weight], and "
    'memory, ["persistent", "ephemeral"]; either may be left away',
    "unknown": "a table with skew, a list of numbers ≥ 0; utilisation, a list of numbers above 0 and at most 1 or of "
    '[utilisation, weight]; and memory, a list of ["persistent", "ephemeral"]',
    "held_back": "a table with filled, the part of the time left idle that throttled guests compute, and "
    "beside, the rate of the others beside them; numbers above 0 and at most 1",
    "failures": "a table with mtbf_s and repair_s, numbers of seconds ≥ 0",
}
"""What a world file may say, and what each value is."""


def load_world(name: str) -> World:
    """A packaged world by name, or a TOML file that overrides values of the default one."""
    if name in PACKAGED:
        return _packaged(name)
    path = Path(name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f"{did_you_mean(name, PACKAGED)}--world takes {', '.join(PACKAGED)} or a TOML file"
        raise InputError(f'there is no world "{name}", and no such file', hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the world file {name} cannot be read: {error}", "give a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}", f"keys: {', '.join(KEYS)}") from error
    return _merge(_packaged("default"), path.stem, table, name)


@cache
def _packaged(name: str) -> World:
    text = resources.files("weft.sim").joinpath("worlds", f"{name}.toml").read_text(encoding="utf-8")
    return _merge(World(name, counts_only=False, preemption_s=0.0), name, tomllib.loads(text), name)


def _merge(base: World, name: str, table: Mapping[str, Any], source: str) -> World:
    values: dict[str, Any] = {"name": name}
    for key, given in table.items():
        found = _read(base, key, given, source)
        if found is None:
            raise _refusal(key, given, source)
        values |= found
    asked_s = values.get("pause_s", 0.0)
    if asked_s > values.get("preemption_s", base.preemption_s):
        raise _refusal("pause_s", asked_s, source)
    return replace(base, **values)


def _read(base: World, key: str, given: Any, source: str) -> dict[str, Any] | None:
    """The fields of a world that one key of a file sets; None if that makes no sense."""
    match key, given:
        case "counts_only", bool():
            return {key: given}
        case "preemption_s" | "startup_s" | "pause_s" | "measure_s", _ if _is_number(given):
            return {key: float(given)}
        case "rate_noise", _ if _is_number(given) and given <= 1:
            return {key: float(given)}
        case "speed" | "skew", dict():
            return {key: {**getattr(base, key), **_numbers(given, key, source)}}
        case "memory", dict():
            return {key: {**base.memory, **_sizes(given, source)}}
        case "interference", {"contention": contention, **rest} if not rest and _is_number(contention):
            return {key: Fitted(float(contention))}
        case "interference", str():
            known = base.interference
            path = Path(source).parent / given
            return {key: read_table(path, known if isinstance(known, Fitted) else Fitted())}
        case "models", dict():
            return _models(base, given)
        case "unknown", dict():
            return _unknown(given)
        case "held_back", dict() if given.keys() <= {"filled", "beside"} and all(map(_is_part, given.values())):
            return {key: replace(base.held_back, **{name: float(number) for name, number in given.items()})}
        case "failures", dict() if given.keys() <= {"mtbf_s", "repair_s"} and all(map(_is_number, given.values())):
            return {name: float(number) for name, number in given.items()}
        case _:
            return None


def _models(base: World, given: Mapping[str, Any]) -> dict[str, Any] | None:
    models = dict(base.models)
    for model, habits in given.items():
        if not isinstance(habits, dict) or not habits.keys() <= {"utilisation", "memory"}:
            return None
        before = models.get(plain(model), Habits())
        load = _load(habits["utilisation"]) if "utilisation" in habits else before.load
        memory = _memory(habits["memory"]) if "memory" in habits else before.memory
        if ("utilisation" in habits and not load) or ("memory" in habits and not memory):
            return None
        models[plain(model)] = Habits(load, memory)
    return {"models": models}


def _unknown(given: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for key, choices in given.items():
        if not isinstance(choices, list):
            return None
        match key:
            case "skew" if all(map(_is_number, choices)):
                found["unknown_skew"] = tuple(map(float, choices))
            case "utilisation" if all(map(_load, choices)):
                found["unknown_utilisation"] = tuple(map(_load, choices))
            case "memory" if all(map(_memory, choices)):
                found["unknown_memory"] = tuple(map(_memory, choices))
            case _:
                return None
    return found


def _is_part(given: Any) -> bool:
    return _is_number(given) and 0 < given <= 1


def _refusal(key: str, given: Any, source: str) -> InputError:
    if key in KEYS:
        return InputError(f"{source}: {key} = {given!r} is wrong", f"{key} is {KEYS[key]}")
    return InputError(f"{source}: unknown key {key}", f"{did_you_mean(key, KEYS)}keys: {', '.join(KEYS)}")


# ---- Single values of a world file: what each may be.


def _is_number(given: Any, least: float = 0.0) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and least <= given < math.inf


def _numbers(table: Mapping[str, Any], key: str, source: str) -> dict[str, float]:
    least = 0.0 if key == "skew" else 1e-9
    for name, given in table.items():
        if not _is_number(given, least):
            bound = "≥ 0" if key == "skew" else "above 0"
            raise InputError(f"{source}: [{key}] {name} = {given!r} is not a number {bound}", f"e.g. {name} = 1.0")
    return {name: float(given) for name, given in table.items()}


def _sizes(table: Mapping[str, Any], source: str) -> dict[str, int]:
    found = {}
    for name, given in table.items():
        found[name] = _size(given) or 0
        if not found[name]:
            raise InputError(f"{source}: [memory] {name} = {given!r} is not a size", f'e.g. {name} = "16G"')
    return found


def _size(given: Any) -> int | None:
    """Bytes: a whole number, or a text like "1.5G"."""
    if isinstance(given, str):
        try:
            return parsed_bytes(given)
        except InputError:
            return None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None


def _memory(given: Any) -> tuple[int, int] | None:
    """What lasts and what does not; nothing is no answer."""
    if not isinstance(given, list) or len(given) != 2:
        return None
    persistent, ephemeral = map(_size, given)
    return (persistent, ephemeral) if persistent and ephemeral is not None else None


def _load(given: Any) -> tuple[float, float] | None:
    """A utilisation, or one and a weight."""
    utilisation, weight = given if isinstance(given, list) and len(given) == 2 else (given, 1.0)
    if not _is_number(utilisation, 1e-6) or not _is_number(weight, 1e-6) or utilisation > 1:
        return None
    return float(utilisation), float(weight)
