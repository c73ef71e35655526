/* Stopping all other threads of this process for a moment: pages are being replaced that they may be writing to. */
#ifndef WEFT_WORLD_H
#define WEFT_WORLD_H

#include <stdbool.h>
#include <stddef.h>

/* Choose the signal (stop_signal.h). Without it the world cannot be stopped. */
void weft_world_begin(void);

/* True once every other thread is stopped. False if one does not answer in time: then all of them run. */
bool weft_world_stop(void);
void weft_world_go(void);

/* After a stop that failed: why, and which thread did not stop. One line for people. */
const char *weft_world_why(void);

/* In a forked child, where there are no other threads. */
void weft_world_after_fork(void);

#endif
