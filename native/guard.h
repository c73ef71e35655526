/* A guard for one mapping of a file that another process may truncate: a load or store beyond the end of the file
 * raises SIGBUS. In the guarded range it finds zeros instead, which are this process's alone. */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H

#include <stddef.h>

/* Guard these whole pages from now on, and nothing else; NULL for nothing. Other faults go to the handler that had the signal
 * before. A handler that the program installs later takes the guard away. */
void weft_guard(void *at, size_t bytes);

#endif
