#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(1000000000)
#define LOST_PATIENCE_NS INT64_C(200000000) /* after a stop that failed: a thread that blocks signals does so forever */
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
    int signal; /* 0: none was free */
    atomic_uint stop; /* the number of the present stop, 0 = go */
    atomic_uint standing;
    uint32_t stops;
    bool has_failed; /* the last one did */
    pid_t asked[MOST_THREADS];
    unsigned asked_count;
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

static void stand(int number)
{
    (void)number;
    int error = errno;
    unsigned stop = atomic_load(&world.stop);
    if (stop) {
        atomic_fetch_add(&world.standing, 1);
        wake_all(&world.standing);
        while (atomic_load(&world.stop) == stop)
            sleep_on(&world.stop, stop, 0);
        atomic_fetch_sub(&world.standing, 1);
    }
    errno = error;
}

void weft_world_begin(void)
{
    for (int number = SIGRTMAX - 1; number > SIGRTMIN && world.signal == 0; number--) {
        struct sigaction present;
        if (sigaction(number, NULL, &present) != 0 || present.sa_handler != SIG_DFL)
            continue;
        struct sigaction ours = {.sa_handler = stand, .sa_flags = SA_RESTART | SA_ONSTACK};
        sigfillset(&ours.sa_mask);
        if (sigaction(number, &ours, NULL) == 0)
            world.signal = number;
    }
}

static bool is_asked(pid_t thread)
{
    for (unsigned i = 0; i < world.asked_count; i++)
        if (world.asked[i] == thread)
            return true;
    return false;
}

/* 1 if it was asked now, 0 if it need not be, -1 if it lives and cannot be asked. */
static int ask(pid_t process, pid_t thread, pid_t self)
{
    if (thread <= 0 || thread == self || is_asked(thread))
        return 0;
    if (world.asked_count == MOST_THREADS)
        return -1;
    if (syscall(SYS_tgkill, process, thread, world.signal) != 0)
        return errno == ESRCH ? 0 : -1; /* else the user's queue of signals is full */
    world.asked[world.asked_count++] = thread;
    return 1;
}

/* Ask every thread that has not been asked; how many that were, or -1 if not all of them can be. */
static int ask_all(pid_t process, pid_t self)
{
    _Alignas(struct entry) char listing[4096];
    int asked = 0, folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    long filled = 0;
    while (asked >= 0 && (filled = syscall(SYS_getdents64, folder, listing, sizeof listing)) > 0)
        for (long at = 0; asked >= 0 && at < filled;) {
            const struct entry *entry = (const void *)(listing + at);
            at += entry->length;
            int answer = ask(process, (pid_t)strtol(entry->name, NULL, 10), self);
            asked = answer < 0 ? -1 : asked + answer;
        }
    close(folder);
    return filled < 0 ? -1 : asked;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Whether a thread that was asked has ended since. */
static unsigned ended(pid_t process)
{
    unsigned gone = 0;
    for (unsigned i = 0; i < world.asked_count; i++)
        gone += syscall(SYS_tgkill, process, world.asked[i], 0) != 0;
    return gone;
}

bool weft_world_stop(void)
{
    struct sigaction present;
    if (world.signal == 0 || sigaction(world.signal, NULL, &present) != 0 || present.sa_handler != stand)
        return false;
    pid_t process = getpid(), self = (pid_t)syscall(SYS_gettid);
    int64_t deadline = now_ns() + (world.has_failed ? LOST_PATIENCE_NS : PATIENCE_NS);
    world.asked_count = 0;
    atomic_store(&world.stop, ++world.stops ? world.stops : ++world.stops);
    int asked;
    do { /* until a look finds no thread that was not known: only a running one can start another */
        asked = ask_all(process, self);
        unsigned standing;
        while (asked >= 0 && (standing = atomic_load(&world.standing)) < world.asked_count) {
            sleep_on(&world.standing, standing, LOOK_EVERY_NS);
            if (standing + ended(process) >= world.asked_count)
                break;
            if (now_ns() > deadline)
                asked = -1;
        }
    } while (asked > 0);
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
