"""What REST requests may contain, checked before anything reaches the control state."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from weft.client.job_request import (
    LATEST_BEGIN_S,
    LEAST_PRIORITY,
    LEAST_WEIGHT,
    MOST_CPUS,
    MOST_DEVICE_ID,
    MOST_PRIORITY,
    MOST_WEIGHT,
    check_gpu_ids,
    cleaned,
)
from weft.core.errors import InputError
from weft.system import request_limits as limits
from weft.system.units import parse_array

MOST_BYTES = 2**60
LONGEST_S = 10 * 365 * 86_400.0
ROOM_BYTES = limits.execve_bytes()
"""For the arguments and the environment of a job. Jobs inherit the stack limit of the daemon."""

T = TypeVar("T")


def _checked(check: Callable[[Any], None], kind: type) -> PlainValidator:
    """By a rule that the client has too. What it refuses may hold bytes that are no text, as file names may."""

    def validate(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError("it is of another type")  # noqa: TRY004 - what pydantic expects
        return _passed(check, value)

    return PlainValidator(validate)


def _passed(check: Callable[[T], object], value: T) -> T:
    try:
        check(value)
    except InputError as error:
        raise ValueError(str(error)) from None
    return value


def _check_words(words: list[str]) -> None:
    if not words:
        raise InputError("no command is given", "e.g. weft run -- python train.py")
    limits.check_command(words)


def _named(what: str) -> PlainValidator:
    return _checked(lambda text: limits.check_name(what, text), str)


TEXT = {"type": "string", "pattern": "^[^\\x00]*$"}
Words = Annotated[
    list[str],
    _checked(_check_words, list),
    WithJsonSchema({"type": "array", "items": TEXT, "minItems": 1, "maxItems": limits.WORDS}),
]
Environment = Annotated[
    dict[str, str],
    _checked(limits.check_environment, dict),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[^=\\x00]+$"},
            "additionalProperties": TEXT,
            "maxProperties": limits.VARIABLES,
        }
    ),
]
Folder = Annotated[
    str,
    _checked(limits.check_folder, str),
    WithJsonSchema({"type": "string", "pattern": "^/[^\\x00]*$", "maxLength": limits.PATH_BYTES}),
]
NAME = WithJsonSchema({"type": "string", "minLength": 1, "maxLength": limits.NAME_LETTERS, "pattern": "^[ -~]+$"})
Name = Annotated[str, _named("name"), NAME]
Tenant = Annotated[str, _named("tenant"), NAME]
DeviceType = Annotated[str, _named("device type"), NAME]
NUMBER = r"^[1-9][0-9]{0,14}$"
ID = r"^[1-9][0-9]{0,14}(_(0|[1-9][0-9]{0,6}))?$"
AFTER = r"^(after(ok|any|notok):)?[1-9][0-9]{0,14}(_(0|[1-9][0-9]{0,6}))?$"
JobId = Annotated[str, InPath(pattern=ID, description="17, or 17_3 for element 3 of array 17")]
Dependency = Annotated[str, Field(pattern=AFTER)]
OutputPath = Annotated[
    str,
    _checked(limits.check_output, str),
    WithJsonSchema({"type": "string", "pattern": "^[^\\x00]+$", "maxLength": limits.PATH_BYTES}),
]
Reference = Annotated[str, Field(pattern=ID)]
RequestId = Annotated[str, Field(min_length=1, max_length=100, pattern="^[!-~]+$")]
Bytes = Annotated[int, Field(ge=1, le=MOST_BYTES)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class TerminalWindow(Strict):
    rows: int = Field(24, ge=1, le=10_000)
    cols: int = Field(80, ge=1, le=10_000)


class JobRequest(Strict):
    """A job as it is asked for. What is left out is chosen: one device, one task, no limits."""

    command: Words
    name: Name | None = None
    cwd: Folder | None = None
    umask: int = Field(0o022, ge=0, le=0o777)
    env: Environment | None = Field(None, description="left out: the daemon's own")
    gpus: int | None = Field(None, ge=1, le=10_000, description="devices in all; left out: one a task")
    ntasks: int = Field(1, ge=1, le=10_000)
    gpu_mem_bytes: Bytes | None = None
    mem_bytes: Bytes | None = None
    job_class: Literal["auto", "guaranteed", "opportunistic"] = Field("auto", alias="class")
    tenant: Tenant = "default"
    time_s: float | None = Field(None, gt=0, le=LONGEST_S, allow_inf_nan=False)
    steps: int | None = Field(None, ge=1, le=2**53)
    retries: int = Field(0, ge=0, le=1_000)
    requeue: bool = True
    hold: bool = False
    share: bool = Field(True, description="whether others may compute on its devices beside it")
    migrate: bool = Field(True, description="whether it may be moved to other devices where that pays")
    weight: float = Field(
        1.0,
        ge=LEAST_WEIGHT,
        le=MOST_WEIGHT,
        allow_inf_nan=False,
        description="where jobs take turns, its part of the time against that of others",
    )
    priority: int = Field(
        0,
        ge=LEAST_PRIORITY,
        le=MOST_PRIORITY,
        description="among the jobs of its tenant, those of a higher priority go first",
    )
    cpus: int | None = Field(None, ge=1, le=MOST_CPUS, description="CPU cores that each task needs")
    gpu_ids: list[Annotated[int, Field(ge=0, le=MOST_DEVICE_ID)]] | None = Field(
        None, min_length=1, max_length=10_000, description="these devices, by index, all of them and no others"
    )
    begin_at: float | None = Field(
        None, ge=0, le=LATEST_BEGIN_S, allow_inf_nan=False, description="not before, in seconds since 1970"
    )
    output: OutputPath | None = Field(None, description="a file for what it prints; %j %A %a %x %t %u %% stand for")
    array: str | None = Field(None, max_length=10_000)
    after: list[Dependency] = Field(default=[], max_length=limits.AWAITED)
    types: list[DeviceType] | None = Field(None, min_length=1, max_length=100)
    stdin: bool = False
    split: bool = False
    tty: TerminalWindow | None = None
    request_id: RequestId | None = None

    @field_validator("array")
    @classmethod
    def _is_an_array(cls, array: str | None) -> str | None:
        if array is not None:
            _passed(parse_array, array)
        return array

    @field_validator("gpu_ids")
    @classmethod
    def _are_different(cls, ids: list[int] | None) -> list[int] | None:
        if ids is not None:
            _passed(check_gpu_ids, ids)
        return ids

    @model_validator(mode="after")
    def _names_as_many_devices_as_it_wants(self) -> JobRequest:
        if self.gpu_ids is not None:
            if self.gpus is not None and self.gpus != len(self.gpu_ids):
                raise ValueError(f"gpu_ids: {len(self.gpu_ids)} devices are named, and {self.gpus} asked for")
            self.gpus = len(self.gpu_ids)
        return self

    @model_validator(mode="after")
    def _shares_devices_evenly(self) -> JobRequest:
        if self.gpus is not None and self.gpus % self.ntasks:
            raise ValueError(f"gpus: {self.gpus} devices cannot be shared evenly by {self.ntasks} tasks")
        return self

    @model_validator(mode="after")
    def _can_be_started(self) -> JobRequest:
        _passed(lambda env: limits.check_execve(self.command, env, ROOM_BYTES), self.environment)
        return self

    @property
    def environment(self) -> dict[str, str]:
        return cleaned(os.environ) if self.env is None else self.env

    def complete(self) -> dict[str, Any]:
        """The request with every choice made, as plain values, without its environment."""
        plain = self.model_dump(by_alias=True, exclude={"env", "request_id"})
        plain["name"] = self.name or _named_after(self.command)
        plain["cwd"] = self.cwd or str(Path.home())
        plain["gpus"] = self.gpus or self.ntasks
        if self.array is not None:
            plain["array_indices"], plain["array_limit"] = parse_array(self.array)
        return plain


def _named_after(command: list[str]) -> str:
    """The name of the script: python train.py is train.py."""
    words = [Path(word).name for word in command]
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    return "".join(letter for letter in script if letter.isprintable())[: limits.NAME_LETTERS] or "job"


class Rerun(Strict):
    request_id: RequestId | None = None


class PolicyName(Strict):
    policy: str = Field(min_length=1, max_length=10_000)


class Shutdown(Strict):
    stop_jobs: bool = False
