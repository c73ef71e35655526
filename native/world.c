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
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(1000000000)     /* for one that has to be scheduled first, or runs and blocks the signal */
#define LOST_PATIENCE_NS INT64_C(200000000) /* after a stop that failed: it will hardly answer this time */
#define SLEEP_NS INT64_C(250000000)         /* for one that sleeps and blocks the signal: glibc does so for moments */
#define LOOK_CLOSER_NS INT64_C(20000000)
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
    atomic_uint parked;
    uint32_t stops;
    bool has_failed;  /* the last one did */
    bool has_workers; /* of the kernel, among its threads */
    pid_t asked[MOST_THREADS];
    atomic_bool answers[MOST_THREADS]; /* of the same threads: it has taken the signal, and is stopped */
    atomic_uint asked_count;
    struct {
        pid_t thread;
        unsigned long sleeps;
        int64_t since_ns;
    } silent; /* the thread that did not answer, as last seen, in this stop or an earlier one */
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

static void note_answer(void)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    for (unsigned i = 0; i < atomic_load(&world.asked_count); i++)
        if (world.asked[i] == self)
            atomic_store(&world.answers[i], true);
}

/* In the handler of a thread that is to stop. */
static void park(void)
{
    unsigned stop = atomic_load(&world.stop);
    if (stop) {
        note_answer();
        atomic_fetch_add(&world.parked, 1);
        wake_all(&world.parked);
        while (atomic_load(&world.stop) == stop)
            sleep_on(&world.stop, stop, 0);
        atomic_fetch_sub(&world.parked, 1);
    }
}

void weft_world_begin(void)
{
    weft_stop_signal_begin(park);
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

static bool is_worker(pid_t thread)
{
    struct weft_thread_status now;
    return world.has_workers && weft_read_thread(thread, world.signal, &now) && now.is_kernel_worker;
}

/* 1 if it was asked now, 0 if it need not be, -1 if it lives and cannot be asked. */
static int ask(pid_t thread, pid_t self)
{
    if (thread <= 0 || thread == self || is_asked(thread))
        return 0;
    unsigned count = atomic_load(&world.asked_count);
    if (count == MOST_THREADS) {
        snprintf(world.why, sizeof world.why, "there are more than %d threads", MOST_THREADS);
        return -1;
    }
    world.asked[count] = thread;
    atomic_store(&world.answers[count], false);
    atomic_store(&world.asked_count, count + 1); /* before it is sent: its handler looks for itself */
    int error = is_worker(thread) ? 0 : weft_stop_signal_send(thread); /* which would only wait in a worker's queue */
    if (error)
        atomic_store(&world.asked_count, count);
    if (error && error != ESRCH)
        snprintf(world.why, sizeof world.why, "a thread cannot be sent a signal: %s", strerror(error));
    return error == 0 ? 1 : error == ESRCH ? 0 : -1;
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
    const char *what = now->is_kernel_worker ? "belongs to the kernel and carries out a request of io_uring"
                       : !now->is_blocked    ? "was not scheduled in time, or waits for a device"
                       : now->state == 'S'   ? "sleeps and blocks every signal, those of libc too"
                                             : "runs and blocks every signal, those of libc too";
    snprintf(world.why, sizeof world.why, "the thread \"%s\" (%ld) %s", now->name, (long)thread, what);
}

/* Whether it blocks the signal and has not run for so long that waiting for it is in vain. */
static bool sleeps_on(pid_t thread, const struct weft_thread_status *now)
{
    if (world.silent.thread != thread || world.silent.sleeps != now->sleeps) {
        world.silent.thread = thread;
        world.silent.sleeps = now->sleeps;
        world.silent.since_ns = now_ns();
    }
    bool is_asleep = now->is_blocked && now->state == 'S' && !now->is_kernel_worker;
    return is_asleep && now_ns() - world.silent.since_ns > SLEEP_NS;
}

/* Look at those that have not answered. How many need not: workers of the kernel without a request, which get one only
 * from a thread that runs. `is_vain`: waiting for one of the others will not help. */
static unsigned look_at_silent(bool *is_vain)
{
    unsigned idle = 0;
    for (unsigned i = 0; i < world.asked_count && !*is_vain; i++) {
        struct weft_thread_status now;
        if (atomic_load(&world.answers[i]) || !weft_read_thread(world.asked[i], world.signal, &now))
            continue;
        world.has_workers = world.has_workers || now.is_kernel_worker;
        if (now.is_idle_worker) {
            idle++;
        } else {
            *is_vain = sleeps_on(world.asked[i], &now);
            name(world.asked[i], &now);
        }
    }
    return idle;
}

/* Wait until all threads that were asked are stopped, or need not. An idle worker counts only after all others are. */
static bool await_answers(int64_t began, int64_t patience)
{
    for (pid_t process = getpid();;) {
        unsigned parked = atomic_load(&world.parked);
        int64_t waited = now_ns() - began;
        bool is_vain = false, is_closer = waited > LOOK_CLOSER_NS || world.has_workers;
        unsigned idle = parked < world.asked_count && is_closer ? look_at_silent(&is_vain) : 0;
        if (parked + idle + ended(process) >= world.asked_count)
            return true;
        if (is_vain || waited > patience)
            return false;
        sleep_on(&world.parked, parked, LOOK_EVERY_NS);
    }
}

/* Whether the thread that made the last stop fail still blocks the signal. It is not sent another one meanwhile: they
 * would fill the queue of the user's signals. */
static bool is_still_silent(int64_t began, int64_t patience)
{
    struct weft_thread_status now;
    while (weft_read_thread(world.silent.thread, world.signal, &now) && now.is_blocked && !now.is_kernel_worker) {
        name(world.silent.thread, &now);
        if (sleeps_on(world.silent.thread, &now) || now_ns() - began > patience)
            return true;
        sleep_on(&world.parked, 0, LOOK_EVERY_NS); /* no thread is parked here; this only waits */
    }
    return false;
}

/* Ask until a look finds no thread that was not known: only a running one can start another. */
static bool stop_all(int64_t began, int64_t patience)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    int asked = 0;
    atomic_store(&world.asked_count, 0);
    atomic_store(&world.stop, ++world.stops ? world.stops : ++world.stops);
    while ((asked = ask_all(self)) > 0)
        if (!await_answers(began, patience))
            break;
    if (asked)
        weft_world_go();
    return asked == 0;
}

bool weft_world_stop(void)
{
    world.signal = weft_stop_signal_install();
    snprintf(world.why, sizeof world.why, "no signal is free that could stop its threads");
    if (world.signal == 0)
        return false;
    int64_t began = now_ns(), patience = world.has_failed ? LOST_PATIENCE_NS : PATIENCE_NS;
    if (world.has_failed && is_still_silent(began, patience))
        return false;
    world.has_failed = !stop_all(began, patience);
    return !world.has_failed;
}

void weft_world_go(void)
{
    atomic_store(&world.stop, 0);
    wake_all(&world.stop);
    /* The next stop must not count threads that are still leaving this one. */
    unsigned parked;
    while ((parked = atomic_load(&world.parked)) != 0)
        sleep_on(&world.parked, parked, LOOK_EVERY_NS);
}

void weft_world_after_fork(void)
{
    atomic_store(&world.stop, 0);
    atomic_store(&world.parked, 0);
}
