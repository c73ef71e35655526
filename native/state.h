/* What memory.c, limiting.c, overflow.c, swapping.c, sharing.c and forking.c share. One of it, behind one lock. */
#ifndef WEFT_STATE_H
#define WEFT_STATE_H

#include "arena.h"
#include "backend.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WEFT_MOST_ADDRESSES ((size_t)1 << 40)
#define WEFT_FEWEST_ADDRESSES ((size_t)1 << 30)
#define WEFT_KINDS (1u << 16)
#define WEFT_CLASSES 1024u

/* The largest of the last 16 to 32 steps. */
struct weft_peak {
    uint64_t now, before;
};

struct weft_memory {
    pthread_mutex_t lock;
    const struct weft_backend *backend;
    bool is_serving, is_child, is_strict, is_swapped;
    int tier; /* negative: there is none */
    uint64_t limit;

    struct weft_arena own;
    size_t own_open; /* bytes of it that are committed */
    uint8_t *own_moved;      /* page → is in the next tier because all was swapped out; only as long as that is so */
    size_t own_moved_pages;

    struct weft_arena lane;
    int shared; /* the lane's memory; negative: we are in no lane */
    bool has_turn;
    uint64_t lane_reserved, lane_capacity, lane_top;
    uint8_t *lane_private; /* page → is ours alone */
    uint64_t private_pages, private_top; /* how many; none is above */

    uint64_t device, overflow, requested, lane_used; /* bytes in use */
    uint64_t peak, step_peak, persistent;
    struct weft_peak ephemeral, lane_needs;
    uint64_t least_cached; /* in this window */
    uint64_t purged_at, purge_gap; /* steps */
    int disobeyed; /* an errno: why the limit could not be obeyed when that was last tried */
    uint64_t steps, allocations, copied_out, copied_out_bytes;

    uint32_t kept[WEFT_CLASSES]; /* overflow.c: by size, the youngest first; blocks that are in use by no tensor */
    uint64_t kept_bytes;

    uint32_t young_own, young_lane; /* blocks that the stepping thread took in this step, those still in use */
    uint32_t seen_class[WEFT_CLASSES];   /* how often a class was asked for in this step; see seen_step */
    uint32_t seen_step[WEFT_CLASSES];
    uint8_t survives[WEFT_KINDS];

    struct weft_range shadow; /* while we fork: what the child must not share with us */
    const void *late[64];     /* given back while we forked, after the shadow was made */
    unsigned late_count;
};

extern struct weft_memory weft_memory;

/* While a thread forks it has the lock, and handlers of others that run in between may take and give. */
extern _Thread_local bool weft_is_forking;

void weft_lock(void);
void weft_unlock(void);

static inline uint64_t weft_down(uint64_t number)
{
    return number / WEFT_PAGE_SIZE * WEFT_PAGE_SIZE;
}

static inline uint64_t weft_up(uint64_t number, uint64_t multiple)
{
    return (number + multiple - 1) / multiple * multiple;
}

static inline void weft_note(struct weft_peak *peak, uint64_t number)
{
    if (number > peak->now)
        peak->now = number;
}

static inline uint64_t weft_most(const struct weft_peak *peak)
{
    return peak->now > peak->before ? peak->now : peak->before;
}

/* The pages that are this block's alone. */
static inline uint64_t weft_inner_from(const struct weft_block *block)
{
    return weft_up(block->offset, WEFT_PAGE_SIZE);
}

static inline uint64_t weft_inner_bytes(const struct weft_block *block)
{
    uint64_t from = weft_inner_from(block), to = weft_down(block->offset + block->bytes);
    return to > from ? to - from : 0;
}

/* limiting.c: what a block counts as, and where it is. */
uint64_t weft_charge(uint64_t requested);
uint64_t weft_on_device(const struct weft_block *block);
uint64_t weft_in_tier(const struct weft_block *block);
void weft_purge(void);

/* Give pages of free blocks back until what is on the device, in use or not, is within the limit. */
void weft_trim(void);

/* Bring what is on the device under the limit, or back where there is room for it. 0, or an errno: not all was done. */
int weft_obey(void);

/* overflow.c: blocks that begin in the next tier. What is given back keeps its place there for the next step. */
uint32_t weft_take_out(size_t bytes, size_t alignment);
bool weft_keep(uint32_t index); /* false: it is to be given back like any other */
void weft_drop_kept(uint64_t before_step); /* UINT64_MAX: all of them */

/* memory.c */
uint32_t weft_class_of(size_t bytes);
uint32_t weft_take_own(size_t bytes, size_t alignment);
bool weft_begin_arena(struct weft_arena *arena, size_t most_bytes);
void weft_age(uint32_t *young, struct weft_arena *arena);
void weft_give(const void *at);

/* sharing.c: after this nothing of ours is in the pages that we share, unless it says no. */
bool weft_clear_lane(bool poison);

/* Outside of lanes: private pages whose survivors have died are given back. */
void weft_give_dead_pages(void);

/* swapping.c: of pages of this free block, those that were swapped out are not needed any more. */
void weft_forget_swapped(const struct weft_block *block, uint64_t from, uint64_t to);

#endif
