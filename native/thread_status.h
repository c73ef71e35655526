/* What /proc says of a thread of this process. Nothing is allocated: all other threads may be stopped. */
#ifndef WEFT_THREAD_STATUS_H
#define WEFT_THREAD_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

struct weft_thread_status {
    char name[32];
    unsigned long sleeps; /* how often it went to sleep or was preempted: if equal at two looks, it has not run since */
    char state; /* R running or runnable, S asleep, D asleep in a way that no signal interrupts, … */
    bool is_blocked;       /* the signal that was asked about */
    bool is_kernel_worker; /* of io_uring or vhost: a thread of this process that runs kernel code alone */
    bool is_idle_worker;   /* one of io_uring that has no request */
};

/* False if the thread has ended, or nothing can be learnt of it. */
bool weft_read_thread(pid_t thread, int signal_number, struct weft_thread_status *status);

#endif
