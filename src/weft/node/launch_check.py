"""Whether what an order or a record says of a launch is what a launch needs."""

from __future__ import annotations

from typing import Any

from weft.core.errors import WeftError

MOST_TASKS = 4096
ENDLESS = 1 << 63


def checked_launch(asked: Any) -> dict[str, Any]:
    """What an order, or a record, says of a launch; WeftError if it is not what a launch needs. What the kernel refuses
    of it is reported by the shepherd."""
    try:
        words, env = asked["command"], asked["env"]
        folder, numbers = asked["cwd"], [asked[name] for name in ("umask", "tasks", "devices_per_task")]
    except (TypeError, KeyError) as error:
        raise WeftError(f"its order is not complete: {error}") from error
    if not isinstance(env, dict) or not isinstance(words, list) or not words or not asked["tasks"]:
        raise WeftError("its order is malformed")
    if not all(isinstance(text, str) for text in [folder, *words, *env, *env.values()]):
        raise WeftError("something in its command or environment is not a text")
    if not all(isinstance(asked.get(name) or "", str) for name in ("output", "name")):
        raise WeftError("something in its order is not a text")
    numbers += [asked[name] for name in ("memory_bytes", "limit_bytes", "cpus") if asked.get(name) is not None]
    numbers += list((asked.get("tty") or {}).values()) if isinstance(asked.get("tty") or {}, dict) else [-1]
    if not all(isinstance(number, int) and 0 <= number < ENDLESS for number in numbers) or asked["tasks"] > MOST_TASKS:
        raise WeftError("a number in its order makes no sense")
    return dict(asked)
