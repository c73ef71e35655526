"""What the controller is told of a device's holder and guests, and what it says to do."""

from __future__ import annotations

from dataclasses import replace

from weft.core.value import value
from weft.node.sharing.memory_split import Division, Need, Peak, divided_on_each, whole_grains
from weft.node.sharing.slowdown import HI, OF_THE_NEW, PERIOD_S, Evidence, Noise, Window, evidence, pooled, typical

LEARNING, RESTING, SHARING = "learning", "resting", "sharing"
NO_ROOM = "no room"
"""Why guests stand still, or do not; the last one is about one of them."""

FIRST_DUTY, RAISE_BY = 5, 5
MEMORY_RAISE = 0.05
"""Of the device, to each guest, in each control period."""
PERIOD_STEPS = 10
LEARN_STEPS, REFRESH_STEPS, LEARN_S = 20, 10, 1.0
REFRESH_S, SOONEST_S, FRESH_S = 600.0, 30.0, 5.0
GATE_PATIENCE_S = 30.0
STALLED_S = 10.0
"""A holder without a step for so long, and for ten of its steps, loads data, validates or waits for its user: guests
need not stand still to learn from steps that do not come. That a holder's steps are longer than this is known once the
first of them is seen: it has cost it no more than guests at their first duty in the rest of that one."""
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 300.0
WARM_UP_STEPS = 3
MOST_COMPARED = 8
NOTHING = Window()
LEAP, RESHAPED = 10.0, 1.25


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


@value
class ControllerState:
    duties: tuple[tuple[str, int], ...] = ()
    unpaced: frozenset[str] = frozenset()
    gains: tuple[tuple[str, float], ...] = ()
    baseline: Window | None = None
    learnt_s: float = 0.0
    learning_since_s: float | None = None
    stepped_s: float | None = None
    """When steps of the holder were last seen, or the first look; and how long those took."""
    step_s: float = 0.0
    alone: Window = NOTHING
    beside: Window = NOTHING
    recent: Window = NOTHING
    noise: Noise = Noise()
    period_from_s: float = 0.0
    to_skip: int = 0
    was_quiet: bool = True
    questioned: Window | None = None
    """What was seen beside guests and does not go with the time alone, while that is learnt anew."""
    compared: tuple[Evidence, ...] | None = None
    """The periods beside them since then, if that has not explained it."""
    fresh_s: float = FRESH_S
    """For so long what was learnt is not doubted because the holder is quicker than that."""
    resting_until_s: float = 0.0
    harm: float = 0.0
    """How much slower the holder was beside its guests when they were last cut."""
    wait_s: float = FIRST_WAIT_S
    peak: Peak = Peak()
    holder_bytes: int = 0
    """Its limit; 0: there was none yet."""
    limits: tuple[tuple[str, int], ...] = ()
    raised_s: float = 0.0
    """When guests were last given more memory."""
    shape_bytes: int = 0


def adjust(
    state: ControllerState, sample: ThrottleSample, now_s: float, capacity_bytes: int = 0
) -> tuple[ControllerState, ThrottleSetting]:
    """The next state, and what to set now. Capacity 0: memory is not for us to divide."""
    state = _with_steps(_with_guests(_with_pace(state, sample, now_s), sample, now_s), sample, now_s)
    state = replace(state, peak=state.peak.noted(sample.needed_bytes, now_s))
    state = _learnt(state, sample, now_s)
    if state.learning_since_s is None and _must_learn(state, sample, now_s):
        state = _learning(state, now_s)
    if _is_period_over(state, now_s) and state.learning_since_s is None:
        state = _judged(state, now_s)
    state, division = _divided(state, sample, now_s, capacity_bytes)
    return state, _setting(state, division, now_s)


# ---- what is seen ---------------------------------------------------------------------------------------------------


def _with_pace(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    if sample.durations_s:
        return replace(state, stepped_s=now_s, step_s=typical(sample.durations_s).typical_s)
    return state if state.stepped_s is not None else replace(state, stepped_s=now_s)


def _with_guests(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    duties, gains = dict(state.duties), dict(state.gains)
    unpaced = frozenset(guest.job_id for guest in sample.guests if guest.is_idle)
    present = {guest.job_id for guest in sample.guests}
    if duties.keys() != present or unpaced != state.unpaced:
        state = _changed(replace(state, questioned=None, compared=None, unpaced=unpaced), now_s)
    for guest in sample.guests:
        duty = duties[guest.job_id] = 100 if guest.is_idle else duties.get(guest.job_id, FIRST_DUTY)
        gain = gains.setdefault(guest.job_id, 1.0)
        if guest.progress is not None and not guest.is_quiet:
            gains[guest.job_id] += OF_THE_NEW * (guest.progress * 100 / duty - gain)
    return replace(
        state,
        duties=tuple((guest.job_id, duties[guest.job_id]) for guest in sample.guests),
        gains=tuple((guest.job_id, gains[guest.job_id]) for guest in sample.guests),
    )


def _with_steps(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    """Steps of a time in which guests began or ceased to compute are neither alone nor beside them. Those that were
    alone count on while more of them are to be learnt: a holder may stall after every few."""
    is_quiet = all(guest.is_quiet for guest in sample.guests)
    if is_quiet != state.was_quiet:
        alone = NOTHING if state.learning_since_s is None else state.alone
        return replace(_changed(state, now_s), alone=alone, was_quiet=is_quiet)
    skipped = min(state.to_skip, len(sample.durations_s))
    steps = sample.durations_s[skipped:]
    state = replace(state, to_skip=state.to_skip - skipped)
    if skipped and not steps:
        return state
    new = (steps, sample.waited_s, sample.lasted_s)
    if is_quiet:
        return replace(state, alone=state.alone.and_then(*new))
    return replace(state, beside=state.beside.and_then(*new), recent=state.recent.and_then(*new))


def _changed(state: ControllerState, now_s: float) -> ControllerState:
    """What was seen until now says nothing of what comes."""
    return replace(state, beside=NOTHING, recent=NOTHING, period_from_s=now_s, to_skip=WARM_UP_STEPS)


# ---- the holder alone -----------------------------------------------------------------------------------------------


def _must_learn(state: ControllerState, sample: ThrottleSample, now_s: float) -> bool:
    if state.baseline is None:
        return True
    if now_s - state.learnt_s < SOONEST_S:
        return False
    latest = sample.durations_s[-3:]
    leaps = latest and not 1 / LEAP < sorted(latest)[len(latest) // 2] / typical(state.baseline.steps).typical_s < LEAP
    low, high = sorted((state.shape_bytes, sample.needed_bytes))
    return bool(leaps) or high > low * RESHAPED or now_s - state.learnt_s >= REFRESH_S


def _learnt(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    """Whenever the holder computes alone its step time is learnt, asked for or not."""
    steps = LEARN_STEPS if state.baseline is None else REFRESH_STEPS
    if len(state.alone.steps) < steps or state.alone.lasted_s < LEARN_S:
        since_s = state.learning_since_s
        if since_s is not None and _is_stalled(state, now_s):
            return replace(state, learning_since_s=now_s)  # guests are gated from the next step on
        if since_s is None or state.baseline is None or now_s - since_s < GATE_PATIENCE_S or state.was_quiet:
            return state
        # A guest whose steps are that long is not waited for: what was learnt before stands for another while.
        return _answered(replace(state, learning_since_s=None, learnt_s=now_s))
    state = replace(state, baseline=state.alone, shape_bytes=sample.needed_bytes, learnt_s=now_s)
    return _answered(replace(state, learning_since_s=None))


def _is_stalled(state: ControllerState, now_s: float) -> bool:
    """Whether the holder has made no step for far longer than its last ones took. They may have been held up as well,
    so there is an end to that."""
    patience_s = min(max(STALLED_S, LEAP * state.step_s), LONGEST_WAIT_S)
    return state.stepped_s is not None and now_s - state.stepped_s > patience_s


def _answered(state: ControllerState) -> ControllerState:
    """That a holder is quicker beside its guests than alone, as on cores that fall asleep, is not asked again for twice
    as long."""
    baseline, questioned = state.baseline, state.questioned
    if baseline is None or questioned is None:
        return state
    found, state = evidence(baseline, questioned, state.noise), replace(state, questioned=None)
    if found.is_likely_slow:
        return replace(state, compared=())
    return replace(state, fresh_s=min(2 * state.fresh_s, REFRESH_S) if found.is_quick else FRESH_S)


# ---- the guests' duty -----------------------------------------------------------------------------------------------


def _is_period_over(state: ControllerState, now_s: float) -> bool:
    return now_s - state.period_from_s >= PERIOD_S and len(state.recent.steps) >= PERIOD_STEPS


def _judged(state: ControllerState, now_s: float) -> ControllerState:
    """At the end of a control period. All since the last change is the better measure, the period the quicker one."""
    baseline, period, beside = state.baseline, state.recent, state.beside
    assert baseline is not None
    recent, overall = evidence(baseline, period, state.noise), evidence(baseline, beside, state.noise)
    state = replace(state, noise=state.noise.and_then(period), recent=NOTHING, period_from_s=now_s)
    if state.compared is not None:
        return _compared(state, (*state.compared, recent), now_s)
    if recent.is_slow or overall.is_slow:
        return replace(_learning(state, now_s), questioned=period if recent.is_slow else beside)
    if overall.is_quick and now_s - state.learnt_s >= state.fresh_s:
        return replace(_learning(state, now_s), questioned=beside)
    return _raised(state, now_s) if overall.is_fine and recent.steps.slower < HI else state


def _compared(state: ControllerState, compared: tuple[Evidence, ...], now_s: float) -> ControllerState:
    """While it tells neither, the holder is looked at alone once more, and so on; in doubt for the guests."""
    found = pooled(compared)
    if found.is_likely_slow:
        return _cut(replace(state, compared=None, harm=found.harm), now_s)
    if found.is_hardly_slow or len(compared) == MOST_COMPARED:
        return replace(state, compared=None)
    return replace(_learning(state, now_s), compared=compared)


def _learning(state: ControllerState, now_s: float) -> ControllerState:
    """Guests stand still from now on."""
    return replace(state, learning_since_s=now_s, alone=NOTHING)


def _raised(state: ControllerState, now_s: float) -> ControllerState:
    """Greedily: the guest that makes the most of its duty gets more of it."""
    duties, gains = dict(state.duties), dict(state.gains)
    state = replace(state, wait_s=max(FIRST_WAIT_S, state.wait_s / 2))
    below = [job_id for job_id in duties if duties[job_id] < 100]
    if not below:
        return state
    chosen = max(below, key=lambda job_id: (gains[job_id], -duties[job_id], job_id))
    duties[chosen] = min(100, duties[chosen] + RAISE_BY)
    return _changed(replace(state, duties=tuple(duties.items())), now_s)


def _cut(state: ControllerState, now_s: float) -> ControllerState:
    """Halve all duties; where none can be halved the guests are gated for a while, longer each time."""
    before = state.duties
    duties = tuple((job_id, duty if job_id in state.unpaced else max(1, duty // 2)) for job_id, duty in before)
    if duties == before:
        until_s, wait_s = now_s + state.wait_s, min(2 * state.wait_s, LONGEST_WAIT_S)
        state = replace(state, resting_until_s=until_s, wait_s=wait_s)
    return _changed(replace(state, duties=duties), now_s)


# ---- what to set ----------------------------------------------------------------------------------------------------


def _setting(state: ControllerState, division: Division | None, now_s: float) -> ThrottleSetting:
    is_learning = state.learning_since_s is not None and not _is_stalled(state, now_s)
    is_resting = now_s < state.resting_until_s
    are_gated = is_learning or is_resting
    guests = {}
    for job_id, duty in state.duties:
        has_room = division is None or job_id in division.guests
        is_still = are_gated or not has_room
        limit_bytes = division.guests.get(job_id) if division else None
        guests[job_id] = GuestSetting(0 if is_still else duty, limit_bytes, has_room)
    reason = LEARNING if is_learning else RESTING if is_resting else SHARING
    found = state.harm if is_resting else _slowdown(state)
    return ThrottleSetting(guests, division.holder_bytes if division else None, found, reason)


def _slowdown(state: ControllerState) -> float | None:
    is_seen = len(state.beside.steps) >= PERIOD_STEPS
    return evidence(state.baseline, state.beside, state.noise).steps.slower if state.baseline and is_seen else None


def _needs(sample: ThrottleSample) -> list[list[Need]]:
    """On each of the devices that guests are on."""
    devices = sorted({device for guest in sample.guests for device in guest.devices})
    return [
        [
            Need(one.job_id, one.persistent_bytes, one.ephemeral_bytes, one.lane)
            for one in sample.guests
            if device in one.devices
        ]
        for device in devices
    ]


def _divided(
    state: ControllerState, sample: ThrottleSample, now_s: float, capacity_bytes: int
) -> tuple[ControllerState, Division | None]:
    """Memory, like duty, is taken from guests at once and given to them slowly."""
    if not capacity_bytes or not state.peak.bytes:
        return state, None
    is_time = now_s - state.raised_s >= PERIOD_S
    more_bytes = whole_grains(capacity_bytes * MEMORY_RAISE) if is_time else 0
    raised_s = now_s if is_time else state.raised_s
    division = divided_on_each(capacity_bytes, state.peak.bytes, _needs(sample), dict(state.limits), more_bytes)
    limits = tuple(division.guests.items())
    return replace(state, holder_bytes=division.holder_bytes, limits=limits, raised_s=raised_s), division
