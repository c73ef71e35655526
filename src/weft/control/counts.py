"""How many jobs are in each state, without a look at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from weft.control.company import computing
from weft.control.desk import Desk
from weft.control.outcome import Outcome
from weft.control.record import State
from weft.control.store import Store


class Counts:
    """As of the last instant on disk. What is published is never changed, so that it may be read at any time."""

    def __init__(self, store: Store, desk: Desk) -> None:
        self._ended = Counter({row["state"]: row["jobs"] for row in store.all("counts")})
        self.ended: Mapping[str, int] = {}
        self.all: Mapping[str, int] = {}
        self.publish(desk)

    def add(self, outcome: Outcome) -> None:
        """A job ends once."""
        self._ended.update(str(row["state"]) for row in outcome.rows.values() if row["finished_at"] is not None)

    def publish(self, desk: Desk) -> None:
        running = sum(1 for _ in computing(desk.scheduler.ledger))
        paused = sum(not desk.job(job_id).is_computing for job_id in desk.roster.alive)
        live = {
            State.PENDING: len(desk.records) - running - paused,
            State.RUNNING: running,
            State.PAUSED: paused,
        }
        self.ended = dict(self._ended)
        self.all = {**self.ended, **{str(state): count for state, count in live.items() if count}}
