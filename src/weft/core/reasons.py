"""Why a job starts, stops or waits: stored as a code and its numbers, rendered as text on demand."""

from __future__ import annotations

from enum import StrEnum

from weft.core.value import value


class Code(StrEnum):
    FITS = "fits"
    FITS_AFTER_PREEMPTING = "fits-after-preempting"
    PREEMPTED_FOR = "preempted-for"
    PAUSED = "paused"
    STARTING_UP = "starting-up"
    AFTER_STARTUP = "after-startup"
    HELD = "held"
    COMES_AFTER = "comes-after"
    DEPENDS = "depends"
    BEGINS_AT = "begins-at"
    ARRAY_LIMIT = "array-limit"
    BACKING_OFF = "backing-off"
    ENDING = "ending"
    NEEDS_DEVICES = "needs-devices"
    NEEDS_BLOCK = "needs-block"
    NEEDS_TYPE = "needs-type"
    NEEDS_CPUS = "needs-cpus"
    NEEDS_IDS = "needs-ids"
    NO_CPUS = "no-cpus"
    NO_IDS = "no-ids"
    OUTRANKED = "outranked"
    BEHIND_HEAD = "behind-head"
    TENANT_LIMIT = "tenant-limit"
    BETTER_LATER = "better-later"
    NEXT_DECISION = "next-decision"
    IN_LINE = "in-line"
    TAKES_TURNS = "takes-turns"
    SEAT_BLOCKED = "seat-blocked"
    SEAT_TAKEN = "seat-taken"
    CPUS_TAKEN = "cpus-taken"
    NO_SHARING = "no-sharing"
    SEAT_OUTGROWN = "seat-outgrown"
    NOT_A_PEER = "not-a-peer"
    NEW_HOLDER = "new-holder"
    SEATED_OTHERWISE = "seated-otherwise"
    STARVED = "starved"
    STARVED_UNSEEN = "starved-unseen"
    FIRST_SEAT = "first-seat"
    FIRST_SEAT_OVER = "first-seat-over"
    PACKED = "packed"
    PACKED_KEPT = "packed-kept"
    PACKED_KEPT_WITHIN = "packed-kept-within"
    PACKED_UNSURE = "packed-unsure"
    PACKED_IMPOSSIBLE = "packed-impossible"
    PACKED_UNMEASURED = "packed-unmeasured"
    PACKED_UNDONE = "packed-undone"
    PACKED_UNDONE_AFTER = "packed-undone-after"
    PACKED_UNDONE_WITHIN = "packed-undone-within"
    PACKED_GIVEN_UP = "packed-given-up"
    JOINED_LANE = "joined-lane"
    OPENED_LANE = "opened-lane"
    OPPORTUNISTIC = "opportunistic"
    BESIDE = "beside"
    BESIDE_ONLY = "beside-only"
    MIGRATED = "migrated"
    MIGRATION_GAINED = "migration-gained"
    STAYS = "stays"
    RESERVED = "reserved"
    KEPT_FOR = "kept-for"
    NEEDS_QUOTA = "needs-quota"
    CONVERTED = "converted"
    UPGRADED = "upgraded"


TEMPLATES = {
    Code.FITS: "starts on {0} of {1} free devices",
    Code.FITS_AFTER_PREEMPTING: "starts on {0} devices after preempting {1} of the jobs behind it",
    Code.PREEMPTED_FOR: "preempted: {0} comes before it and needs its devices",
    Code.PAUSED: "paused by its owner",
    Code.STARTING_UP: "starting up, no step yet: protected from preemption for {0} at most",
    Code.AFTER_STARTUP: "needs {0} devices; free: {1}; {2} is starting up and keeps its devices until its first step",
    Code.HELD: "held by its owner",
    Code.COMES_AFTER: "starts once {0} has succeeded",
    Code.DEPENDS: "starts once {0}",
    Code.BEGINS_AT: "begins at {0:.2f} s",
    Code.ARRAY_LIMIT: "its array runs at most {0} at once",
    Code.BACKING_OFF: "attempt {0} {1}; the next begins {2} s after it",
    Code.ENDING: "{0}; its processes are being stopped",
    Code.NEEDS_DEVICES: "needs {0} devices; free: {1}",
    Code.NEEDS_BLOCK: "needs {0} devices on {2}; the largest free block is {1}",
    Code.NEEDS_TYPE: "needs {0} devices of type {1}; the cluster has {2}",
    Code.NEEDS_CPUS: "needs {0} CPU cores; free: {1}",
    Code.NEEDS_IDS: "needs the devices {0}; in use: {1}",
    Code.NO_CPUS: "needs {0} CPU cores; a node has at most {1}",
    Code.NO_IDS: "needs the devices {0}, and no node has all of them",
    Code.OUTRANKED: "needs {0} devices; free: {1}, and jobs that it may preempt hold only {2}",
    Code.BEHIND_HEAD: "waits behind {0}, which needs {1} devices",
    Code.TENANT_LIMIT: "needs {2} devices; tenant {0} may hold {1} at once",
    Code.BETTER_LATER: "would finish sooner by waiting for {0}",
    Code.NEXT_DECISION: "fits; starts with the next decision",
    Code.TAKES_TURNS: "waits for its turn on devices of {0}; other jobs there: {1}",
    Code.IN_LINE: "waits behind {0} other jobs",
    Code.SEAT_BLOCKED: "evicted: its device is in use outside weft",
    Code.NO_SHARING: "the policy does not share devices",
    Code.SEAT_TAKEN: "evicted: {0} was granted its device",
    Code.CPUS_TAKEN: "evicted: {0} was granted devices and needs its CPU cores",
    Code.SEAT_OUTGROWN: "evicted: {0} needs more memory than its device has left beside the others",
    Code.NOT_A_PEER: "evicted: {0}, which holds its device, takes precedence and is not to share",
    Code.NEW_HOLDER: "not yet measured alongside {0}, which holds its device now",
    Code.SEATED_OTHERWISE: "placed by another policy, under a rule that this one does not have",
    Code.STARVED: "starved: beside {0} it made {1:.1%} of its speed alone",
    Code.STARVED_UNSEEN: "starved: beside {0} it made almost no progress for {1}",
    Code.FIRST_SEAT: "new, and its declared memory fits: starts beside {0}",
    Code.FIRST_SEAT_OVER: "used its first share of device-time beside others; waits in the queue",
    Code.PACKED: "packed with {0}, to be measured",
    Code.PACKED_KEPT: "packed with {0}: {1:+.0%}, kept",
    Code.PACKED_KEPT_WITHIN: "packed with {0}: {1:+.0%} ± {2:.0%}, kept",
    Code.PACKED_UNSURE: "packed with {0}: {1:+.0%} ± {2:.0%}, not measured well enough: measure again ({3} of {4})",
    Code.PACKED_IMPOSSIBLE: "packed with {0}: {1:.2f}× is impossible, a bad measurement: measure again ({2} of {3})",
    Code.PACKED_UNMEASURED: "packed with {0}: too few steps, not measured well enough: measure again ({1} of {2})",
    Code.PACKED_UNDONE: "packed with {0}, undone: {1:.2f}×",
    Code.PACKED_UNDONE_AFTER: "packed with {0}, undone after {2} steps: {1:.2f}×",
    Code.PACKED_UNDONE_WITHIN: "packed with {0}, undone after {2} steps: {1:.2f}× ± {3:.2f}",
    Code.PACKED_GIVEN_UP: "packed with {0}, undone: not measured well enough in {1} tries",
    Code.JOINED_LANE: "joins lane {0} beside {1}",
    Code.OPENED_LANE: "opens lane {0} beside {1}",
    Code.OPPORTUNISTIC: "uses what {0} leaves idle",
    Code.BESIDE: "beside {0}: {1:.0%} of its speed alone",
    Code.BESIDE_ONLY: "beside {0}: {1:.3g} steps/s; its speed alone is not known",
    Code.MIGRATED: "migrated: {0}",
    Code.MIGRATION_GAINED: "migrated: {0:+.0%} measured",
    Code.STAYS: "stays a guest on its present devices: {0}",
    Code.RESERVED: "waits for {0} more of {1} devices; reserved for it so far: {2}",
    Code.KEPT_FOR: "fits, but the devices are reserved for the gang of {0}",
    Code.NEEDS_QUOTA: "needs {0} devices within the quota of tenant {1}; in use of its {2}: {3}{4}",
    Code.CONVERTED: "converted to opportunistic after {0} of waiting for quota",
    Code.UPGRADED: "upgraded to guaranteed: quota is free",
}

PLURALS = ("devices", "CPU cores", "other jobs")


@value
class Reason:
    """A code and the numbers and names that belong to it."""

    code: Code
    details: tuple[int | float | str, ...] = ()

    def __str__(self) -> str:
        text = TEMPLATES[self.code].format(*self.details)
        for plural in PLURALS:
            text = text.replace(f" 1 {plural}", f" 1 {plural[:-1]}")
        return text
