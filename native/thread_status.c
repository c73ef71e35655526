#include "thread_status.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_WORKER_FLAGS (0x10u | 0x4000u) /* PF_IO_WORKER, PF_USER_WORKER */
#define FIELDS_BEFORE_FLAGS 6                 /* of stat, after the name: state, 4 numbers of processes, the terminal */

static bool read_text(pid_t thread, const char *file, char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/%s", (long)thread, file);
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
        return false;
    ssize_t filled = read(opened, text, bytes - 1);
    close(opened);
    text[filled > 0 ? filled : 0] = '\0';
    return filled > 0;
}

/* What follows `label` at the beginning of a line; "" if no line has it. */
static const char *value_of(const char *text, const char *label)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, label, strlen(label)) == 0)
            return line + strlen(label);
    }
    return "";
}

static bool is_kernel_worker(pid_t thread)
{
    char text[512];
    if (!read_text(thread, "stat", text, sizeof text))
        return false;
    const char *at = strrchr(text, ')'); /* the name may have blanks and brackets in it */
    for (int field = 0; at && field <= FIELDS_BEFORE_FLAGS; field++)
        at = strchr(at + 1, ' ');
    return at && strtoul(at, NULL, 10) & KERNEL_WORKER_FLAGS;
}

/* A worker sleeps here between two requests; inside a request it sleeps elsewhere. */
static bool is_idle_worker(pid_t thread)
{
    char text[64];
    return read_text(thread, "wchan", text, sizeof text)
           && (strcmp(text, "io_wq_worker") == 0 || strcmp(text, "io_sq_thread") == 0);
}

bool weft_read_thread(pid_t thread, int signal_number, struct weft_thread_status *status)
{
    char text[4096];
    if (!read_text(thread, "status", text, sizeof text))
        return false;
    const char *name = value_of(text, "Name:\t");
    snprintf(status->name, sizeof status->name, "%.*s", (int)strcspn(name, "\n"), name);
    status->state = *value_of(text, "State:\t");
    status->sleeps = strtoul(value_of(text, "voluntary_ctxt_switches:\t"), NULL, 10)
                     + strtoul(value_of(text, "nonvoluntary_ctxt_switches:\t"), NULL, 10);
    status->is_blocked = strtoull(value_of(text, "SigBlk:\t"), NULL, 16) >> (signal_number - 1) & 1;
    status->is_kernel_worker = is_kernel_worker(thread);
    status->is_idle_worker = status->is_kernel_worker && status->state == 'S' && is_idle_worker(thread);
    return true;
}
