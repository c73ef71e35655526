"""The request for a job: options as users write them, checked and turned into what the daemon reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from weft.core.errors import InputError
from weft.system.request_limits import check_folder, check_job, shown

CLASSES = ("auto", "guaranteed", "opportunistic")
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
LEAST_PRIORITY, MOST_PRIORITY = -100, 100
MOST_CPUS = 100_000
MOST_DEVICE_ID = 100_000
LATEST_BEGIN_S = 1e11
"""Seconds since 1970: what a date can be made of. How far away it may be is for `parsed_time` to say."""
AFTER_KINDS = ("afterok", "afterany", "afternotok")
KEPT_IN_CLEAN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TERM", "TMPDIR")
"""What a clean environment keeps of the present one, besides LC_*: without these no program finds its way."""
TRUST = "WEFT_TRUST_CHECKPOINT"
"""As runtime/checkpoint/folder.py reads it."""
OF_AN_OUTER_JOB = (
    "WEFT_PAGE",
    "WEFT_TASK",
    "WEFT_JOB_ID",
    "WEFT_ATTEMPT",
    "WEFT_CHECKPOINTS",
    TRUST,
    "WEFT_ARRAY_INDEX",
    "WEFT_TIER",
    "WEFT_STRICT",
    "WEFT_LANE",
    "WEFT_LANES",
    "WEFT_LANE_CAPACITY",
    "WEFT_SOFT_NOFILE",
)
OF_AN_OUTER_GANG = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Options(TypedDict, total=False):
    """What may be said about a job besides its command. The daemon chooses what is None or omitted."""

    name: str | None
    cwd: str | os.PathLike[str] | None
    umask: int | None
    env: Mapping[str, str] | None
    gpus: int | None
    ntasks: int | None
    gpu_mem: str | int | None
    mem: str | int | None
    job_class: str | None
    tenant: str | None
    time: str | float | None
    steps: int | None
    retries: int | None
    requeue: bool | None
    hold: bool | None
    share: bool | None
    migrate: bool | None
    trust_checkpoint: bool | None
    weight: float | None
    priority: int | None
    cpus: int | None
    gpu_ids: str | Iterable[int | str] | None
    begin: str | float | None
    output: str | os.PathLike[str] | None
    after: str | Iterable[str] | None
    types: str | Iterable[str] | None
    stdin: bool | None
    split: bool | None
    tty: Mapping[str, int] | None


def job_request(command: str | Sequence[str], array: str | None, options: Options) -> dict[str, Any]:
    """What to send for a job. It gets this process's folder, umask and environment unless others are given."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    asked: dict[str, Any] = dict(options)
    words = _words(command)
    if not words:
        raise InputError("no command is given", "e.g. weft run -- python train.py")
    if array is not None:
        _check_array(array)
    ids = _device_ids(asked.pop("gpu_ids", None))
    gpus, ntasks = asked.get("gpus"), asked.get("ntasks")
    if ids and gpus and gpus != len(ids):
        raise InputError(
            f"{len(ids)} devices are named, and {gpus} asked for", "omit --gpus: --gpu-ids sets the number"
        )
    gpus = len(ids) if ids else gpus
    if gpus and ntasks and gpus % ntasks:
        even = max(1, round(gpus / ntasks)) * ntasks
        raise InputError(f"{gpus} devices cannot be shared out evenly among {ntasks} tasks", f"e.g. --gpus {even}")
    env = asked.pop("env", None)
    umask = asked.pop("umask", None)
    wanted = {
        "command": words,
        "cwd": _folder(asked.pop("cwd", None)),
        "umask": present_umask() if umask is None else umask,
        "env": with_trust(cleaned(os.environ if env is None else env), bool(asked.pop("trust_checkpoint", False))),
        "gpu_mem_bytes": _bytes(asked.pop("gpu_mem", None)),
        "mem_bytes": _bytes(asked.pop("mem", None)),
        "class": asked.pop("job_class", None),
        "time_s": _seconds(asked.pop("time", None)),
        "after": [checked_dependency(each) for each in _dependencies(asked.pop("after", None))] or None,
        "priority": _within("priority", asked.pop("priority", None), LEAST_PRIORITY, MOST_PRIORITY),
        "cpus": _within("number of CPU cores", asked.pop("cpus", None), 1, MOST_CPUS),
        "gpu_ids": ids,
        "begin_at": _begin(asked.pop("begin", None)),
        "output": _output(asked.pop("output", None)),
        "types": _listed(asked.pop("types", None)) or None,
        "weight": _weight(asked.pop("weight", None)),
        "array": array,
        **asked,
    }
    request = {key: value for key, value in wanted.items() if value is not None}
    check_job(request)
    return request


def checked_id(text: str | int) -> str:
    """A job's id as the daemon writes it: a number, or a number and an element's index."""
    job_id = str(text).strip()
    parts = job_id.split("_")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise InputError(
            f'"{text}" is no job id', "a number as weft queue shows it: 17, or 17_3 for element 3 of array 17"
        )
    return job_id


def checked_dependency(text: str | int) -> str:
    """17, afterok:17 (the same), afterany:17 or afternotok:17."""
    kind, colon, job_id = str(text).strip().rpartition(":")
    if colon and kind not in AFTER_KINDS:
        raise InputError(
            f'"{kind}" is no kind of dependency', f"{', '.join(AFTER_KINDS)}; afterok is what is meant by none"
        )
    return f"{kind}:{checked_id(job_id)}" if kind in AFTER_KINDS[1:] else checked_id(job_id)


def with_variables(environ: Mapping[str, str], wanted: Iterable[str], *, is_clean: bool = False) -> dict[str, str]:
    """An environment with variables added or replaced: each NAME=VALUE, or NAME for its present value."""
    env = cleaned(environ)
    if is_clean:
        env = {name: value for name, value in env.items() if name in KEPT_IN_CLEAN or name.startswith("LC_")}
    for each in wanted:
        name, equals, value = each.partition("=")
        if not name:
            raise InputError(f"{shown(each)} names no variable", "NAME=VALUE, or NAME for its present value")
        if name in OF_AN_OUTER_JOB:
            raise InputError(f"{name} is for weft to set", "choose another name")
        if not equals and name not in environ:
            raise InputError(f"{shown(name)} is not set here", f"give it a value: --env {shown(name)[1:-1]}=VALUE")
        env[name] = value if equals else environ[name]
    return env


def check_gpu_ids(ids: Sequence[int]) -> None:
    if len(set(ids)) != len(ids):
        raise InputError("a device is named twice", "e.g. --gpu-ids 0,1")
    if not all(0 <= each <= MOST_DEVICE_ID for each in ids):
        raise InputError(f"an index of a device is 0 to {MOST_DEVICE_ID:,}", "weft nodes lists them")


def cleaned(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a job around us got for itself alone."""
    gone = OF_AN_OUTER_JOB + (OF_AN_OUTER_GANG if "WEFT_TASK" in environ else ())
    env = {name: value for name, value in environ.items() if name not in gone}
    if path := env.get("PYTHONPATH"):
        from weft.node.devices.preload import INJECT

        _keep(env, "PYTHONPATH", [entry for entry in path.split(":") if entry != INJECT])
    if before := env.get("LD_PRELOAD"):
        from weft.node.devices.preload import others_preloaded

        _keep(env, "LD_PRELOAD", others_preloaded(before))
    return env


def with_trust(env: Mapping[str, str], is_trusting: bool) -> dict[str, str]:
    """The environment of a job that loads any checkpoint, or of one that does not."""
    others = {name: value for name, value in env.items() if name != TRUST}
    return {**others, TRUST: "1"} if is_trusting else others


def _keep(env: dict[str, str], name: str, entries: Sequence[str]) -> None:
    """A variable without entries is none."""
    env[name] = ":".join(entries)
    if not entries:
        del env[name]


def present_umask() -> int:
    """Read, not set and set back: other threads may be making files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022


def _words(command: str | Sequence[str]) -> list[str]:
    if not isinstance(command, str):
        return list(command)
    import shlex  # what is loaded here, `weft submit` need not wait for

    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command {command} cannot be read: {error}", "give it as a list of words") from error


def _check_array(text: str) -> None:
    from weft.system.units import parse_array

    parse_array(text)


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - the folder's name is all we need
    except FileNotFoundError as error:
        raise InputError("the current folder no longer exists", "cd to another one") from error


def _listed(value: str | Iterable[str] | None) -> list[str]:
    """Several words: as a list, with commas between, or both."""
    texts = [value] if isinstance(value, str) else value or []
    return [word.strip() for text in texts for word in str(text).split(",") if word.strip()]


def _folder(value: str | os.PathLike[str] | None) -> str:
    """Where it is to run: one that is named must be there."""
    if value is None:
        return _here()
    path = os.fspath(value)
    if not path:
        raise InputError("the folder to run in is empty", "--cwd DIR")
    path = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - pathlib takes its time to load
    check_folder(path)
    if not os.path.isdir(path):  # noqa: PTH112
        is_there = os.path.lexists(path)
        raise InputError(
            f"{shown(path)} {'is not a folder' if is_there else 'does not exist'}", f"mkdir -p {shown(path)}"
        )
    if not os.access(path, os.X_OK):
        raise InputError(f"{shown(path)} cannot be entered", f"ls -ld {shown(path)}")
    return path


def _output(value: str | os.PathLike[str] | None) -> str | None:
    return None if value is None else os.path.expanduser(os.fspath(value))  # noqa: PTH111


def _begin(value: str | float | None) -> float | None:
    if value is None:
        return None
    from weft.system.units import parsed_time

    return parsed_time(value)


def _device_ids(value: str | Iterable[int | str] | None) -> list[int] | None:
    """0,1 or 0-3, or numbers."""
    if value is None:
        return None
    ids: list[int] = []
    for each in _listed(value if isinstance(value, str) else [str(one) for one in value]):
        first, dash, last = each.partition("-")
        ends = [first, last] if dash else [first]
        if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in ends):
            raise InputError(f"{shown(each)} is no index of a device", "e.g. --gpu-ids 0,1; weft nodes lists them")
        ids += range(int(first), int(ends[-1]) + 1)
    if not ids:
        raise InputError("no device is named", "e.g. --gpu-ids 0,1")
    check_gpu_ids(ids)
    return ids


def _dependencies(value: str | Iterable[str] | None) -> list[str]:
    """As Slurm has them: several ids after one kind (afterok:17:18), several kinds with commas between."""
    found = []
    for each in _listed(value):
        kind, *ids = each.split(":")
        found += [f"{kind}:{job_id}" for job_id in ids] if ids else [kind]
    return found


def _within(what: str, value: int | None, least: int, most: int) -> int | None:
    if value is not None and not (isinstance(value, int) and least <= value <= most):
        raise InputError(f"a {what} of {value} is not between {least:,} and {most:,}", "give a whole number")
    return value


def _weight(value: float | None) -> float | None:
    if value is not None and not LEAST_WEIGHT <= value <= MOST_WEIGHT:
        raise InputError(
            f"a weight of {value:g} is not between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}",
            "2 is twice the time of a job of weight 1, where jobs take turns",
        )
    return value


def _bytes(value: str | int | None) -> int | None:
    if not isinstance(value, str):
        return value
    from weft.system.units import parsed_limit

    return parsed_limit(value)


def _seconds(value: str | float | None) -> float | None:
    if not isinstance(value, str):
        return value
    from weft.system.units import parsed_seconds

    return parsed_seconds(value)
