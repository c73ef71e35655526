/* What the system says of another process. A process is known by its pid and when it started: pids are used again. */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

enum weft_life { WEFT_GONE, WEFT_STOPPED, WEFT_LIVES };

/* Gone: no thread of it can write any more. What cannot be found out counts as living. */
enum weft_life weft_life_of(uint64_t pid, uint64_t start);

/* execve() leaves pid and start as they are. Whether a living process has neither this file open (as that descriptor)
 * nor a file of that name mapped any more. */
struct weft_opened {
    uint64_t descriptor, device, inode;
    const char *name;
};
bool weft_runs_another_program(uint64_t pid, const struct weft_opened *opened);

/* Whether it is seen to have this file open. */
bool weft_has_open(uint64_t pid, const struct weft_opened *opened);

/* When it started, in the kernel's ticks; 0 if that cannot be found out. */
uint64_t weft_start_of(uint64_t pid);

/* Whether it lives, as far as one cheap system call can tell. */
bool weft_may_live(uint64_t pid);

/* End a process that is stopped, and this one only; whether it was. */
bool weft_end_stopped(uint64_t pid, uint64_t start);

/* Whether a process has been seen stopped in the same place, time and again, for longer than `grace_ns`. */
struct weft_watch {
    uint64_t place, since_ns;
};
bool weft_stands_too_long(struct weft_watch *watch, enum weft_life life, uint64_t place, uint64_t grace_ns);

uint64_t weft_now_ns(void);

#endif
