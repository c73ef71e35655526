/* Blocks within one range of addresses. All that is known of a block is kept elsewhere: its pages may be moved out,
 * or be another process's for a while. Good fit in constant time by two levels of size classes (TLSF).
 * Not thread-safe; memory.c has the lock. */
#ifndef WEFT_ARENA_H
#define WEFT_ARENA_H

#include "backend.h"

#include <stdbool.h>
#include <stdint.h>

#define WEFT_GRAIN ((size_t)64)           /* sizes and addresses of blocks are multiples of it */
#define WEFT_SMALLEST WEFT_PAGE_SIZE      /* no block is smaller, so at most one begins in a page */
#define WEFT_NO_BLOCK UINT32_C(0)

struct weft_block {
    uint64_t offset;    /* from the arena's base */
    uint64_t bytes;
    uint64_t requested; /* bytes, while it is in use */
    uint64_t dirty_from, dirty_to; /* of a free block: only between these offsets are there pages; equal = nowhere */
    uint32_t before, after;         /* neighbours in address order */
    uint32_t previous, next;        /* in its free list, or among the young while it is in use */
    uint32_t kind;                  /* memory.c: what it is known by from step to step */
    uint32_t kept_at;               /* overflow.c: the step in which it was kept */
    /* out: its inner pages are in the next tier; kept: for the next step, and in use by no tensor;
     * private: copied out of the lane; lasting: by prediction */
    uint8_t is_free, is_young, is_out, is_kept, is_private, is_lasting;
};

#define WEFT_FIRST_LEVELS 40
#define WEFT_SECOND_LEVELS 32

struct weft_arena {
    struct weft_range range;
    struct weft_range blocks_range, starts_range;
    struct weft_block *blocks; /* index 0 is none */
    uint32_t *starts;          /* page → the block that begins in it */
    size_t blocks_usable, starts_usable; /* bytes of the tables */
    uint32_t blocks_made, unused_blocks; /* a list through `next` */
    uint64_t dirty;            /* bytes of free blocks that may have pages */
    uint32_t lowest;           /* `after` leads from here to all others in address order, and to 0 at the end */
    uint64_t first_bits;
    uint32_t second_bits[WEFT_FIRST_LEVELS];
    uint32_t free_lists[WEFT_FIRST_LEVELS][WEFT_SECOND_LEVELS];
};

/* Over `bytes` of addresses, all of them one free block; false if the system has no room even for the tables. */
bool weft_arena_begin(struct weft_arena *arena, struct weft_range range);

/* The index of a block of at least `bytes` at a multiple of `alignment` (a power of two), below `end`;
 * WEFT_NO_BLOCK if there is none. */
uint32_t weft_arena_take(struct weft_arena *arena, size_t bytes, size_t alignment, size_t end);

/* Give a block back; the free block it has become part of. */
uint32_t weft_arena_give(struct weft_arena *arena, uint32_t block);

/* The block in use that begins at this address; WEFT_NO_BLOCK if none does. */
uint32_t weft_arena_find(const struct weft_arena *arena, const void *at);

static inline bool weft_arena_has(const struct weft_arena *arena, const void *at)
{
    return (uintptr_t)at - (uintptr_t)arena->range.base < arena->range.bytes;
}

/* There are no pages in this free block any more from this offset on. */
void weft_arena_cleaned(struct weft_arena *arena, uint32_t block, uint64_t from);

/* NULL, or what is wrong with it. For tests. */
const char *weft_arena_wrong(const struct weft_arena *arena);

#endif
