"""What is wrong with a log, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.errors import WeftError

REPAIR = "weft repair recovers what can be read and keeps the damaged file; weft restore goes back to a backup"
SHOWN = 5


class DamageError(WeftError):
    """The log is not what was written. Nothing has been changed, and jobs that run are left alone."""

    def __init__(self, problems: Sequence[str], hint: str = REPAIR) -> None:
        more = f"\n  and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        shown = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
        super().__init__(problems[0] if len(problems) == 1 else f"the log is damaged:{shown}{more}", hint)
        self.problems = tuple(problems)
