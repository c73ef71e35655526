"""What the throttling controller sees, says and remembers; and its phases, with all transitions in one function."""

from __future__ import annotations

from dataclasses import replace

from weft.core.value import value
from weft.node.sharing.memory_split import Peak
from weft.node.sharing.slowdown import Evidence, Noise, Window

LEARNING, RESTING, SHARING = "learning", "resting", "sharing"
NO_ROOM = "no room"
"""Why guests stand still, or do not; the last one is about one of them."""

FIRST_WAIT_S, FRESH_S = 10.0, 5.0
NOTHING = Window()


@value
class GuestSample:
    """One guest since the last sample. `is_quiet`: it stands at a boundary, or has ended. T unknown: None."""

    job_id: str
    is_quiet: bool
    persistent_bytes: int = 0
    ephemeral_bytes: int | None = 0
    is_idle: bool = False
    """It is in the kernel's idle class, or weighs next to nothing beside the holder."""
    progress: float | None = None
    """Share of its own full speed, of late; None: nothing new is known."""
    devices: frozenset[int] = frozenset({0})
    """On which of them it sits: beside a gang it may be a part."""
    lane: int = 0
    """Which of the devices' lanes it is in; 0: none."""


@value
class ThrottleSample:
    """What was seen since the last one: the holder's steps that ended, what memory it needs (P + T), its guests."""

    durations_s: tuple[float, ...]
    waited_s: float | None = None
    """For how long it stood in line for its cores while guests computed; None: it is not counted."""
    lasted_s: float = 0.0
    needed_bytes: int = 0
    guests: tuple[GuestSample, ...] = ()


@value
class GuestSetting:
    """`duty` 0: it is to stand still. `limit_bytes` None: leave it. `has_room`: if not, pause it so that P is freed."""

    duty: int
    limit_bytes: int | None = None
    has_room: bool = True


@value
class ThrottleSetting:
    guests: dict[str, GuestSetting]
    holder_limit_bytes: int | None
    slowdown: float | None
    """Of the holder, by what is known since the last change; None while that is nothing. While guests rest: why."""
    reason: str


# ---- phases ---------------------------------------------------------------------------------------------------------


@value
class Together:
    """Guests compute at their duty, which is raised as long as the holder is not slower."""


@value
class LearningAlone:
    """Guests are gated, and the holder's step time alone is learnt."""

    since_s: float
    questioned: Window | None = None
    """What was seen beside guests and does not go with the time alone as it was learnt before."""


@value
class Comparing:
    """The holder looked slower: a period beside the guests and one alone in turn. Guests compute."""

    periods: tuple[Evidence, ...] = ()


@value
class ComparingAlone:
    """The same with the guests gated."""

    since_s: float
    periods: tuple[Evidence, ...]


Phase = Together | LearningAlone | Comparing | ComparingAlone


@value
class GuestsChanged:
    """One came or left, or is paced otherwise: what was in doubt is another question now."""


@value
class HolderStalled:
    """There are no steps to learn from."""


@value
class AloneNeeded:
    """The holder's time alone is to be learnt, if only to judge what was `seen` beside guests."""

    seen: Window | None = None


@value
class AloneLearnt:
    """It is known, or as well as can be; `is_slower`: what was questioned is still slower than that."""

    is_slower: bool = False


@value
class PeriodCompared:
    """One more period beside the guests; `is_decided`: no further one is needed."""

    periods: tuple[Evidence, ...]
    is_decided: bool


PhaseEvent = GuestsChanged | HolderStalled | AloneNeeded | AloneLearnt | PeriodCompared


def next_phase(phase: Phase, event: PhaseEvent, now_s: float) -> Phase:
    """All transitions. What is not listed changes nothing."""
    match phase, event:
        case Together(), AloneNeeded(seen):
            return LearningAlone(now_s, seen)
        case Comparing(periods), AloneNeeded():
            return ComparingAlone(now_s, periods)
        case Comparing(), PeriodCompared(periods, is_decided):
            return Together() if is_decided else ComparingAlone(now_s, periods)
        case LearningAlone(), AloneLearnt(is_slower):
            return Comparing() if is_slower else Together()
        case ComparingAlone(_, periods), AloneLearnt():
            return Comparing(periods)
        case LearningAlone() | ComparingAlone(), HolderStalled():
            return replace(phase, since_s=now_s)  # gated from the next step on
        case LearningAlone(since_s) | ComparingAlone(since_s), GuestsChanged():
            return LearningAlone(since_s)
        case Comparing(), GuestsChanged():
            return Together()
    return phase


def gated_since_s(phase: Phase) -> float | None:
    """Since when guests are gated to learn the holder's time alone; None while they are not."""
    return phase.since_s if isinstance(phase, LearningAlone | ComparingAlone) else None


# ---- what is remembered ---------------------------------------------------------------------------------------------


@value
class GuestDuties:
    duties: tuple[tuple[str, int], ...] = ()
    unpaced: frozenset[str] = frozenset()
    """Those in the kernel's idle class."""
    gains: tuple[tuple[str, float], ...] = ()
    """What each makes of its duty."""


@value
class Baseline:
    """The holder alone."""

    alone: Window | None = None
    learnt_s: float = 0.0
    shape_bytes: int = 0
    """What memory it needed then."""
    fresh_s: float = FRESH_S
    """For so long what was learnt is not doubted because the holder is quicker than that."""


@value
class HolderPace:
    """When steps of the holder were last seen, or the first look; and how long those took."""

    stepped_s: float | None = None
    step_s: float = 0.0


@value
class Observation:
    """Steps of the holder since the last change: alone, beside guests, and in this control period."""

    alone: Window = NOTHING
    beside: Window = NOTHING
    recent: Window = NOTHING
    period_from_s: float = 0.0
    to_skip: int = 0
    was_quiet: bool = True


@value
class Rest:
    """Guests that slow the holder at their lowest duty are gated for a while."""

    until_s: float = 0.0
    harm: float = 0.0
    """How much slower the holder was beside its guests when they were last cut."""
    wait_s: float = FIRST_WAIT_S


@value
class MemoryLimits:
    peak: Peak = Peak()
    holder_bytes: int = 0
    """The holder's limit; 0: there was none yet."""
    guests: tuple[tuple[str, int], ...] = ()
    raised_s: float = 0.0
    """When guests were last given more memory."""


@value
class ControllerState:
    phase: Phase = Together()
    guests: GuestDuties = GuestDuties()
    baseline: Baseline = Baseline()
    pace: HolderPace = HolderPace()
    seen: Observation = Observation()
    noise: Noise = Noise()
    rest: Rest = Rest()
    memory: MemoryLimits = MemoryLimits()
