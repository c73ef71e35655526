/* The device memory of this process: what PyTorch asks for, where it goes, what it adds up to.
 *
 * Persistent memory (P) is in an arena of the process's own. What is allocated within a step is expected to die with
 * it and goes to the lane, if we are in one and have the turn. Kinds that outlived a step before go to P; a survivor
 * that was not foreseen gets private pages under the same address when the lane is handed over. So a wrong guess costs
 * time and never a value. Thread-safe. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include "arena.h"
#include "backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_native_state;

/* 0 or an errno. `tier` is an open file, or negative: then nothing is moved out, and the limit is strict. */
int weft_memory_begin(const struct weft_backend *backend, int tier, uint64_t limit, bool is_strict);

/* A block, or NULL: over the limit, or no memory. `may_use_lane`: it is the stepping thread that asks, in its turn. */
void *weft_memory_take(size_t bytes, size_t alignment, bool may_use_lane);
bool weft_memory_has(const void *at);

/* Whether what is over the limit goes to the next tier. */
bool weft_memory_overflows(void);
size_t weft_memory_size(const void *at);
void weft_memory_give(void *at);

/* Use this shared memory, of which `reserved` bytes are there, as the lane; then no more. */
int weft_memory_use_lane(int shared, uint64_t capacity, uint64_t reserved);
bool weft_memory_leave_lane(void); /* false: something of ours is in there, and we have to stay */

/* At a boundary. `limit` is the one from now on. After it nothing of ours is in the lane, if `is_lane_clear`; otherwise
 * there was no room for a survivor's private pages, and the turn must not pass. */
struct weft_boundary {
    uint64_t persistent, ephemeral, overflow, peak, copied_out, lane_needs, lane_reserved;
    bool is_lane_clear;
    int disobeyed; /* an errno: why the limit is not obeyed, or not all came back that could; tried again later */
};
struct weft_boundary weft_memory_boundary(uint64_t limit, bool poison);

/* Within a step: a limit that is higher than at the last boundary holds at once, so that what a burst needs more is in
 * the next tier for one step and not for two. A lower one waits for the boundary, and so does none at all (0): that may
 * be there for a moment while its writer puts another in its place. */
void weft_memory_allow(uint64_t limit);

/* Glances without the lock: what is in the next tier now, and what this step has needed so far on top of P. */
uint64_t weft_memory_overflow(void);
uint64_t weft_memory_step_needs(void);

/* The turn is ours again, and the lane has so many bytes now, of `capacity` at most. */
void weft_memory_turn_begins(uint64_t reserved, uint64_t capacity);

bool weft_memory_lane_is_empty(void);

/* The turn ends between two boundaries, if nothing of ours is in the lane. */
bool weft_memory_turn_ends(uint64_t *reserved, bool poison);

int weft_memory_drop_caches(void);
int weft_memory_swap_out(void);
int weft_memory_swap_in(void);

void weft_memory_before_fork(void);
void weft_memory_after_fork_in_parent(void);
void weft_memory_after_fork_in_child(void); /* from now on has() holds for the parent's blocks, and nothing is taken */

void weft_memory_look(struct weft_native_state *state);

#endif
