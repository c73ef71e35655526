"""The most that may be asked for: one definition for the client, the REST API and the link to the coordinator.

A job that passes these checks can be sent to the coordinator in one line, and the kernel accepts its command and
environment. What a machine cannot run is refused when it is submitted, not when it starts.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.core.errors import InputError

STRING_BYTES = 128 << 10
"""One argument or one NAME=value, with its terminating zero byte (Linux: MAX_ARG_STRLEN)."""
EXECVE_BYTES = 6 << 20
"""Arguments and environment together, however large the stack may grow (Linux: three quarters of _STK_LIM)."""
LEAST_EXECVE_BYTES = 128 << 10
POINTER_BYTES = 8
RESERVED_BYTES = 32 << 10
"""Of the bytes above, for the variables that weft adds."""
PREFIX_BYTES = 8 << 10
"""Of STRING_BYTES, for what weft puts in front of the variables it extends."""
EXTENDED = ("PYTHONPATH", "LD_PRELOAD")
WORDS = 100_000
VARIABLES = 20_000
PATH_BYTES = 4095
COMPONENT_BYTES = 255
NAME_LETTERS = 200
AWAITED = 10_000
ARRAY_BYTES = 32 << 20
"""The request of an array, once for each of its elements: each has a row of its own."""
ESCAPED_BYTES = 6
"""The most that JSON takes for one byte: a control character, or a byte that is not UTF-8, is written as \\uXXXX."""
ORDER_LINE_BYTES = 64 << 20
REPORT_LINE_BYTES = 16 << 20
BODY_BYTES = 1 << 20
"""A request without its command and environment; the lists in it (`after`, `types`) are bounded."""
SHOWN_LETTERS = 60

LARGE_DATA = "put large data into a file and pass its path"
UNSET = "unset what the job does not need, or put large data into a file"


def execve_bytes() -> int:
    """How much the kernel lets a process started from here have as arguments and environment."""
    stack_bytes = resource.getrlimit(resource.RLIMIT_STACK)[0]
    quarter = EXECVE_BYTES if stack_bytes == resource.RLIM_INFINITY else stack_bytes // 4
    return max(LEAST_EXECVE_BYTES, min(EXECVE_BYTES, quarter))


def body_bytes(room_bytes: int) -> int:
    """The largest body of a request whose job may have `room_bytes` of arguments and environment."""
    return ESCAPED_BYTES * room_bytes + BODY_BYTES


def check_job(request: Mapping[str, Any]) -> None:
    """What can be known without the daemon. It knows its own stack limit, and checks with that again."""
    check_command(request["command"])
    env = request.get("env") or {}
    check_environment(env)
    check_execve(request["command"], env, EXECVE_BYTES)
    check_folder(request["cwd"])
    if "output" in request:
        check_output(request["output"])
    for field in ("name", "tenant"):
        if field in request:
            check_name(field, request[field])
    for each in request.get("types") or ():
        check_name("device type", each)
    if len(request.get("after") or ()) > AWAITED:
        raise too_many_awaited()


def check_command(words: Sequence[str]) -> None:
    if not words[0]:
        raise InputError("the first word of the command names no program", "e.g. weft run -- python train.py")
    if len(words) > WORDS:
        raise InputError(f"the command has {len(words):,} words, and {WORDS:,} is the most", LARGE_DATA)
    for number, word in enumerate(words, 1):
        size = _size_of(word)
        if size is None or size >= STRING_BYTES:
            what = f"word {number} of the command"
            raise _too_long(what, encoded_bytes(word, what), STRING_BYTES - 1, LARGE_DATA)


def check_environment(env: Mapping[str, str]) -> None:
    if len(env) > VARIABLES:
        raise InputError(f"the environment has {len(env):,} variables, and {VARIABLES:,} is the most", UNSET)
    for name, value in env.items():
        if not name or "=" in name:
            raise InputError(f"{shown(name)} is no name of a variable", "a name is not empty and has no =")
        sizes = _size_of(name), _size_of(value)
        most = STRING_BYTES - 1 - (PREFIX_BYTES if name in EXTENDED else 0)
        if None in sizes or sum(size or 0 for size in sizes) + 1 > most:
            what = f"the variable {shown(name)}"
            size = encoded_bytes(name, "the name of a variable") + 1 + encoded_bytes(value, what)
            raise _too_long(f"{what} with its name", size, most, UNSET)


def check_execve(words: Iterable[str], env: Mapping[str, str], room_bytes: int) -> None:
    """Strings with their zero bytes, and a pointer to each, as the kernel counts them."""
    strings = [*words, *env.keys(), *env.values()]
    pointers = len(strings) - len(env)
    total = sum(map(_size, strings)) + len(env) + pointers * (1 + POINTER_BYTES)
    most = room_bytes - RESERVED_BYTES
    if total > most:
        what = f"the command and its environment have {total:,} bytes together"
        raise InputError(f"{what}, and {most:,} is the most here", f"{UNSET}; ulimit -s of the daemon sets the most")


def check_folder(path: str) -> None:
    if not path.startswith("/"):
        raise InputError(f"the folder {shown(path)} is not absolute: it begins with /", "give its full path")
    size = encoded_bytes(path, "the folder")
    longest = max(map(_size, path.split("/")))
    if size > PATH_BYTES or longest > COMPONENT_BYTES:
        limit = f"{PATH_BYTES:,} in all and {COMPONENT_BYTES} for one name are the most that the kernel accepts"
        raise InputError(
            f"the path of the folder has {size:,} bytes, {longest:,} in its longest name; {limit}", "use a shorter path"
        )


def check_output(path: str) -> None:
    """A pattern for a file's path. What stands for something else in it may still make it too long when it starts."""
    size = encoded_bytes(path, "the output")
    longest = max(map(_size, path.split("/")))
    if not path or path.endswith("/"):
        raise InputError(f"the output {shown(path)} names no file", "e.g. --output out-%j.log")
    if size > PATH_BYTES or longest > COMPONENT_BYTES:
        limit = f"{PATH_BYTES:,} in all and {COMPONENT_BYTES} for one name are the most that the kernel accepts"
        raise InputError(f"the path of the output has {size:,} bytes; {limit}", "use a shorter path")


def check_name(what: str, text: object) -> None:
    if not isinstance(text, str) or not 1 <= len(text) <= NAME_LETTERS or not text.isprintable():
        hint = "without line breaks, escape sequences and other control characters"
        raise InputError(f"a {what} is a text of 1 to {NAME_LETTERS} printable characters", hint)


def check_array(elements: int, request_bytes: int) -> None:
    if elements * request_bytes > ARRAY_BYTES:
        what = f"{elements:,} elements of {request_bytes:,} bytes each are too large for one array"
        hint = "shorten the command, or let the array come after one job that comes after all the others"
        raise InputError(f"{what}: {ARRAY_BYTES:,} bytes is the most", hint)


def too_many_awaited() -> InputError:
    hint = "let it come after one job that comes after some of them, and so on"
    return InputError(f"it comes after more than {AWAITED:,} jobs, which is the most", hint)


def encoded_bytes(text: object, what: str) -> int:
    """How many bytes a process gets. Bytes that are no UTF-8 are in `text` as Python has them (surrogateescape)."""
    if not isinstance(text, str) or "\0" in text:
        raise InputError(f"{what} is not a text without zero bytes", "no argument, variable or path can hold one")
    size = _size_of(text)
    if size is None:
        raise InputError(f"{what} has a character that no file name can hold: a lone surrogate", "write it in UTF-8")
    return size


def shown(text: str) -> str:
    """Part of a message, whatever is in it."""
    short = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}…"
    return '"' + "".join(letter if letter.isprintable() else "?" for letter in short) + '"'


def _too_long(what: str, size: int, most: int, hint: str) -> InputError:
    return InputError(f"{what} has {size:,} bytes, and {most:,} is the most that the kernel accepts", hint)


def _size_of(text: object) -> int | None:
    """None if no process can get it."""
    if not isinstance(text, str) or "\0" in text:
        return None
    try:
        return _size(text)
    except UnicodeEncodeError:
        return None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
