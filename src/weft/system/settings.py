"""weft.toml: what can be set, checked. A flag goes before the environment, that before the file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.core.text import did_you_mean
from weft.core.values import STARTUP_S
from weft.system.files import WrongKindError, read_regular
from weft.system.units import parsed_seconds

DEFAULT_POLICY = "weft"
FENCES = ("auto", "cgroup", "scan")
OFF = "off"


@dataclass(frozen=True)
class Settings:
    policy: str = DEFAULT_POLICY
    devices: str = ""
    """As `weft up --devices` takes it; empty means: what is found."""
    stop_grace_s: float = 5.0
    """From asking a job to end (SIGTERM) to ending it (SIGKILL)."""
    pause_grace_s: float = 10.0
    """How long a step boundary is waited for before a job is stopped where it stands."""
    startup_s: float = STARTUP_S
    """How long an attempt may take to its first step before it is charged and may be preempted; 0: not at all."""
    silent_s: float = 10.0
    """A coordinator that says nothing for so long hangs or is stopped, and is replaced; its jobs do not notice."""
    snapshot_rows: int = 5_000
    """Rows of the log between two snapshots: a restart folds at most so many."""
    log_days: float = 30.0
    """How long rows of the log are kept once a snapshot covers them."""
    fence: str = "auto"
    """How the processes of a job are kept together: in cgroups if these can be had, always in cgroups, or by scans."""
    backup_every: str | float = "1h"
    """How often the log is copied while weft runs; "off" for never."""
    strict_memory: bool = False
    """A job fails when it takes more device memory than its --gpu-mem; else the rest goes to disk, and it is slower."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Devices for guaranteed jobs, by tenant."""

    @property
    def backup_every_s(self) -> float | None:
        return None if self.backup_every == OFF else parsed_seconds(str(self.backup_every))


KEYS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "policy": (lambda value: isinstance(value, str), "a policy, as in weft policies"),
    "devices": (lambda value: isinstance(value, str), 'a text like "cpu=4"'),
    "stop_grace_s": (lambda value: _is_number(value), "a number of seconds, 0 or more"),
    "pause_grace_s": (lambda value: _is_number(value), "a number of seconds, 0 or more"),
    "startup_s": (lambda value: _is_number(value), "a number of seconds, 0 or more"),
    "silent_s": (lambda value: _is_number(value) and value > 0, "a number of seconds above 0"),
    "snapshot_rows": (
        lambda value: _is_number(value) and isinstance(value, int) and value >= 1,
        "a whole number of rows, 1 or more",
    ),
    "log_days": (lambda value: _is_number(value), "a number of days, 0 or more"),
    "fence": (
        lambda value: isinstance(value, str) and value in FENCES,
        '"auto", "cgroup" (refuse to start without), or "scan" (cgroups are not used)',
    ),
    "backup_every": (lambda value: _is_interval(value), 'a length of time, as in "30m" or "1h"; "off" for no backups'),
    "strict_memory": (
        lambda value: isinstance(value, bool),
        "true or false: whether a job that takes more device memory than its --gpu-mem fails",
    ),
    "tenants": (lambda value: isinstance(value, dict), "a table, e.g. [tenants.vision] with quota = 4"),
}
VARIABLES = {"WEFT_POLICY": "policy", "WEFT_DEVICES": "devices"}


def load_settings(file: Path, environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    settings = _from_file(file)
    named: dict[str, Any] = {key: environ[name] for name, key in VARIABLES.items() if environ.get(name)}
    named |= {key: value for key, value in flags.items() if value is not None}
    return replace(settings, **named)


def _from_file(file: Path) -> Settings:
    try:
        table = tomllib.loads(read_regular(file).decode("utf-8"))
    except FileNotFoundError:
        return Settings()
    except WrongKindError as error:
        raise InputError(error.message, error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}", "it is a text file in TOML") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not TOML: {error}", f"it may say: {', '.join(KEYS)}") from error
    for key, value in table.items():
        if key not in KEYS:
            raise InputError(f"{file}: unknown key {key}", f"{did_you_mean(key, KEYS)}keys: {', '.join(KEYS)}")
        fits, meaning = KEYS[key]
        if not fits(value):
            raise InputError(f"{file}: {key} = {value!r} is wrong", f"{key} is {meaning}")
    tenants = table.pop("tenants", {})
    return Settings(**table, quotas={name: _quota(file, name, tenant) for name, tenant in tenants.items()})


def _quota(file: Path, name: str, tenant: Any) -> int:
    match tenant:
        case {"quota": int(quota), **rest} if not rest and quota >= 0 and not isinstance(quota, bool):
            return quota
    raise InputError(f"{file}: [tenants.{name}] = {tenant!r} is wrong", "a tenant has quota = N, a number of devices")


def _is_interval(value: Any) -> bool:
    if value == OFF:
        return True
    try:
        return isinstance(value, str | int | float) and not isinstance(value, bool) and parsed_seconds(str(value)) > 0
    except InputError:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
