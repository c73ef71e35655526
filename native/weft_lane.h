/* A lane's shared page: its members and their turns. Its Python twin is src/weft/runtime/page/lane_page.py;
 * a test compares them. The memory that the members share is a memfd that each of them has open: it goes with the
 * last of them, however they end. */
#ifndef WEFT_LANE_H
#define WEFT_LANE_H

#include <stdint.h>

#define WEFT_LANE_BYTES 8192
#define WEFT_LANE_MAGIC UINT64_C(0x454e414c54464557) /* "WEFTLANE" in the file */
#define WEFT_LANE_VERSION 1
#define WEFT_LANE_MEMBERS 62
#define WEFT_NO_MEMBER 0xff
#define WEFT_STOPPED_GRACE_NS UINT64_C(30000000000)
#define WEFT_LEAST_GRACE_NS UINT64_C(50000000)

/* What several processes write. Every access is one of C11's, in one order for all (seq_cst). */
typedef _Atomic uint64_t weft_word;
typedef _Atomic int64_t weft_signed_word;

struct weft_member {
    weft_word pid; /* 0 = a free slot; written last when joining, first when leaving */
    weft_word start; /* as in /proc/PID/stat */
    weft_word memory; /* the file descriptor of the lane's memory in that process */
    weft_signed_word base; /* the next turn is of the waiting member with the smallest base + weight * used / 1000 */
    weft_signed_word weight;
    weft_word used;  /* nanoseconds of its turns */
    weft_word turns;
    weft_word needs; /* bytes of the lane that its recent steps used; none while it pauses */
    weft_word waits_since; /* monotonic nanoseconds, 0 = it does not wait; breaks ties */
    weft_word bell;  /* it sleeps on the lower half; rung when the turn may be its own */
    weft_word persistent; /* bytes, for observers */
    weft_word away; /* it waits without sleeping: it will come for its turn, and until then others may pass it */
    weft_signed_word ordered; /* the base as it was ordered, before what had been used by then was taken off it */
    uint64_t unused[3];
};

struct weft_lane {
    uint64_t magic;
    uint64_t version;
    uint64_t size;
    uint64_t pid_namespace; /* pids mean nothing elsewhere */
    uint64_t owner;         /* uid; only processes of this user may join */
    weft_word capacity;     /* bytes the lane may grow to; may be changed, and is obeyed at the next boundary */
    weft_word reserved;     /* bytes that are really there; 0 again when the memory is made anew */
    weft_word turn;         /* generation << 8 | slot of the member in turn, or WEFT_NO_MEMBER; the generation is
                             * even while the turn is offered, and odd once that member has accepted it */
    weft_word stopped_grace; /* nanoseconds after which a holder that is stopped is killed */
    weft_word handovers;    /* from one member to another */
    weft_word bereaved;     /* turns taken from members that had died */
    weft_word memory_device; /* st_dev and st_ino of the memory, by which a joiner knows it */
    weft_word memory_inode;
    uint64_t unused[3];
    struct weft_member members[WEFT_LANE_MEMBERS];
    uint64_t unused_end[16];
};

_Static_assert(sizeof(struct weft_member) == 128, "a member is 16 words");
_Static_assert(sizeof(struct weft_lane) <= WEFT_LANE_BYTES, "a lane's page is two pages");

#endif
