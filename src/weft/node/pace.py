"""What a task makes of its time, for people: its last seconds as they were, with waits for a turn and rests.

A policy goes by a `Gauge`, which keeps circumstances apart; who looks at a listing wants to know how fast it is now.
"""

from __future__ import annotations

from weft.core.value import value
from weft.node.gauge import Look

RECENT_S, RECENT_STEPS = 10.0, 3
"""As long as this at least, and so many steps, however long they take."""


@value
class Pace:
    """Since its lease began: the looks that count, the oldest first, none before the first step."""

    looks: tuple[Look, ...] = ()
    has_stepped: bool = False

    def seen(self, look: Look) -> Pace:
        """With one look more. Of those at one step the first and the last are kept: it may stand still for long."""
        newest = self.looks[-1] if self.looks else None
        if newest is None or look.generation != newest.generation or look.step < newest.step:
            return Pace((look,))
        if not self.has_stepped and look.step > newest.step:
            return Pace((look,), has_stepped=True)  # from the end of a step on: the one before it may be long ago
        is_third = len(self.looks) > 1 and self.looks[-2].step == look.step
        looks = (*(self.looks[:-1] if is_third else self.looks), look)
        while len(looks) > 2 and _is_enough(looks[1], look):
            looks = looks[1:]
        return Pace(looks, self.has_stepped)

    @property
    def rate_hz(self) -> float | None:
        """Steps a second. In a step that takes long it makes no more than if that ended now; None while there is
        little to go by."""
        if not self.looks:
            return None
        first, last = self.looks[0], self.looks[-1]
        steps, lasted_s = last.step - first.step, last.now_s - first.now_s
        if not steps:
            return 1.0 / lasted_s if lasted_s >= RECENT_S else None
        stepping_s = last.stepped_s - first.stepped_s
        return min(steps / stepping_s, (steps + 1) / lasted_s) if stepping_s > 0 and lasted_s > 0 else None


def _is_enough(first: Look, last: Look) -> bool:
    return last.now_s - first.now_s >= RECENT_S and last.step - first.step >= RECENT_STEPS
