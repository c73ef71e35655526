"""What jobs come after: which others, and how those must have ended.

A dependency is written `17` or `afterok:17` (17 has succeeded), `afterany:17` (17 is over) or `afternotok:17` (17 has
failed or was cancelled). The number of an array stands for all its elements: afterok waits for all to succeed, afterany
for all to be over, afternotok for all to be over and one of them at least not to have succeeded. A job whose
dependencies cannot be met any more is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from weft.control.job_state import IN_WORDS, State
from weft.core.errors import InputError
from weft.core.reasons import Code, Reason

MOST_LISTED = 20


class Outcome(StrEnum):
    """How another job must have ended."""

    OK = "afterok"
    ANY = "afterany"
    NOT_OK = "afternotok"


WANTED = {Outcome.OK: "has succeeded", Outcome.ANY: "is over", Outcome.NOT_OK: "has failed"}
States = Callable[[str], Mapping[str, str]]
"""The jobs that an id or an array's number stands for, each with its state; those that live have one that is no end."""


@dataclass(slots=True)
class Awaited:
    """What a job, or an array, comes after: each dependency as written, and the live jobs that it waits for."""

    terms: Mapping[str, Outcome] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.live)

    def names(self, job_id: str, number: int) -> list[tuple[str, Outcome]]:
        """The dependencies that a job which has ended is part of."""
        return [(each, self.terms[each]) for each in dict.fromkeys((job_id, str(number))) if each in self.terms]


NONE_AWAITED = Awaited()
"""Shared by all jobs that come after none, which may be many; it is never changed."""


def terms_of(after: Iterable[str]) -> dict[str, Outcome]:
    """Of each job or array, how it must have ended. Asked for twice, both must hold."""
    terms: dict[str, Outcome] = {}
    for each in after:
        kind, colon, job_id = each.rpartition(":")
        wanted = Outcome(kind) if colon else Outcome.OK
        before = terms.get(job_id, Outcome.ANY)
        if {before, wanted} == {Outcome.OK, Outcome.NOT_OK}:
            raise InputError(f"it is to start if {job_id} succeeds and if it fails", "afterany: whenever it is over")
        terms[job_id] = before if wanted is Outcome.ANY else wanted
    return terms


def hopeless(term: str, wanted: Outcome, job_id: str, state: State, states: States) -> str:
    """Why a dependency cannot be met now that a job of it has ended so; empty if it can."""
    if wanted is Outcome.OK and state is not State.SUCCEEDED:
        return f"job {job_id}, which it comes after, {IN_WORDS[state]}"
    if wanted is Outcome.NOT_OK and state is State.SUCCEEDED:
        ended = {each: how for each, how in states(term).items() if each != job_id}
        if all(how == State.SUCCEEDED for how in ended.values()):
            what = f"job {job_id}" if term == job_id else f"all of array {term}"
            return f"{what}, whose failure it waits for, {IN_WORDS[state]}"
    return ""


def hold_for(awaited: Awaited) -> Reason:
    """In words, while it waits."""
    by_outcome: dict[Outcome, list[str]] = {}
    for term, wanted in awaited.terms.items():
        if any(each == term or each.startswith(f"{term}_") for each in awaited.live):
            by_outcome.setdefault(wanted, []).append(term)
    if by_outcome.keys() == {Outcome.OK}:
        return Reason(Code.COMES_AFTER, (_listed(sorted(awaited.live)),))
    told = [f"{_listed(sorted(terms))} {WANTED[wanted]}" for wanted, terms in by_outcome.items()]
    return Reason(Code.DEPENDS, (" and ".join(told),))


def _listed(ids: list[str]) -> str:
    """For people: each job of an array may come after thousands."""
    more = len(ids) - MOST_LISTED
    return ", ".join(ids[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
