"""Why a job starts, stops or waits: kept as a code and its numbers, put into words on demand."""

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
    Code.STARTING_UP: "starting up: no step yet; not preempted for {0} at most",
    Code.AFTER_STARTUP: "needs {0} devices; free: {1}; {2} starts up and keeps its devices until its first step",
    Code.HELD: "held by its owner",
    Code.COMES_AFTER: "starts once {0} has succeeded",
    Code.DEPENDS: "starts once {0}",
    Code.BEGINS_AT: "begins at {0:.2f} s",
    Code.ARRAY_LIMIT: "of its array, {0} may run at once",
    Code.BACKING_OFF: "attempt {0} {1}; the next begins {2} s after it",
    Code.ENDING: "{0}; its processes are being ended",
    Code.NEEDS_DEVICES: "needs {0} devices; free: {1}",
    Code.NEEDS_BLOCK: "needs {0} devices on {2}; the largest free block is {1}",
    Code.NEEDS_TYPE: "needs {0} devices of type {1}; the cluster has {2}",
    Code.NEEDS_CPUS: "needs {0} CPU cores; free: {1}",
    Code.NEEDS_IDS: "needs the devices {0}; in use: {1}",
    Code.NO_CPUS: "needs {0} CPU cores; a node has at most {1}",
    Code.NO_IDS: "needs the devices {0}, and no node has all of them",
    Code.OUTRANKED: "needs {0} devices; free: {1}, and jobs behind it hold only {2} that it may take",
    Code.BEHIND_HEAD: "waits its turn behind {0}, which needs {1} devices",
    Code.TENANT_LIMIT: "needs {2} devices; tenant {0} may hold {1} at once",
    Code.BETTER_LATER: "would end sooner by waiting its turn for {0}",
    Code.NEXT_DECISION: "fits; starts with the next decision",
    Code.TAKES_TURNS: "waits for its turn on devices of {0}; other jobs there: {1}",
    Code.IN_LINE: "waits its turn behind {0} others",
    Code.SEAT_BLOCKED: "its seat is on a device that somebody else uses",
    Code.NO_SHARING: "the policy lets nobody share devices",
    Code.SEAT_TAKEN: "its seat is needed by {0}, which was granted the device",
    Code.CPUS_TAKEN: "the CPU cores it uses are needed by {0}, which was granted devices",
    Code.SEAT_OUTGROWN: "{0} was found to need more memory than its device has beside the others",
    Code.NOT_A_PEER: "{0}, which holds its device, goes before it and is to feel nobody beside it",
    Code.NEW_HOLDER: "{0} holds its device now, and nothing says that the two are good company",
    Code.SEATED_OTHERWISE: "another policy seated it, by a rule that this one does not have",
    Code.STARVED: "beside {0} it made {1:.1%} of what it makes alone",
    Code.STARVED_UNSEEN: "beside {0} it made next to nothing for {1}",
    Code.FIRST_SEAT: "new, and its declared memory fits: starts beside {0}",
    Code.FIRST_SEAT_OVER: "has had its first share of device-time beside others; waits its turn",
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
    Code.BESIDE_ONLY: "beside {0}: {1:.3g} steps/s; how fast it is alone is not known",
    Code.MIGRATED: "migrated: {0}",
    Code.MIGRATION_GAINED: "migrated: {0:+.0%} measured",
    Code.STAYS: "stays a guest where it computes: {0}",
    Code.RESERVED: "waits for {0} more of {1} devices; reserved for it so far: {2}",
    Code.KEPT_FOR: "fits, but the devices are reserved for the gang of {0}",
    Code.NEEDS_QUOTA: "needs {0} devices within the quota of tenant {1}; in use of its {2}: {3}{4}",
    Code.CONVERTED: "converted to opportunistic after {0} of waiting for quota",
    Code.UPGRADED: "upgraded to guaranteed: quota is free",
}


@value
class Reason:
    """A code and the numbers and names that belong to it."""

    code: Code
    details: tuple[int | float | str, ...] = ()

    def __str__(self) -> str:
        return (
            TEMPLATES[self.code]
            .format(*self.details)
            .replace(" 1 devices", " 1 device")
            .replace(" 1 CPU cores", " 1 CPU core")
        )
