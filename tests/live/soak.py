"""Every mechanism on, for a long time: jobs come singly and in bursts, grow, are cancelled and killed; devices are
shared in turns, in lanes, packed and filled; the policy is changed under way; daemon, coordinator and shepherds are
killed.

By hand: python tests/live/soak.py MINUTES [SEED]
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chaos import SETTINGS, Chaos, weathering
from replay import Replay
from steady import BOUND, GUEST, HOLDER, NEEDS_BYTES, Observation, Observed
from watch import Watcher

from waiting import wait_until
from weft.client import Client
from weft.core.errors import WeftError

DEVICE_MB = 64
HASTY = f"{Path(__file__).with_name('hasty.py')}:weft"
POLICIES = (HASTY, HASTY, "weft", "gandiva:quantum_s=2:quantum_steps=100000:back_off_s=5:migration_s=1", "salus")
SLOWEST = 1 / 1.2
"""A guaranteed job's rate beside guests as a part of its rate alone is not to be below."""
CALM_S, STORM_S = (15.0, 40.0), (4.0, 10.0)
OBSERVE_EVERY_S = 180.0


class Soak(Chaos):
    policy = HASTY
    devices, device_count = f"cpu=2:{DEVICE_MB}M", 2
    settings = SETTINGS + "[tenants.gold]\nquota = 2\n"
    quotas = MappingProxyType({"gold": 2})
    most_live = 9
    calm_s, storm_s = CALM_S, STORM_S
    has_torch = True
    kept = 2
    """So many may go on to their end when it is over; who waits behind them would take too long."""
    declares = 0.6
    """How many of the jobs say what memory they need."""
    steps, guaranteed_steps = (0, 50, 400, 1000, 2500), (1500, 3000)
    observes = True
    """Whether a guaranteed job is watched alone and beside guests, at the beginning and every few minutes."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.watcher = Watcher(self.home, DEVICE_MB << 20, self._ours)
        self.kinds: Counter[str] = Counter()
        self.ratios: list[tuple[float, bool, str]] = []
        """Of guaranteed jobs beside guests that are held back for them: the rate as a part of that alone, whether
        something else disturbed it meanwhile, and which job."""
        self.observed: list[Observed] = []
        self._observe_s = 0.0

    def _ours(self) -> list[int]:
        return [os.getpid(), *(pid for pid in (self.daemon_pid, self.coordinator_pid) if pid), *self.task_pids()]

    # ---- work

    def submit(self) -> None:
        """One whose class is guaranteed is so at once: there are never more than the quota has room for."""
        chance = self.chance
        guaranteed = self._of_class("guaranteed")
        if guaranteed is None:
            return
        kind = chance.choice(["plain", "plain", "plain", "plain", "forks", "gang", "torch"])
        if kind == "torch" and not (self.has_torch and chance.random() < 0.3):
            kind = "plain"
        is_gold = guaranteed < self.quotas["gold"] - self._is_to_observe() and kind != "gang" and chance.random() < 0.5
        options: dict[str, Any] = (
            {"tenant": "gold", "job_class": "guaranteed"} if is_gold else {"job_class": "opportunistic"}
        )
        kept_mb, step_mb = chance.choice([0, 2, 8, 16]), chance.choice([1, 4, 12])
        burst_mb = chance.choice([0, 0, 10, 30])
        if chance.random() < self.declares:
            options["gpu_mem"] = (kept_mb + step_mb + chance.choice([0, burst_mb]) + 2) << 20
        if chance.random() < 0.1:
            options["share"] = False
        self.kinds[f"{'guaranteed' if is_gold else 'opportunistic'} {kind}"] += 1
        self.kinds["with memory declared"] += "gpu_mem" in options
        code, steps = chance.choice([0, 0, 0, 3]), chance.choice(self.guaranteed_steps if is_gold else self.steps)
        busy_ms, wait_ms = chance.choice([(1, 9), (3, 7), (3, 7), (8, 1)])
        words = [kind, steps, code, busy_ms, wait_ms, kept_mb, step_mb, burst_mb]
        self.send([str(word) for word in words], code, ntasks=2 if kind == "gang" else 1, **options)

    def _of_class(self, name: str) -> int | None:
        try:
            with Client(self.home, timeout_s=1.0) as client:
                return sum(job["class"] == name for job in client.queue())
        except WeftError:
            return None

    def change_policy(self, policy: str) -> None:
        try:
            with Client(self.home, timeout_s=2.0) as client:
                client.policy(policy)
        except WeftError:
            return  # perhaps it was heard; the next daemon begins with the one before
        self.policy = policy
        self.deeds["policy changed"] += 1

    # ---- a guaranteed job, alone and beside guests

    def _is_to_observe(self) -> bool:
        return self.observes and time.monotonic() >= self._observe_s

    def observe(self) -> None:
        """A job of gold's for whom a place was kept in the quota, and two who can be its guests, if the one has no
        device of its own. Nobody comes or is killed meanwhile; whoever is there stays."""
        self.change_policy(HASTY)
        holder = self.send([*HOLDER], 0, tenant="gold", job_class="guaranteed", gpu_mem=NEEDS_BYTES)
        guests = [self.send([*GUEST], 0, job_class="opportunistic", gpu_mem=NEEDS_BYTES) for _ in range(2)]
        if holder is not None:
            observation, began_s = Observation(self.home, holder), time.time()
            seen = observation.watch()
            seen.was_overloaded = self.watcher.load.was_high(time.time(), time.time() - began_s)
            self.observed.append(seen)
            with Client(self.home) as client:
                observation.release(client)
        for job_id in filter(None, [holder, *guests]):
            self.cancel_one(job_id)
        self._observe_s = time.monotonic() + OBSERVE_EVERY_S

    # ---- the story

    def live_through(self, seconds: float) -> None:
        """Calm and storm in turn, with jobs coming all the time."""
        until_s = time.monotonic() + seconds
        is_calm = True
        with self.watcher:
            while time.monotonic() < until_s:
                if is_calm and self._is_to_observe() and (self._of_class("guaranteed") or 0) < self.quotas["gold"]:
                    self.observe()
                lasts_s = self.chance.uniform(*(self.calm_s if is_calm else self.storm_s))
                self._stretch(min(until_s, time.monotonic() + lasts_s), 0.0 if is_calm else 0.25)
                self.change_policy(self.chance.choice(POLICIES))
                is_calm = not is_calm
            self.wake(all_of_them=True)
        assert not self.watcher.wrongs, self.watcher.wrongs

    def wind_down(self) -> None:
        """Who is here though nobody heard so, or though it was to be cancelled, may be one without an end."""
        self.keep_up()
        wait_until(self.is_up, "weft is up")
        live = self.live()
        ending = [job_id for job_id in live if job_id in self.expected and job_id not in self.cancelled]
        for job_id in live:
            if job_id not in ending[: self.kept]:
                self.cancel_one(job_id)

    def _stretch(self, until_s: float, harm: float) -> None:
        while time.monotonic() < until_s:
            self.keep_up()
            self.wake()
            live = len(self.live())
            burst = self.chance.randint(3, 6) if self.chance.random() < 0.03 else 1
            for _ in range(min(burst, self.most_live - live) if self.chance.random() < 0.4 else 0):
                self.submit()
            if self.chance.random() < harm:
                self.harm()
                self.watcher.harm()
            if self.chance.random() < 0.02:
                self.cancel()
            time.sleep(self.chance.uniform(0.05, 0.3))

    def judge(self) -> None:
        super().judge()
        assert not list(self.home.tier.iterdir()), "something is left in the next tier"
        for log in (self.home.daemon_log, self.home.node_log):
            assert "Traceback" not in log.read_text(), f"{log.name} tells of something that nobody foresaw"
        replay = Replay(self.home.database)
        self.outcomes.update(replay.counts)
        self.ratios = [(ratio, self.watcher.was_disturbed(at), job_id) for at, ratio, job_id in replay.ratios]
        assert not replay.wrongs, replay.wrongs
        slow = [seen for seen in self.ratios if seen[0] < SLOWEST and not seen[1]]
        assert not slow, f"guaranteed jobs were held up: {slow}"
        assert not any(seen.is_slow for seen in self.observed), "a guaranteed job was slower than its bound"
        assert not self.observes or any(seen.shows for seen in self.observed), "no guaranteed job could be observed"

    def told(self) -> str:
        ratios = sorted(ratio for ratio, was_disturbed, _ in self.ratios if not was_disturbed)
        disturbed = sorted(ratio for ratio, was_disturbed, _ in self.ratios if was_disturbed)
        lines = [
            f"{len(self.expected)} acknowledged jobs: {dict(self.kinds)}",
            str(dict(self.deeds)),
            str(dict(self.outcomes)),
            str(dict(self.watcher.counts)),
            f"guaranteed jobs beside guests, rate over alone, as weft measured it: {_spread(ratios)}",
            f"the same while something was killed, or the machine overloaded: {_spread(disturbed)}",
        ]
        return "\n".join([*lines, *self._told_of_observations()])

    def _told_of_observations(self) -> list[str]:
        if not self.observes:
            return []
        shown = [seen for seen in self.observed if seen.shows]
        is_shown = shown and not any(seen.is_slow for seen in shown)
        return [
            *(f"a guaranteed job beside guests, median step against alone: {seen}" for seen in self.observed),
            f"{'SHOWN' if is_shown else 'NOT SHOWN'}: no guaranteed job is slower than alone by more than {BOUND:.0%} "
            f"and the noise floor, in {len(shown)} observations",
        ]


class ShortSoak(Soak):
    """For a test. It begins with lanes: there guests sit down at once."""

    policy = "salus"
    declares = 0.9
    kept = 0
    calm_s, storm_s = (6.0, 9.0), (2.0, 4.0)
    has_torch = False
    observes = False
    steps, guaranteed_steps = (0, 50, 400, 600), (600,)


def _spread(ratios: list[float]) -> str:
    if len(ratios) < 2:
        return f"{len(ratios)} measured: {ratios}"
    tenths = statistics.quantiles(ratios, n=10)
    return f"{len(ratios)} measured: least {ratios[0]:.3f}, tenths {', '.join(f'{each:.3f}' for each in tenths)}"


def soak(sort: type[Soak], seconds: float, seed: int) -> Soak:
    with weathering(sort, seed) as soaked:
        try:
            soaked.live_through(seconds)
            soaked.wind_down()
            soaked.settle()
            soaked.judge()
        finally:
            print(soaked.told(), flush=True)
        return soaked


if __name__ == "__main__":
    minutes, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    soak(Soak, 60 * minutes, seed)
