"""What may be asked for over REST, checked before it reaches the desk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from weft.arrays import parse_array
from weft.core.errors import InputError
from weft.job_request import LEAST_WEIGHT, MOST_WEIGHT

MOST_BYTES = 2**60
LONGEST_S = 10 * 365 * 86_400.0
LONGEST_TEXT = 1 << 20


def _text(value: Any) -> str:
    """Any text that can be handed to a process: file names and variables need not be UTF-8, but hold no zero byte."""
    if not isinstance(value, str) or "\0" in value or len(value) > LONGEST_TEXT:
        raise ValueError("it is a text without zero bytes")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("it holds a character that no file name can hold") from None
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 200:
        raise ValueError("it is a text of 1 to 200 printable characters")
    return value


NO_ZERO = "^[^\\x00]*$"
Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string", "pattern": NO_ZERO})]
Name = Annotated[
    str,
    PlainValidator(_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"}),
]
ID = r"^[1-9][0-9]{0,14}(_(0|[1-9][0-9]{0,6}))?$"
JobId = Annotated[str, InPath(pattern=ID, description="17, or 17_3 for element 3 of array 17")]
Reference = Annotated[str, Field(pattern=ID)]
Bytes = Annotated[int, Field(ge=1, le=MOST_BYTES)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Window(Strict):
    rows: int = Field(24, ge=1, le=10_000)
    cols: int = Field(80, ge=1, le=10_000)


class JobRequest(Strict):
    """A job as it is asked for. What is left out is chosen: one device, one task, no limits."""

    command: list[Text] = Field(min_length=1, max_length=100_000)
    name: Name | None = None
    cwd: Text | None = None
    umask: int = Field(0o022, ge=0, le=0o777)
    env: dict[str, Text] | None = Field(None, description="left out: the daemon's own")
    gpus: int | None = Field(None, ge=1, le=10_000, description="devices in all; left out: one a task")
    ntasks: int = Field(1, ge=1, le=10_000)
    gpu_mem_bytes: Bytes | None = None
    mem_bytes: Bytes | None = None
    job_class: Literal["auto", "guaranteed", "opportunistic"] = Field("auto", alias="class")
    tenant: Name = "default"
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
    array: str | None = Field(None, max_length=10_000)
    after: list[Reference] = Field(default=[], max_length=10_000)
    types: list[Name] | None = Field(None, min_length=1, max_length=100)
    stdin: bool = False
    split: bool = False
    tty: Window | None = None
    request_id: str | None = Field(None, min_length=1, max_length=100, pattern="^[!-~]+$")

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: list[str]) -> list[str]:
        if not command[0]:
            raise ValueError("its first word names no program")
        return command

    @field_validator("env")
    @classmethod
    def _names_variables(cls, env: dict[str, str] | None) -> dict[str, str] | None:
        for name in env or {}:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is no name of a variable")
            _text(name)
        return env

    @field_validator("cwd")
    @classmethod
    def _is_absolute(cls, cwd: str | None) -> str | None:
        if cwd is not None and not cwd.startswith("/"):
            raise ValueError("it begins with /")
        return cwd

    @field_validator("array")
    @classmethod
    def _is_an_array(cls, array: str | None) -> str | None:
        if array is not None:
            try:
                parse_array(array)
            except InputError as error:
                raise ValueError(str(error)) from None
        return array

    @model_validator(mode="after")
    def _shares_devices_evenly(self) -> JobRequest:
        if self.gpus is not None and self.gpus % self.ntasks:
            raise ValueError(f"gpus: {self.gpus} devices cannot be shared evenly by {self.ntasks} tasks")
        return self

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
    """As people call it: python train.py is train.py."""
    words = [Path(word).name for word in command]
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    return "".join(letter for letter in script if letter.isprintable())[:200] or "job"


class PolicyName(Strict):
    policy: str = Field(min_length=1, max_length=10_000)


class Shutdown(Strict):
    stop_jobs: bool = False
