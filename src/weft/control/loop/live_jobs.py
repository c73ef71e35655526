"""The live jobs, with indexes: by order of submission, by array, by state."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice

from weft.control.loop.job_record import FIRST, JobRecord, Key
from weft.control.loop.job_state import Awaited, terms_of


class LiveJobs:
    def __init__(
        self,
        records: Iterable[JobRecord] = (),
        last_number: int = 0,
        environments: Mapping[str, int] | None = None,
    ) -> None:
        self.records: dict[str, JobRecord] = {}
        self._keys: list[Key] = []
        self._in_order: list[JobRecord] = []
        """All records, sorted by `_keys`: parallel lists, so that a page is found by bisection."""
        self.arrays: dict[int, dict[str, None]] = {}
        """Of each array, its live elements in order."""
        self.dependents: dict[str, set[int]] = {}
        """Of each job, the numbers of its dependent jobs and arrays. Elements of an array share what they await."""
        self.alive: dict[str, JobRecord] = {}
        """Jobs with an attempt on the node: few, however many wait."""
        self.backing_off: dict[str, JobRecord] = {}
        self.stopping: dict[str, JobRecord] = {}
        """Jobs that were told to end."""
        self.lost: dict[str, JobRecord] = {}
        """Jobs of which an attempt was lost."""
        self.last_number = last_number
        self.environments = dict(environments or {})
        """The id of each stored environment, by digest."""
        for record in sorted(records, key=lambda record: record.key):  # quick: they come sorted
            self.add(record)

    def new_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def add(self, record: JobRecord) -> None:
        self.records[record.id] = record
        key = record.key
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
            self._in_order.append(record)
        else:
            at = bisect_left(self._keys, key)
            self._keys.insert(at, key)
            self._in_order.insert(at, record)
        if record.is_alive:
            self.alive[record.id] = record
        if record.not_before is not None:
            self.backing_off[record.id] = record
        if record.ending is not None:
            self.stopping[record.id] = record
        if record.loss is not None:
            self.lost[record.id] = record
        if record.array_index is not None:
            self.arrays.setdefault(record.number, {})[record.id] = None
        if record.awaits and (record.array_index is None or len(self.arrays[record.number]) == 1):
            self._await(record)

    def _await(self, record: JobRecord) -> None:
        for awaited in record.awaits.live:
            self.dependents.setdefault(awaited, set()).add(record.number)

    def find_awaited(self) -> None:
        """After loading: find the jobs that each record still depends on. Elements of an array share them."""
        awaited: dict[int, Awaited] = {}
        for record in self.records.values():
            if record.request.get("after"):
                if record.number not in awaited:
                    terms = terms_of(record.request["after"])
                    awaited[record.number] = Awaited(terms, self.expanded(terms))
                    record.awaits = awaited[record.number]
                    self._await(record)
                record.awaits = awaited[record.number]

    def remove(self, record: JobRecord) -> None:
        """Its dependents have yet to be released."""
        del self.records[record.id]
        at = bisect_left(self._keys, record.key)
        del self._keys[at], self._in_order[at]
        self.alive.pop(record.id, None)
        self.backing_off.pop(record.id, None)
        self.stopping.pop(record.id, None)
        self.lost.pop(record.id, None)
        if record.array_index is not None:
            elements = self.arrays[record.number]
            del elements[record.id]
            if not elements:
                del self.arrays[record.number]

    def after(self, key: Key) -> Iterator[JobRecord]:
        """The records after this key, in order."""
        return islice(self._in_order, bisect_right(self._keys, key), None)

    def alive_after(self, key: Key = FIRST) -> list[JobRecord]:
        """The same, of jobs with an attempt on the node."""
        behind = [record for record in self.alive.values() if record.key > key]
        return sorted(behind, key=lambda record: record.key)

    def ids_of(self, wanted: str) -> list[str]:
        """The live jobs that an id or an array's number stands for; none, if there are none."""
        if wanted in self.records:
            return [wanted]
        return list(self.arrays.get(int(wanted), ())) if wanted.isdecimal() else []

    def count_of(self, wanted: str) -> int:
        """How many these are."""
        if wanted in self.records:
            return 1
        return len(self.arrays.get(int(wanted), ())) if wanted.isdecimal() else 0

    def of_number(self, number: int) -> list[JobRecord]:
        """The live jobs of one submission."""
        return [self.records[job_id] for job_id in self.ids_of(str(number))]

    def expanded(self, after: Iterable[str]) -> set[str]:
        """The live jobs that a job's `after` stands for. Jobs that have ended are not awaited."""
        return {job_id for each in after for job_id in self.ids_of(each)}

    def keep(self, env: Mapping[str, str]) -> tuple[int, tuple[int, str, str] | None]:
        """The id of an environment, and the row to write if it is new."""
        body = json.dumps(dict(env), sort_keys=True)
        digest = sha256(body.encode()).hexdigest()
        if digest in self.environments:
            return self.environments[digest], None
        number = self.environments[digest] = max(self.environments.values(), default=0) + 1
        return number, (number, digest, body)
