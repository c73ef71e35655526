/* Taking turns in a lane. One process joins a lane at most once; one of its threads takes and releases turns.
 * Nothing here knows what the lane's memory is used for. Never calls malloc, never exits.
 *
 * A turn is offered by the member that had the last one and accepted by the next; both by compare-and-swap of the
 * lane's `turn`, whose generation only grows. So whatever a process saw before it was delayed, stopped or killed, its
 * swap fails if the world has moved on; and a waiter can repair what a dead process left half done. */
#ifndef WEFT_TURNSTILE_H
#define WEFT_TURNSTILE_H

#include "process.h"
#include "weft_lane.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: in no lane. */
struct weft_turnstile {
    struct weft_lane *lane;
    int page;    /* the lane's file, open; 0 = none: ours are above the standard three */
    int memory;  /* the lane's memory, open */
    unsigned slot;
    uint64_t pid, start; /* this process */
    uint64_t turn;       /* the one we hold, as in the page; 0 = none */
    uint64_t began_ns;   /* of that turn */
    uint64_t looked_ns;  /* when we last looked whether the others live */
    uint64_t passed_ns;  /* when we passed the turn on, and have not come for the next; else 0 */
    unsigned late;       /* how often in a row we came too late for the place that was kept for us */
    bool heeds_signals;  /* a signal ends the wait for a turn */
};

/* Make the lane's page at `path` unless it is there, check it, and become a member. 0, or a negative errno with one
 * line in `why`: what is wrong and what would help. */
int weft_join(struct weft_turnstile *mine, const char *path, uint64_t capacity, int64_t base, int64_t weight,
              char *why, size_t why_bytes);

/* Wait for the turn and take it. Returns the nanoseconds waited. If a signal ended the wait, mine->turn is 0 and our
 * place in line is kept: the script shall see its Ctrl-C. A lane that cannot be used any more (its page is
 * damaged, or our slot has been given to another) gives UINT64_MAX: then we are no member. */
uint64_t weft_take_turn(struct weft_turnstile *mine);

/* Give the turn to the waiting member with the smallest key, to none if none waits. Without a turn, nothing. */
void weft_release_turn(struct weft_turnstile *mine);

/* A step is over and another will follow: release, and wait for the next turn without sleeping. So our key counts among
 * those who wait, which is what makes FIFO, SRTF and priority. weft_take_turn accepts it; a member that does not within
 * some milliseconds is passed. For one that has come too late three times in a row no place is kept until it comes in
 * time again: all others would be blocked meanwhile. */
void weft_pass_turn(struct weft_turnstile *mine);

/* Neither hold a turn nor wait for one. */
void weft_stand_back(struct weft_turnstile *mine);

/* Release, and be no member any more. The lane's page is removed with its last member. */
void weft_leave(struct weft_turnstile *mine);

/* Bytes of the lane's memory that are really there: no more than the page says, nor than the file has. */
uint64_t weft_reserved(const struct weft_turnstile *mine);

/* Whether a member is seen to have the same memory open as we: what the page says of it is no proof. */
bool weft_has_our_memory(const struct weft_turnstile *mine, const struct weft_member *member);

/* Most bytes that any member needs of the lane, as they last said. */
uint64_t weft_most_needed(const struct weft_turnstile *mine);

/* Whether it lives as a member: it has not replaced itself by another program. */
enum weft_life weft_life_of_member(const struct weft_lane *lane, const struct weft_member *member);

/* Free the slots of members that have died; not now if another process is joining or leaving: that one does it. */
void weft_free_slots(struct weft_turnstile *mine);

/* Whether another member waits for the turn. */
bool weft_is_wanted(const struct weft_turnstile *mine);

/* In a forked child: forget the lane without a word; it is the parent's. */
void weft_forget_lane(struct weft_turnstile *mine);

static inline unsigned weft_slot_of(uint64_t turn)
{
    return (unsigned)(turn & 0xff);
}

/* The next turn, offered to this slot. */
static inline uint64_t weft_turn_after(uint64_t turn, unsigned slot)
{
    return ((turn >> 8 | 1) + 1) << 8 | slot;
}

/* How long a member may be stopped in its turn; never less than a moment, whatever the page says. */
static inline uint64_t weft_stopped_grace(const struct weft_lane *lane)
{
    uint64_t said = lane->stopped_grace;
    return said > WEFT_LEAST_GRACE_NS ? said : WEFT_LEAST_GRACE_NS;
}

/* Places where a test may end or stop a process. */
#ifdef WEFT_FAIL_POINTS
void weft_fail_point(const char *name);
#else
#define weft_fail_point(name) ((void)0)
#endif

#endif
