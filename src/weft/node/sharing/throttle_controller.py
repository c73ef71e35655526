"""The throttling controller, a pure function: from samples of a holder and its guests to each guest's duty and memory.

`adjust` judges the holder's step times against those alone, cuts guests that slow it, and lets them compute more while
it stays as fast.
"""

from __future__ import annotations

from dataclasses import replace

from weft.node.sharing.memory_split import Division, Need, divided_on_each, whole_grains
from weft.node.sharing.slowdown import HI, OF_THE_NEW, PERIOD_S, Evidence, evidence, pooled, typical
from weft.node.sharing.throttle_state import (
    FIRST_WAIT_S,
    FRESH_S,
    LEARNING,
    NOTHING,
    RESTING,
    SHARING,
    AloneLearnt,
    AloneNeeded,
    Comparing,
    ControllerState,
    GuestDuties,
    GuestsChanged,
    GuestSetting,
    HolderPace,
    HolderStalled,
    LearningAlone,
    PeriodCompared,
    PhaseEvent,
    ThrottleSample,
    ThrottleSetting,
    gated_since_s,
    next_phase,
)

FIRST_DUTY, RAISE_BY = 5, 5
MEMORY_RAISE = 0.05
"""Of the device, to each guest, in each control period."""
PERIOD_STEPS = 10
LEARN_STEPS, REFRESH_STEPS, LEARN_S = 20, 10, 1.0
REFRESH_S, SOONEST_S = 600.0, 30.0
GATE_PATIENCE_S = 30.0
STALLED_S = 10.0
"""A holder without a step for so long, and for ten of its steps, loads data, validates or waits for its user: guests
need not be gated to learn from steps that do not come. That a holder's steps are longer than this is known once the
first of them is seen: it has cost it no more than guests at their first duty in the rest of that one."""
LONGEST_WAIT_S = 300.0
WARM_UP_STEPS = 3
MOST_COMPARED = 8
LEAP, RESHAPED = 10.0, 1.25


def adjust(
    state: ControllerState, sample: ThrottleSample, now_s: float, capacity_bytes: int = 0
) -> tuple[ControllerState, ThrottleSetting]:
    """The next state, and what to set now. Capacity 0: memory is not for us to divide."""
    state = _with_steps(_with_guests(_with_pace(state, sample, now_s), sample, now_s), sample, now_s)
    state = replace(state, memory=replace(state.memory, peak=state.memory.peak.noted(sample.needed_bytes, now_s)))
    state = _learnt(state, sample, now_s)
    if gated_since_s(state.phase) is None and _must_learn(state, sample, now_s):
        state = _gated(state, AloneNeeded(), now_s)
    if gated_since_s(state.phase) is None and _is_period_over(state, now_s):
        state = _judged(state, now_s)
    state, division = _divided(state, sample, now_s, capacity_bytes)
    return state, _setting(state, division, now_s)


def _moved(state: ControllerState, event: PhaseEvent, now_s: float) -> ControllerState:
    return replace(state, phase=next_phase(state.phase, event, now_s))


def _gated(state: ControllerState, event: AloneNeeded | PeriodCompared, now_s: float) -> ControllerState:
    """Guests are gated from now on, and what the holder does alone counts anew."""
    return replace(_moved(state, event, now_s), seen=replace(state.seen, alone=NOTHING))


# ---- what is seen ---------------------------------------------------------------------------------------------------


def _with_pace(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    if sample.durations_s:
        return replace(state, pace=HolderPace(now_s, typical(sample.durations_s).typical_s))
    if state.pace.stepped_s is None:
        return replace(state, pace=replace(state.pace, stepped_s=now_s))
    return state


def _with_guests(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    duties, gains = dict(state.guests.duties), dict(state.guests.gains)
    unpaced = frozenset(guest.job_id for guest in sample.guests if guest.is_idle)
    present = {guest.job_id for guest in sample.guests}
    if duties.keys() != present or unpaced != state.guests.unpaced:
        state = _changed(_moved(state, GuestsChanged(), now_s), now_s)
    for guest in sample.guests:
        duty = duties[guest.job_id] = 100 if guest.is_idle else duties.get(guest.job_id, FIRST_DUTY)
        gain = gains.setdefault(guest.job_id, 1.0)
        if guest.progress is not None and not guest.is_quiet:
            gains[guest.job_id] += OF_THE_NEW * (guest.progress * 100 / duty - gain)
    guests = GuestDuties(
        duties=tuple((guest.job_id, duties[guest.job_id]) for guest in sample.guests),
        unpaced=unpaced,
        gains=tuple((guest.job_id, gains[guest.job_id]) for guest in sample.guests),
    )
    return replace(state, guests=guests)


def _with_steps(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    """Steps of a time in which guests began or ceased to compute are neither alone nor beside them. Those that were
    alone count on while more of them are to be learnt: a holder may stall after every few."""
    is_quiet = all(guest.is_quiet for guest in sample.guests)
    if is_quiet != state.seen.was_quiet:
        alone = NOTHING if gated_since_s(state.phase) is None else state.seen.alone
        state = _changed(state, now_s)
        return replace(state, seen=replace(state.seen, alone=alone, was_quiet=is_quiet))
    skipped = min(state.seen.to_skip, len(sample.durations_s))
    steps = sample.durations_s[skipped:]
    seen = replace(state.seen, to_skip=state.seen.to_skip - skipped)
    new = (steps, sample.waited_s, sample.lasted_s)
    if not skipped or steps:
        if is_quiet:
            seen = replace(seen, alone=seen.alone.and_then(*new))
        else:
            seen = replace(seen, beside=seen.beside.and_then(*new), recent=seen.recent.and_then(*new))
    return replace(state, seen=seen)


def _changed(state: ControllerState, now_s: float) -> ControllerState:
    """What was seen until now says nothing of what comes."""
    seen = replace(state.seen, beside=NOTHING, recent=NOTHING, period_from_s=now_s, to_skip=WARM_UP_STEPS)
    return replace(state, seen=seen)


# ---- the holder alone -----------------------------------------------------------------------------------------------


def _must_learn(state: ControllerState, sample: ThrottleSample, now_s: float) -> bool:
    baseline = state.baseline
    if baseline.alone is None:
        return True
    if now_s - baseline.learnt_s < SOONEST_S:
        return False
    latest = sample.durations_s[-3:]
    leaps = latest and not 1 / LEAP < sorted(latest)[len(latest) // 2] / typical(baseline.alone.steps).typical_s < LEAP
    low, high = sorted((baseline.shape_bytes, sample.needed_bytes))
    return bool(leaps) or high > low * RESHAPED or now_s - baseline.learnt_s >= REFRESH_S


def _learnt(state: ControllerState, sample: ThrottleSample, now_s: float) -> ControllerState:
    """Whenever the holder computes alone its step time is learnt, asked for or not."""
    baseline, alone, since_s = state.baseline, state.seen.alone, gated_since_s(state.phase)
    steps = LEARN_STEPS if baseline.alone is None else REFRESH_STEPS
    if len(alone.steps) >= steps and alone.lasted_s >= LEARN_S:
        baseline = replace(baseline, alone=alone, shape_bytes=sample.needed_bytes, learnt_s=now_s)
        return _answered(replace(state, baseline=baseline), now_s)
    if since_s is not None and _is_stalled(state, now_s):
        return _moved(state, HolderStalled(), now_s)
    if since_s is None or baseline.alone is None or now_s - since_s < GATE_PATIENCE_S or state.seen.was_quiet:
        return state
    # A guest whose steps are that long is not waited for: what was learnt before stands for another while.
    return _answered(replace(state, baseline=replace(baseline, learnt_s=now_s)), now_s)


def _is_stalled(state: ControllerState, now_s: float) -> bool:
    """Whether the holder has made no step for far longer than its last ones took. They may have been held up as well,
    so there is an end to that."""
    patience_s = min(max(STALLED_S, LEAP * state.pace.step_s), LONGEST_WAIT_S)
    return state.pace.stepped_s is not None and now_s - state.pace.stepped_s > patience_s


def _answered(state: ControllerState, now_s: float) -> ControllerState:
    """That a holder is quicker beside its guests than alone, as on cores that fall asleep, is not asked again for twice
    as long."""
    baseline = state.baseline
    questioned = state.phase.questioned if isinstance(state.phase, LearningAlone) else None
    if baseline.alone is None or questioned is None:
        return _moved(state, AloneLearnt(), now_s)
    found = evidence(baseline.alone, questioned, state.noise)
    if found.is_likely_slow:
        return _moved(state, AloneLearnt(is_slower=True), now_s)
    fresh_s = min(2 * baseline.fresh_s, REFRESH_S) if found.is_quick else FRESH_S
    return _moved(replace(state, baseline=replace(baseline, fresh_s=fresh_s)), AloneLearnt(), now_s)


# ---- the guests' duty -----------------------------------------------------------------------------------------------


def _is_period_over(state: ControllerState, now_s: float) -> bool:
    return now_s - state.seen.period_from_s >= PERIOD_S and len(state.seen.recent.steps) >= PERIOD_STEPS


def _judged(state: ControllerState, now_s: float) -> ControllerState:
    """At the end of a control period. All since the last change is the better measure, the period the quicker one."""
    alone, period, beside = state.baseline.alone, state.seen.recent, state.seen.beside
    assert alone is not None
    recent, overall = evidence(alone, period, state.noise), evidence(alone, beside, state.noise)
    seen = replace(state.seen, recent=NOTHING, period_from_s=now_s)
    state = replace(state, noise=state.noise.and_then(period), seen=seen)
    if isinstance(state.phase, Comparing):
        return _compared(state, (*state.phase.periods, recent), now_s)
    if recent.is_slow or overall.is_slow:
        return _gated(state, AloneNeeded(period if recent.is_slow else beside), now_s)
    if overall.is_quick and now_s - state.baseline.learnt_s >= state.baseline.fresh_s:
        return _gated(state, AloneNeeded(beside), now_s)
    return _raised(state, now_s) if overall.is_fine and recent.steps.slower < HI else state


def _compared(state: ControllerState, periods: tuple[Evidence, ...], now_s: float) -> ControllerState:
    """While it tells neither, the holder is looked at alone once more, and so on; in doubt for the guests."""
    found = pooled(periods)
    if found.is_likely_slow:
        state = _moved(state, PeriodCompared(periods, is_decided=True), now_s)
        return _cut(replace(state, rest=replace(state.rest, harm=found.harm)), now_s)
    if found.is_hardly_slow or len(periods) == MOST_COMPARED:
        return _moved(state, PeriodCompared(periods, is_decided=True), now_s)
    return _gated(state, PeriodCompared(periods, is_decided=False), now_s)


def _raised(state: ControllerState, now_s: float) -> ControllerState:
    """Greedily: the guest that makes the most of its duty gets more of it."""
    duties, gains = dict(state.guests.duties), dict(state.guests.gains)
    state = replace(state, rest=replace(state.rest, wait_s=max(FIRST_WAIT_S, state.rest.wait_s / 2)))
    below = [job_id for job_id in duties if duties[job_id] < 100]
    if not below:
        return state
    chosen = max(below, key=lambda job_id: (gains[job_id], -duties[job_id], job_id))
    duties[chosen] = min(100, duties[chosen] + RAISE_BY)
    return _changed(replace(state, guests=replace(state.guests, duties=tuple(duties.items()))), now_s)


def _cut(state: ControllerState, now_s: float) -> ControllerState:
    """Halve all duties; where none can be halved the guests are gated for a while, longer each time."""
    before, unpaced = state.guests.duties, state.guests.unpaced
    duties = tuple((job_id, duty if job_id in unpaced else max(1, duty // 2)) for job_id, duty in before)
    if duties == before:
        wait_s = state.rest.wait_s
        rest = replace(state.rest, until_s=now_s + wait_s, wait_s=min(2 * wait_s, LONGEST_WAIT_S))
        state = replace(state, rest=rest)
    return _changed(replace(state, guests=replace(state.guests, duties=duties)), now_s)


# ---- what to set ----------------------------------------------------------------------------------------------------


def _setting(state: ControllerState, division: Division | None, now_s: float) -> ThrottleSetting:
    is_learning = gated_since_s(state.phase) is not None and not _is_stalled(state, now_s)
    is_resting = now_s < state.rest.until_s
    guests = {}
    for job_id, duty in state.guests.duties:
        has_room = division is None or job_id in division.guests
        is_gated = is_learning or is_resting or not has_room
        limit_bytes = division.guests.get(job_id) if division else None
        guests[job_id] = GuestSetting(0 if is_gated else duty, limit_bytes, has_room)
    reason = LEARNING if is_learning else RESTING if is_resting else SHARING
    found = state.rest.harm if is_resting else _slowdown(state)
    return ThrottleSetting(guests, division.holder_bytes if division else None, found, reason)


def _slowdown(state: ControllerState) -> float | None:
    alone, beside = state.baseline.alone, state.seen.beside
    is_seen = len(beside.steps) >= PERIOD_STEPS
    return evidence(alone, beside, state.noise).steps.slower if alone and is_seen else None


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
    memory = state.memory
    if not capacity_bytes or not memory.peak.bytes:
        return state, None
    is_time = now_s - memory.raised_s >= PERIOD_S
    more_bytes = whole_grains(capacity_bytes * MEMORY_RAISE) if is_time else 0
    raised_s = now_s if is_time else memory.raised_s
    division = divided_on_each(capacity_bytes, memory.peak.bytes, _needs(sample), dict(memory.guests), more_bytes)
    limits = tuple(division.guests.items())
    memory = replace(memory, holder_bytes=division.holder_bytes, guests=limits, raised_s=raised_s)
    return replace(state, memory=memory), division
