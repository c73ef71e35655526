/* What the library offers to weft's runtime inside a job's process (src/weft/runtime/allocator.py calls it by ctypes).
 *
 * Preloaded into every process of a job, it does nothing until weft_native_begin. From then on it serves what PyTorch
 * allocates on the cpu device. A function that can fail returns 0 or an errno, and then has one line in `why`. */
#ifndef WEFT_NATIVE_H
#define WEFT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_NATIVE_VERSION 2
#define WEFT_EXPORT __attribute__((visibility("default")))

WEFT_EXPORT uint64_t weft_native_version(void);

/* Serve from now on. `limit` in bytes, 0 = none. What is over it goes to a nameless file in the folder `tier`, or
 * fails with ENOMEM if `is_strict`, or if `tier` is empty or cannot be used (then `why` says so, and 0 is returned).
 * A swap-out needs the tier too. */
WEFT_EXPORT int weft_native_begin(const char *tier, uint64_t limit, int is_strict, char *why, size_t why_bytes);

/* This process speaks for its task: `page` is its control page (512 words). The caller's thread is the one that steps:
 * it alone allocates in the lane and is held back by the duty. Limit and duty are read there at each boundary. */
WEFT_EXPORT int weft_native_claim(uint64_t *page);

/* Become a member of the lane whose page is the file `path`, of one at a time. A turn is taken when a step first needs
 * memory. */
WEFT_EXPORT int weft_native_join(const char *path, uint64_t capacity, int64_t base, int64_t weight, char *why,
                                 size_t why_bytes);

/* A step has ended. rest: learn, obey the limit, copy survivors out, release the turn; returns the nanoseconds of the
 * step that were not its own: inserted by the duty, or waited for the turn. go: swap in if that was not done, and run
 * on; the turn is taken when memory is next needed. Returns the nanoseconds it took. */
WEFT_EXPORT uint64_t weft_native_rest(void);
WEFT_EXPORT uint64_t weft_native_go(void);

/* Only between rest and go. let_pass: we pause, so the next turn is another's even if the order gives it to us. */
WEFT_EXPORT void weft_native_let_pass(void);
WEFT_EXPORT int weft_native_drop_caches(void);
WEFT_EXPORT int weft_native_swap_out(char *why, size_t why_bytes);
WEFT_EXPORT int weft_native_swap_in(char *why, size_t why_bytes);

/* The same: be in no lane, or else in another one. What was allocated in it is ours alone; ENOMEM if there is no room
 * for that, and then it is a member as before. */
WEFT_EXPORT int weft_native_leave_lane(void);

/* The script is over, or runs on as if bare: no lane, no duty. What was allocated stays served. */
WEFT_EXPORT void weft_native_leave(void);

/* For people, tests and benchmarks. */
struct weft_native_state {
    uint64_t is_serving, is_claimed, is_member;
    uint64_t limit, device, peak, overflow; /* bytes: allowed; on the device now; most so far; in the next tier */
    uint64_t persistent, ephemeral;         /* P and T, as requested */
    uint64_t cached;                        /* free, but perhaps with pages */
    uint64_t resident;                      /* with pages, in use or not, the lane's not counted */
    uint64_t lane_used, lane_private;       /* bytes of the lane in use by us now; of its addresses, private pages */
    uint64_t copied_out, copied_out_bytes;  /* survivors, ever */
    uint64_t idle;                          /* nanoseconds inserted */
    uint64_t allocations, steps;
};
WEFT_EXPORT void weft_native_look(struct weft_native_state *state);

#endif
