"""What is measured of a machine, in which order, and the world file that is written from it."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from weft.calibration.training_job import TrainingJob
from weft.core.value import value
from weft.node.devices.device import Device
from weft.node.task.gang_barrier import PauseRefusedError
from weft.sim.colocation import Fitted, Profile

SETTLE_S = 0.1
"""After a change of the computing jobs, before they are measured."""
STEPS_TO_COMPARE, STEPS_AFTER_A_PAUSE = 10, 3


@value
class Effort:
    """How long to measure, and what."""

    models: tuple[str, ...]
    with_twins: bool
    pieces: int
    """How often each pair is measured."""
    piece_s: float
    pauses: int
    with_migration: bool


FULL = Effort(("loader", "mlp", "cnn", "attention"), True, 4, 0.5, 20, True)
QUICK = Effort(("loader", "mlp", "cnn"), False, 2, 0.3, 6, False)


@value
class Alone:
    """One model with the device for itself."""

    rate_hz: float
    noise: float
    """Relative standard deviation between pieces of the measurement, drift left out."""
    utilisation: float
    persistent_bytes: int
    ephemeral_bytes: int


@value
class MachineMeasurements:
    device: Device
    piece_s: float
    alone: Mapping[str, Alone]
    pairs: Mapping[tuple[str, str], tuple[float, float]]
    """Each one's rate relative to alone."""
    fit: Fit
    gate_s: float
    swap_s: float | None
    """None where no job can be swapped out."""
    relaunch_s: float
    migration_s: float | None
    """None if there is only one device, or no time for it."""

    @property
    def rate_noise(self) -> float:
        return statistics.median(each.noise for each in self.alone.values())


def measure(devices: Sequence[Device], care: Effort, report: Callable[[str], None]) -> MachineMeasurements:
    """All of it, on the first of the devices; a migration goes to the second."""
    first, *others = devices
    report(f"starting {len(care.models) * (1 + care.with_twins)} jobs on {first.name}")
    with _jobs(care, first.cores) as (jobs, twins):
        pieces: dict[str, list[Piece]] = {model: [] for model in care.models}
        pairs = {}
        for a, b in [*combinations(jobs.values(), 2), *((jobs[model], twin) for model, twin in twins.items())]:
            report(f"{a.model} beside {b.model}")
            pairs[a.model, b.model] = _pair(a, b, care, pieces)
        alone = {model: _alone(jobs[model], seen) for model, seen in pieces.items()}
        report("pausing and resuming")
        job = jobs[care.models[-1]]
        job.resume()
        gate_s = _pausing_s(job, "gate", care.pauses)
        swap_s = _swapping_s(job, care.pauses)
        report("saving, ending, and starting again from the checkpoint")
        relaunch_s = _relaunch_s(job, first.cores)
        migration_s = _relaunch_s(job, others[0].cores) if others and care.with_migration else None
    fit = fit_pairs(pairs, {model: each.utilisation for model, each in alone.items()})
    return MachineMeasurements(first, care.piece_s, alone, pairs, fit, gate_s, swap_s, relaunch_s, migration_s)


@contextmanager
def _jobs(care: Effort, cores: Sequence[int]) -> Iterator[tuple[dict[str, TrainingJob], dict[str, TrainingJob]]]:
    """All of them warm, and held at the gate. The pages are in memory, as they must be."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="weft-calibrate-")))
        pages = Path(stack.enter_context(TemporaryDirectory(prefix="weft-calibrate-", dir="/dev/shm")))
        jobs, twins = {}, {}
        for model in care.models:
            jobs[model] = TrainingJob(model, cores, folder, pages)
            stack.callback(jobs[model].end)
            if care.with_twins:
                twins[model] = TrainingJob(model, cores, folder, pages, f"{model}-twin")
                stack.callback(twins[model].end)
        for job in (*jobs.values(), *twins.values()):
            job.warm_up()
        yield jobs, twins


Piece = tuple[float, float]
"""A job's steps per second, and the share of the device's time that it wanted."""


def _pair(a: TrainingJob, b: TrainingJob, care: Effort, alone: dict[str, list[Piece]]) -> tuple[float, float]:
    """The rates of two beside each other, relative to alone: one alone, the other alone, both, and again.

    A machine is now faster and now slower, by more than jobs slow each other; in turns, that is the same for all.
    """
    rounds = []
    for _ in range(care.pieces):
        (one,), (other,), both = _piece([a], care), _piece([b], care), _piece([a, b], care)
        alone[a.model].append(one)
        alone[b.model].append(other)
        rounds.append((both[0][0] / one[0], both[1][0] / other[0]))
    one_rate, other_rate = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    return min(1.0, one_rate), min(1.0, other_rate)


def _piece(jobs: Sequence[TrainingJob], care: Effort) -> list[Piece]:
    """From the end of a step to the end of another, while exactly these jobs run."""
    for job in jobs:
        job.resume()
    time.sleep(SETTLE_S)
    before = [(*job.edge(), job.wanted_s()) for job in jobs]
    time.sleep(care.piece_s)
    after = [(*job.edge(), job.wanted_s()) for job in jobs]
    for job in jobs:
        job.pause()
    return [
        ((steps - had) / (at_s - began_s), (wanted_s - had_s) / (at_s - began_s) / len(job.cores))
        for job, (began_s, had, had_s), (at_s, steps, wanted_s) in zip(jobs, before, after, strict=True)
    ]


def _alone(job: TrainingJob, seen: Sequence[Piece]) -> Alone:
    rates = [rate_hz for rate_hz, _ in seen]
    mean_hz, memory = statistics.mean(rates), job.seen
    busy = statistics.median(wanted for _, wanted in seen)
    return Alone(
        mean_hz,
        _noise(rates) / mean_hz,
        min(1.0, max(LEAST_UTILISATION, busy)),
        memory.persistent_bytes,
        memory.ephemeral_bytes,
    )


def _noise(rates: Sequence[float]) -> float:
    """The standard deviation, from what each differs from the one before: the machine's drift is not noise.

    The median times 1.48 is the deviation of a normal distribution, and of one with outliers that of all the others.
    """
    return 1.4826 * statistics.median(abs(after - before) for before, after in pairwise(rates)) / math.sqrt(2)


def _pausing_s(job: TrainingJob, depth: str, pauses: int) -> float:
    """What a pause and a resume at once cost: the job itself reports how long it was paused."""
    stood_s = []
    for _ in range(pauses):
        before_s = job.seen.paused_s
        stands_at = job.task.pause(depth).step
        job.resume()
        job.reach(stands_at + STEPS_AFTER_A_PAUSE)
        stood_s.append(job.seen.paused_s - before_s)
    return statistics.median(stood_s)


def _swapping_s(job: TrainingJob, pauses: int) -> float | None:
    try:
        return _pausing_s(job, "swap-out", pauses)
    except PauseRefusedError:
        return None


def _relaunch_s(job: TrainingJob, cores: Sequence[int]) -> float:
    """A checkpoint, an end, and a start from there on those cores, less what so many steps have just taken."""
    began_s, had = job.edge()
    middle_s, before = job.reach(had + STEPS_TO_COMPARE)
    left_at = job.leave()
    job.return_to(cores)
    ended_s, after = job.reach(left_at + STEPS_AFTER_A_PAUSE)
    return max(0.0, ended_s - middle_s - (after - before) * (middle_s - began_s) / (before - had))


# ---- What was measured, as a world file.

LEAST_MEMORY_BYTES = 1 << 20


def world_text(measured: MachineMeasurements) -> str:
    """TOML for `weft simulate --world`; what it does not say is as in the default world."""
    device, fit = measured.device, measured.fit
    pause_s = min(measured.gate_s, measured.relaunch_s)
    swap = "no job can be swapped out here" if measured.swap_s is None else f"by way of the disk {measured.swap_s:.4f}"
    moved = "" if measured.migration_s is None else f"; {measured.migration_s:.2f} on another device"
    lines = [
        f"# Measured by weft calibrate on {device.name} of this machine, with small models of PyTorch.",
        "",
        f"# Checkpoint, end, launch and restore on the same device{moved}.",
        f"preemption_s = {max(measured.relaunch_s, measured.migration_s or 0.0):.3f}",
        f"# At the gate, its memory kept; {swap}.",
        f"pause_s = {pause_s:.5f}",
        f"# Between measurements of {measured.piece_s:g} s.",
        f"rate_noise = {min(1.0, measured.rate_noise):.4f}",
        f"# Fitted to {len(measured.pairs)} pairs; of a relative rate the root of the mean square error is "
        f"{fit.root_mean_square:.3f}.",
        f"interference = {{contention = {fit.fitted.contention:.3f}}}",
        "",
        "[memory]",
        f"{device.type} = {device.memory_bytes}",
    ]
    for model, alone in measured.alone.items():
        weight = fit.profiles[model].weight
        lines += ["", f"# alone: {alone.rate_hz:.1f} steps/s", f'[models."{model}"]']
        lines.append(f"utilisation = [{alone.utilisation:.3f}, {weight:.3f}]")
        if alone.persistent_bytes >= LEAST_MEMORY_BYTES:  # the native library has seen it
            lines.append(f"memory = [{alone.persistent_bytes}, {alone.ephemeral_bytes}]")
    return "\n".join(lines) + "\n"


# ---- The values of the fitted interference model that explain measured pairs best.

Rates = tuple[float, float]
Floats = NDArray[np.float64]
LARGEST_CONTENTION, LEAST_UTILISATION = 5.0, 0.05
LEAST_WEIGHT, LARGEST_WEIGHT = 0.05, 20.0
TIES = 1e-3
"""The pull towards 1 of a weight that no measurement determines."""


@value
class Fit:
    fitted: Fitted
    profiles: Mapping[str, Profile]
    errors: tuple[float, ...]
    """Of each relative rate: what the model says minus what was measured."""

    @property
    def root_mean_square(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))

    @property
    def median(self) -> float:
        return float(np.median(np.abs(self.errors)))


def fit_pairs(
    pairs: Mapping[tuple[str, str], Rates],
    utilisation: Mapping[str, float] | None = None,
    starts: int = 6,
    seed: int = 0,
) -> Fit:
    """From the relative rates of jobs beside each other; a job may run beside one like itself.

    Utilisations that were measured are taken as they are, else they are found too. A few starting points, because there
    are several valleys; a loss that large errors do not rule, because some measured pairs are beyond any model. Only
    the ratios of weights mean anything: their median is made 1.
    """
    names = sorted({name for pair in pairs for name in pair})
    busy = None if utilisation is None else np.array([utilisation[name] for name in names])
    at = {name: i for i, name in enumerate(names)}
    one = np.array([at[a] for a, b in pairs] + [at[b] for a, b in pairs])
    other = np.array([at[b] for a, b in pairs] + [at[a] for a, b in pairs])
    measured = np.array([rates[0] for rates in pairs.values()] + [rates[1] for rates in pairs.values()])
    unknown = len(names) if busy is None else 0
    least = np.array([0.0] + len(names) * [np.log(LEAST_WEIGHT)] + unknown * [LEAST_UTILISATION])
    most = np.array([LARGEST_CONTENTION] + len(names) * [np.log(LARGEST_WEIGHT)] + unknown * [1.0])
    middle = np.array([0.3] + len(names) * [0.0] + unknown * [0.6])
    chance = np.random.default_rng(seed)

    def off(values: Floats) -> Floats:
        logs = values[1 : 1 + len(names)]
        said = _modelled(float(values[0]), np.exp(logs), values[1 + len(names) :] if busy is None else busy, one, other)
        return np.concatenate([said - measured, TIES * (logs - logs.mean())])

    tries = [
        least_squares(
            off,
            np.clip(middle + (chance.normal(0.0, 0.2, middle.size) if i else 0.0), least + 1e-6, most - 1e-6),
            bounds=(least, most),
            loss="soft_l1",
            f_scale=0.1,
        )
        for i in range(starts)
    ]
    best = min(tries, key=lambda each: float(each.cost)).x
    weights = np.exp(best[1 : 1 + len(names)])
    found = best[1 + len(names) :] if busy is None else busy
    return _told(
        float(best[0]), dict(zip(names, zip(found, weights / np.median(weights), strict=True), strict=True)), pairs
    )


def _modelled(
    contention: float, weight: Floats, utilisation: Floats, one: NDArray[np.int64], other: NDArray[np.int64]
) -> Floats:
    """`Fitted.rates` for all pairs at once."""
    mine, yours = utilisation[one], utilisation[other]
    fair = weight[one] / (weight[one] + weight[other])
    crowded = np.where(mine <= fair, mine, np.where(yours <= 1 - fair, 1 - yours, fair))
    share = np.where(mine + yours <= 1, mine, crowded)
    rates: Floats = share / mine / (1 + contention * yours)
    return rates


def _told(contention: float, loads: Mapping[str, tuple[float, float]], pairs: Mapping[tuple[str, str], Rates]) -> Fit:
    fitted = Fitted(contention)
    profiles = {name: Profile(float(busy), float(weight), model=name) for name, (busy, weight) in loads.items()}
    errors = [
        said - seen
        for (a, b), rates in pairs.items()
        for said, seen in zip(fitted.rates("", (profiles[a], profiles[b])), rates, strict=True)
    ]
    return Fit(fitted, profiles, tuple(errors))
