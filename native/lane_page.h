/* The file of a lane's page: creating it, finding it, and reporting what is wrong with it. */
#ifndef WEFT_LANE_PAGE_H
#define WEFT_LANE_PAGE_H

#include "weft_lane.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_ABOVE_STANDARD 3
#define WEFT_KEEP_TRYING (-EAGAIN) /* the page has just been made, or removed */

/* Where to say in one line what is wrong. */
struct weft_report {
    const char *path;
    char *why;
    size_t bytes;
};

/* The error, negative. */
__attribute__((format(printf, 3, 4))) int weft_fail(const struct weft_report *to, int error, const char *format, ...);

/* The page's file, open; it appears whole if it was not there. Or a negative errno. */
int weft_open_page(const struct weft_report *to, uint64_t capacity);

/* What can be checked only of a mapped page: whether it is a lane's, and one that we may use. */
int weft_check_page(const struct weft_report *to, const struct weft_lane *lane);

/* The same file under a number above the standard three: a script may have closed those, to open them anew later. */
int weft_above_standard(int file);

uint64_t weft_pid_namespace(void); /* 0: there is no /proc */

#endif
