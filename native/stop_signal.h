/* The signal by which other threads of this process are stopped (world.c).
 *
 * It is SIGSETXID, signal 33, which glibc keeps for itself: pthread_sigmask and sigprocmask of glibc never block it, so
 * it also reaches threads that block "all" signals, as jemalloc's background thread does. glibc sends it when a program
 * changes its user or group. Ours carries a value that no other sender uses; every other one is passed on to glibc's
 * handler. glibc's handler in turn ignores ours. ADR 34 has the reasons. */
#ifndef WEFT_STOP_SIGNAL_H
#define WEFT_STOP_SIGNAL_H

#include <stdbool.h>
#include <sys/types.h>

/* `park` runs in a thread that receives the signal, with every signal blocked. Without a signal that can be used,
 * install() says so. */
void weft_stop_signal_begin(void (*park)(void));

/* Put the handler in place, again if glibc has replaced it since: it does when the first thread is created.
 * The number of the signal; 0 if there is none. */
int weft_stop_signal_install(void);

/* To a thread of this process. 0, or an errno: ESRCH if it has ended, EAGAIN if the user's queue of signals is full. */
int weft_stop_signal_send(pid_t thread);

#endif
