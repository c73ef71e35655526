"""What happened to a job and what was decided about it, from its log, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from weft.control.record import Loss
from weft.control.views import Json, iso
from weft.core.reasons import Code, Reason
from weft.core.serialization import reason_of
from weft.core.text import duration_text

DECIDED = ("Start", "Preempt", "Seat", "Unseat", "Noted")
"""What a policy says of a job, each time with a reason. What is only noted changes nothing."""
STOPPED = "stopped where it was (no step boundary came)"


def decisions(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """All that was decided about a job, in order; by its node, too."""
    found = []
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] in DECIDED:
            found.append({"at": iso(row["at"]), "what": row["kind"], "reason": str(reason_of(body["reason"]))})
        elif row["kind"] == "Reported" and body["what"] == "held-back":
            found.append({"at": iso(row["at"]), "what": "HeldBack", "reason": _held_back_in_words(body)})
    return found


def preemptions(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Each with why it was chosen and what it cost: the wait for a boundary, and the time until it went on."""
    found: list[Json] = []
    last: Json | None = None
    for row in rows:
        body = json.loads(row["body"])
        if row["kind"] == "Preempt":
            reason = reason_of(body["reason"])
            by = str(reason.details[0]) if reason.details else ""
            last = {"at": iso(row["at"]), "by": by, "reason": str(reason), "at_s": row["at"], "paused_s": None}
            found.append(last)
        elif row["kind"] == "Unseat":
            last = None  # the next pause is a guest's
        elif last is None:
            continue
        elif row["kind"] == "Reported" and body["what"] in ("paused", "left"):
            last["depth"] = body.get("depth", "checkpoint")
            last.update({key: body.get(key) for key in ("waited_s", "step", "how", "held_bytes")})
        elif row["kind"] in ("Start", "Seat") and last["paused_s"] is None:
            last["paused_s"] = round(row["at"] - last["at_s"], 3)
    for each in found:
        del each["at_s"]
    return found


def decided_in_words(decided: Sequence[Json], preempted: Sequence[Json]) -> list[str]:
    """A line for each, in order; of a preemption, with what it cost."""
    told = [(one["at"], _preemption_in_words(one)) for one in preempted]
    told += [(one["at"], f"{one['at']}: {one['reason']}") for one in decided if one["what"] != "Preempt"]
    return [line for _, line in sorted(told, key=lambda each: str(each[0]))]


def _preemption_in_words(one: Json) -> str:
    text = f"{one['at']}: {one['reason']}"
    if one.get("depth"):
        waited = f"after {1000 * (one['waited_s'] or 0):.0f} ms"
        at = f"paused at step {one['step']} (depth {one['depth']}) {waited}"
        text += f"; {f'{STOPPED} {waited}' if one.get('how') == 'stopped' else at}"
        text += f", holding {one['held_bytes'] / 2**20:.0f} MiB" if one.get("held_bytes") else ""
    return text + (f", went on after {duration_text(one['paused_s'])}" if one["paused_s"] is not None else "")


def events(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Its history, in order. An attempt begins once: each coordinator that comes after finds it, and says so."""
    found, begun = [], set[int]()
    for row in rows:
        body = json.loads(row["body"])
        text = event_in_words(row["kind"], body)
        if row["kind"] == "Reported" and body["what"] == "started":
            text = text if body["attempt"] not in begun else "found by a new coordinator, and adopted"
            begun.add(body["attempt"])
        if text:
            found.append({"at": iso(row["at"]), "what": row["kind"], "text": text})
    return found


def event_in_words(kind: str, body: Json) -> str | None:
    """One line of a job's history; None for what says nothing to people."""
    if kind in DECIDED:
        return str(reason_of(body["reason"]))
    match kind:
        case "Submitted":
            return "submitted"
        case "Stepped":
            return "made its first step"
        case "Measured":
            beside = f"beside {', '.join(body['neighbours'])}" if body["neighbours"] else "alone"
            return f"measured: {body['rate_hz']:.3g} steps a second {beside}{_compared_in_words(body)}"
        case "Grown":
            needs_bytes = body["persistent_bytes"] + body["ephemeral_bytes"]
            return f"measured: it needs {needs_bytes / 2**20:.0f} MiB of a device by now"
        case "Held":
            reason = reason_of(body["reason"])
            if reason.code is Code.PAUSED:  # that it is paused is said by what follows from it
                return "its owner asked for a pause"
            return None if reason.code is Code.ENDING else f"{reason}"
        case "Released":
            return "resumed by its owner" if body.get("code") == Code.PAUSED else "released"
        case "Stopping":
            return f"{Reason(Code.ENDING, (body['reason'],))}"
        case "Ended":
            state = body["state"].lower()
            return f"{state}: {body['reason']}" if body["reason"] not in (None, "", state) else state
        case "Reported":
            return _report_in_words(body)
    return None


def _compared_in_words(body: Json) -> str:
    """With how sure that is. Logs of earlier versions know no comparison."""
    alone_hz, error = body.get("alone_hz"), body.get("error")
    if not alone_hz or error is None:
        return ""
    return f", against {alone_hz:.3g} alone in the same window ({body['rate_hz'] / alone_hz:.0%} ± {error:.0%})"


def _report_in_words(body: Json) -> str:
    match body["what"]:
        case "started":
            return f"attempt {body['attempt']} began as process {', '.join(map(str, body.get('pids', ())))}"
        case "paused":
            how = STOPPED if body.get("how") == "stopped" else f"paused at step {body['step']}"
            return f"{how}, {1000 * (body.get('waited_s') or 0):.0f} ms after it was asked to"
        case "left":
            return f"left with a checkpoint of step {body['step']}"
        case "ended":
            return f"attempt {body['attempt']} ended with exit code {body['exit_code']}"
        case "lost":
            return Loss(body["attempt"], 0.0, body.get("message", ""), body.get("checkpoint_step", 0)).in_words()
        case "held-back":
            return _held_back_in_words(body)
    return str(body["what"])


def _held_back_in_words(body: Json) -> str:
    match body["reason"]:
        case "resting":
            return f"stands still: its holder was {100 * body['slowdown']:.0f} % slower beside it"
        case "no room":
            return "stands still: its memory does not fit beside its holder's any more"
    return "goes on"
