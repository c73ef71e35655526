#include "world.h"
#include "stop_signal.h"
#include "thread_status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(1000000000)     /* for a thread that is to be scheduled first, or runs with the signal blocked */
#define LOST_PATIENCE_NS INT64_C(200000000) /* after a stop that failed: it will hardly answer this time */
#define SHORT_PATIENCE_NS INT64_C(20000000) /* for one that sleeps and blocks the signal: glibc does so for moments */
#define LOOK_EVERY_NS 1000000L
#define MOST_THREADS 4096

struct entry { /* of a folder, as the kernel gives it */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t kind;
    char name[];
};

static struct {
    int signal;
    atomic_uint stop; /* the number of the present stop, 0 = go */
    atomic_uint standing;
    uint32_t stops;
    bool has_failed;          /* the last one did */
    bool has_unread, is_wary; /* in this, in the last one: a thread has not taken its signal, and must not get a second */
    pid_t asked[MOST_THREADS];
    unsigned asked_count;
    char why[160];
} world;

static void sleep_on(atomic_uint *word, unsigned seen, long most_ns)
{
    struct timespec most = {0, most_ns};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, most_ns ? &most : NULL, NULL, 0);
}

static void wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* In the handler of a thread that is to stop. */
static void stand(void)
{
    unsigned stop = atomic_load(&world.stop);
    if (stop) {
        atomic_fetch_add(&world.standing, 1);
        wake_all(&world.standing);
        while (atomic_load(&world.stop) == stop)
            sleep_on(&world.stop, stop, 0);
        atomic_fetch_sub(&world.standing, 1);
    }
}

void weft_world_begin(void)
{
    weft_stop_signal_begin(stand);
}

const char *weft_world_why(void)
{
    return world.why;
}

/* ---- asking ---- */

static bool is_asked(pid_t thread)
{
    for (unsigned i = 0; i < world.asked_count; i++)
        if (world.asked[i] == thread)
            return true;
    return false;
}

/* 1 if it was asked now, 0 if it need not be, -1 if it lives and cannot be asked. */
static int ask(pid_t thread, pid_t self)
{
    struct weft_thread_status now = {0};
    if (thread <= 0 || thread == self || is_asked(thread))
        return 0;
    if (world.is_wary && weft_read_thread(thread, world.signal, &now))
        world.has_unread = world.has_unread || now.is_pending;
    if (now.is_idle_worker)
        return 0;
    if (world.asked_count == MOST_THREADS) {
        snprintf(world.why, sizeof world.why, "there are more than %d threads", MOST_THREADS);
        return -1;
    }
    int error = now.is_pending ? 0 : weft_stop_signal_send(thread);
    if (error == ESRCH)
        return 0;
    if (error) {
        snprintf(world.why, sizeof world.why, "a thread cannot be sent a signal: the queue of the user's signals is full");
        return -1;
    }
    world.asked[world.asked_count++] = thread;
    return 1;
}

/* Ask every thread that has not been asked; how many that were, or -1 if not all of them can be. */
static int ask_all(pid_t self)
{
    _Alignas(struct entry) char listing[4096];
    int asked = 0, folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        snprintf(world.why, sizeof world.why, "its threads cannot be listed: /proc cannot be read");
        return -1;
    }
    long filled = 0;
    while (asked >= 0 && (filled = syscall(SYS_getdents64, folder, listing, sizeof listing)) > 0)
        for (long at = 0; asked >= 0 && at < filled;) {
            const struct entry *entry = (const void *)(listing + at);
            at += entry->length;
            int answer = ask((pid_t)strtol(entry->name, NULL, 10), self);
            asked = answer < 0 ? -1 : asked + answer;
        }
    close(folder);
    return filled < 0 ? -1 : asked;
}

/* ---- waiting for the answers ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static unsigned ended(pid_t process)
{
    unsigned gone = 0;
    for (unsigned i = 0; i < world.asked_count; i++)
        gone += syscall(SYS_tgkill, process, world.asked[i], 0) != 0;
    return gone;
}

static void name(pid_t thread, const struct weft_thread_status *now)
{
    const char *what = now->is_kernel_worker ? "is the kernel's and carries out a request of io_uring"
                       : !now->is_blocked    ? "was not scheduled in time, or waits for a device"
                       : now->state == 'S'   ? "sleeps and blocks every signal, those of libc too"
                                             : "runs and blocks every signal, those of libc too";
    snprintf(world.why, sizeof world.why, "the thread \"%s\" (%ld) %s", now->name, (long)thread, what);
}

/* Look at those that have not taken their signal. How many need not: workers of the kernel without a request, which
 * get one only from a thread that runs. `is_vain`: one sleeps and blocks the signal, so waiting will not help. */
static unsigned look_at_silent(bool *is_vain)
{
    unsigned idle = 0;
    *is_vain = false;
    for (unsigned i = 0; i < world.asked_count && !*is_vain; i++) {
        struct weft_thread_status now;
        if (!weft_read_thread(world.asked[i], world.signal, &now) || !now.is_pending)
            continue;
        world.has_unread = true;
        if (now.is_idle_worker) {
            idle++;
        } else {
            *is_vain = now.is_blocked && now.state == 'S' && !now.is_kernel_worker;
            name(world.asked[i], &now);
        }
    }
    return idle;
}

/* Until all that were asked stand, or need not. */
static bool await_answers(int64_t began, int64_t patience)
{
    pid_t process = getpid();
    unsigned standing, idle = 0;
    while ((standing = atomic_load(&world.standing)) + idle < world.asked_count) {
        sleep_on(&world.standing, standing, LOOK_EVERY_NS);
        int64_t waited = now_ns() - began;
        if (standing + idle + ended(process) >= world.asked_count)
            break;
        bool is_vain = false;
        if (waited > SHORT_PATIENCE_NS)
            idle = look_at_silent(&is_vain);
        if (is_vain || waited > patience)
            return false;
    }
    return true;
}

bool weft_world_stop(void)
{
    world.signal = weft_stop_signal_install();
    snprintf(world.why, sizeof world.why, "no signal is free that could stop its threads");
    if (world.signal == 0)
        return false;
    pid_t self = (pid_t)syscall(SYS_gettid);
    int64_t began = now_ns(), patience = world.has_failed ? LOST_PATIENCE_NS : PATIENCE_NS;
    world.asked_count = 0;
    atomic_store(&world.stop, ++world.stops ? world.stops : ++world.stops);
    world.is_wary = world.has_unread;
    world.has_unread = false;
    int asked; /* until a look finds no thread that was not known: only a running one can start another */
    while ((asked = ask_all(self)) > 0)
        if (!await_answers(began, patience)) {
            asked = -1;
            break;
        }
    world.has_failed = asked < 0;
    if (world.has_failed)
        weft_world_go();
    return !world.has_failed;
}

void weft_world_go(void)
{
    atomic_store(&world.stop, 0);
    wake_all(&world.stop);
    /* The next stop must not count those who still leave this one. */
    unsigned standing;
    while ((standing = atomic_load(&world.standing)) != 0)
        sleep_on(&world.standing, standing, LOOK_EVERY_NS);
}

void weft_world_after_fork(void)
{
    atomic_store(&world.stop, 0);
    atomic_store(&world.standing, 0);
}
