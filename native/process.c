#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct seen {
    char state;
    uint64_t threads, start;
};

/* 0, or an errno. */
static int read_stat(uint64_t pid, char *text, size_t bytes)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    ssize_t length = read(file, text, bytes - 1);
    int error = length < 0 ? errno : 0;
    close(file);
    text[length > 0 ? length : 0] = 0;
    return error;
}

static int see(uint64_t pid, struct seen *seen)
{
    char text[1024];
    int error = read_stat(pid, text, sizeof text);
    if (error)
        return error;
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at == NULL || at[1] != ' ')
        return EIO;
    seen->state = at[2];
    at += 3;
    for (int field = 4; field <= 22; field++) {
        uint64_t number = strtoull(at, &at, 10);
        if (field == 20)
            seen->threads = number;
        if (field == 22)
            seen->start = number;
    }
    return 0;
}

/* A leader that is a zombie while there are other threads: they may still be writing. */
static bool has_ended(const struct seen *seen)
{
    return seen->state == 'X' || (seen->state == 'Z' && seen->threads <= 1);
}

static bool is_stopped(const struct seen *seen)
{
    return seen->state == 'T' || seen->state == 't';
}

bool weft_may_live(uint64_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

enum weft_life weft_life_of(uint64_t pid, uint64_t start)
{
    struct seen seen = {0};
    if (pid == 0 || pid > INT32_MAX) /* no process; and kill() would take such a number for a whole group */
        return WEFT_GONE;
    if (see(pid, &seen) != 0) /* /proc may hide a process that is there, or there is no file descriptor left */
        return weft_may_live(pid) ? WEFT_LIVES : WEFT_GONE;
    if (seen.start != start || has_ended(&seen))
        return WEFT_GONE;
    return is_stopped(&seen) ? WEFT_STOPPED : WEFT_LIVES;
}

/* ---- the same process with another program ---- */

bool weft_has_open(uint64_t pid, const struct weft_opened *opened)
{
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)pid, (unsigned long long)opened->descriptor);
    if (stat(path, &found) != 0)
        return false;
    errno = 0;
    return found.st_dev == opened->device && found.st_ino == opened->inode;
}

static bool may_have_open(uint64_t pid, const struct weft_opened *opened)
{
    errno = 0;
    return weft_has_open(pid, opened) || (errno != 0 && errno != ENOENT); /* what we may not see may be there */
}

static bool has_mapped(uint64_t pid, const char *name)
{
    char path[40], text[4096];
    size_t kept = 0, name_length = strlen(name);
    snprintf(path, sizeof path, "/proc/%llu/maps", (unsigned long long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool is_found = file < 0; /* what we may not see may be there */
    for (ssize_t length = 1; !is_found && length > 0;) {
        length = read(file, text + kept, sizeof text - kept);
        size_t bytes = kept + (length > 0 ? (size_t)length : 0);
        is_found = length < 0 || memmem(text, bytes, name, name_length) != NULL;
        kept = bytes < name_length ? bytes : name_length - 1; /* the name may span two pieces */
        memmove(text, text + bytes - kept, kept);
    }
    if (file >= 0)
        close(file);
    return is_found;
}

static bool has_let_go(uint64_t pid, const struct weft_opened *opened)
{
    struct seen seen = {0};
    return !may_have_open(pid, opened) && !has_mapped(pid, opened->name) && see(pid, &seen) == 0 && seen.state != 'Z';
}

bool weft_runs_another_program(uint64_t pid, const struct weft_opened *opened)
{
    struct timespec moment = {0, 10000000};
    if (!has_let_go(pid, opened))
        return false;
    nanosleep(&moment, NULL); /* a process that is ending looks the same while other threads of it still write */
    return has_let_go(pid, opened);
}

uint64_t weft_start_of(uint64_t pid)
{
    struct seen seen = {0};
    return see(pid, &seen) == 0 ? seen.start : 0;
}

bool weft_end_stopped(uint64_t pid, uint64_t start)
{
    bool is_ended = false;
    int file = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    bool is_refused = file < 0 && errno != ESRCH; /* an old kernel, a sandbox, no file descriptor left */
    if (weft_life_of(pid, start) == WEFT_STOPPED) { /* so what was opened is this one */
        if (file >= 0)
            is_ended = syscall(SYS_pidfd_send_signal, file, SIGKILL, NULL, 0) == 0;
        else if (is_refused)
            is_ended = kill((pid_t)pid, SIGKILL) == 0;
    }
    if (file >= 0)
        close(file);
    return is_ended;
}

bool weft_stands_too_long(struct weft_watch *watch, enum weft_life life, uint64_t place, uint64_t grace_ns)
{
    uint64_t now = weft_now_ns();
    if (life != WEFT_STOPPED || watch->place != place)
        *watch = (struct weft_watch){place, now};
    return now - watch->since_ns > grace_ns;
}

uint64_t weft_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
