"""The control page, word by word. Its C twin is native/weft_page.h; a test compares them.

One page of shared memory, 512 words of 64 bits, each read and written as a whole. One side writes a word, but for
those from REQUEST to LANE_WEIGHT, which a rank that claims a page beside its task's copies from there before it
is visible. RUN_TO is written before the REQUEST it belongs to.
"""

PAGE_BYTES = 4096
PAGE_MAGIC = 0x4547415054464557  # "WEFTPAGE" in the file
PAGE_VERSION = 2
READABLE_VERSIONS = (1, 2)  # the first left words unused that are the native library's since

# written once, by the launcher of the task
MAGIC = 0
VERSION = 1
SIZE = 2
ATTEMPT = 3
LAUNCHER_PID = 4
LAUNCHER_START = 5  # as in /proc/PID/stat, so that a pid used again is not mistaken for the same process
TASK_PID = 6  # leader of the task's process group
TASK_START = 7

# coordinator → job
REQUEST = 8  # generation << 8 | wanted depth; the job waits on its lower half
RUN_TO = 9  # a job gates only once it has completed this step
DUTY = 10  # per cent
LIMIT = 11  # device memory in bytes, 0 = none
LANE = 12  # device + 1 << 32 | which of its lanes, 0 = none, or the one that the environment names
LANE_BASE = 13  # with its sign; the next turn is of the waiting member with the smallest base + weight * used / 1000
LANE_WEIGHT = 14  # with its sign
STOPPED = 15  # the generation whose pause stopped the process group, 0 = it is not stopped

# job → coordinator
CLAIM_PID = 16
CLAIM_START = 17
RANK = 18
WORLD = 19  # ranks that step together, 0 = no gang
STATE = 20  # generation it answers << 8 | state; the coordinator waits on its lower half
STEP = 21  # steps completed
HEARTBEAT = 22  # monotonic nanoseconds
SOURCE = 23  # a StepSource
PERSISTENT = 24  # bytes; this and the next, OVERFLOW and IDLE to PEAK are the native library's
EPHEMERAL = 25
HOST = 26
OVERFLOW = 27
CHECKPOINT = 28  # last checkpoint: 1 + its step, 0 = none
ABILITIES = 29
DEPTH = 30  # how deep the present pause has got
PAUSED = 31  # nanoseconds spent in pauses; no step's duration contains them
DURATIONS_COUNT = 32  # durations ever written; the last 64 are in the ring
IDLE = 33  # nanoseconds that the duty inserted, ever
TURNS = 34  # taken in the lane
TURN_WAITED = 35  # nanoseconds, ever
COPIED_OUT = 36  # bytes of survivors, ever
PEAK = 37  # most bytes on the device
NATIVE = 38  # version of the native library that serves this process, 0 = none

DURATIONS = 40  # 64 words, nanoseconds
DURATIONS_LENGTH = 64
MESSAGE_LENGTH = 104
MESSAGE = 105  # 31 words of UTF-8: the job's explanation of STATE
MESSAGE_BYTES = 248
METRICS_COUNT = 136
METRICS = 137  # 8 times: 3 words of name, 1 word of value (a double)
METRICS_LENGTH = 8
METRIC_WORDS = 4
METRIC_NAME_BYTES = 24

LOW_BITS = 0xFF  # of REQUEST and STATE: the depth, the state; the generation is above them


class Depth:
    """How deep a pause goes. LEAVE follows a checkpoint and ends the process."""

    RUN = 0
    GATE = 1
    DROP_CACHES = 2
    SWAP_OUT = 3
    CHECKPOINT = 4
    LEAVE = 5

    NAMES = ("run", "gate", "drop-caches", "swap-out", "checkpoint", "leave")


class RankState:
    """What the claiming process does."""

    UNCLAIMED = 0
    RUNNING = 1
    GATED = 2  # it waits at a boundary, at the depth in DEPTH
    REFUSED = 3  # it waits at a boundary but could not go as deep; MESSAGE says why
    LEAVING = 4
    ENDED = 5

    NAMES = ("unclaimed", "running", "gated", "refused", "leaving", "ended")


class StepSource:
    """Where step boundaries come from, from the least to the most certain source."""

    NONE = 0
    FORWARD = 1  # the end of a root forward, in inference
    OPTIMIZER = 2
    SCRIPT = 3  # weft.steps or weft.step

    NAMES = ("none", "forward", "optimizer", "script")


CAN_CHECKPOINT, CAN_SWAP, IN_LANE = 1, 2, 4  # bits of ABILITIES
LEFT_EXIT_CODE = 75  # EX_TEMPFAIL: ended on request after a checkpoint; the same command goes on from there
