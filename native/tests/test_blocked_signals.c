/* Threads that block signals: as libraries do it, by libc, and as only a system call of their own can. */
#include "counting.h"

#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void block_by_libc(void)
{
    sigset_t all;
    sigfillset(&all);
    holds(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
}

static void set_mask(uint64_t mask)
{
    holds(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask) == 0);
}

/* ---- by libc: they stop like any other ---- */

static atomic_uint never;
static atomic_ulong asleep;
static int nothing_comes;

static void *count_blocked(void *with)
{
    block_by_libc();
    return count_on(with);
}

/* Each sleeps in one way that threads of libraries do, and counts how often it woke. */

static void *wake_on_futex(void *with)
{
    struct counter *mine = with;
    block_by_libc();
    for (atomic_fetch_add(&asleep, 1); !atomic_load(&is_over); atomic_fetch_add(&mine->count, 1)) {
        struct timespec most = {0, 2000000};
        syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &most, NULL, 0);
    }
    return NULL;
}

static void *wake_from_nanosleep(void *with)
{
    struct counter *mine = with;
    block_by_libc();
    for (atomic_fetch_add(&asleep, 1); !atomic_load(&is_over); atomic_fetch_add(&mine->count, 1)) {
        struct timespec most = {0, 2000000};
        nanosleep(&most, NULL);
    }
    return NULL;
}

static void *wake_from_epoll(void *with)
{
    struct counter *mine = with;
    block_by_libc();
    for (atomic_fetch_add(&asleep, 1); !atomic_load(&is_over); atomic_fetch_add(&mine->count, 1)) {
        struct epoll_event event;
        holds(epoll_wait(nothing_comes, &event, 1, 2) <= 0);
    }
    return NULL;
}

static void *sleep_on_condition(void *with)
{
    (void)with;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    block_by_libc();
    pthread_mutex_lock(&lock);
    for (atomic_fetch_add(&asleep, 1); !atomic_load(&is_over);) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        holds(pthread_cond_timedwait(&condition, &lock, &until) == ETIMEDOUT, "a stop does not end a wait");
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void threads_that_block_all_signals_by_libc_stop_awake_and_asleep(void)
{
    weft_world_begin();
    nothing_comes = epoll_create1(EPOLL_CLOEXEC);
    start(count_blocked, &counters[0]);
    start(wake_on_futex, &counters[1]);
    start(wake_from_nanosleep, &counters[2]);
    start(wake_from_epoll, &counters[3]);
    start(sleep_on_condition, NULL);
    start(count_on, &counters[4]);
    wait_until(&asleep, 4);
    for (unsigned i = 0; i < 40 * this_story.rounds; i++) {
        holds(weft_world_stop(), "a thread that blocks signals stops");
        nobody_counts(5);
        weft_world_go();
        if (i % 10 == 0)
            all_count_again(5);
    }
    join_all();
}

static void *change_groups(void *with)
{
    struct counter *mine = with;
    block_by_libc();
    while (!atomic_load(&is_over)) { /* glibc has every thread do so, by the same signal */
        holds(setresgid((gid_t)-1, (gid_t)-1, (gid_t)-1) == 0);
        atomic_fetch_add(&mine->count, 1);
    }
    return NULL;
}

static void a_program_may_change_its_users_and_groups_at_any_time(void)
{
    weft_world_begin();
    holds(weft_world_stop()); /* before there is any thread, so that glibc's handler comes later than ours */
    weft_world_go();
    start(change_groups, &counters[0]);
    start(change_groups, &counters[1]);
    start(count_blocked, &counters[2]);
    start(count_on, &counters[3]);
    for (unsigned i = 0; i < 150 * this_story.rounds; i++) {
        holds(weft_world_stop());
        if (i % 10 == 0)
            nobody_counts(4);
        weft_world_go();
        if (i % 10 == 0)
            all_count_again(4);
    }
    join_all();
}

static void theirs(int number)
{
    (void)number;
}

static void the_signals_of_programs_are_left_to_them(void)
{
    struct sigaction present, own = {.sa_handler = theirs};
    weft_world_begin();
    start_counting(2);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        holds(sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_DFL, "none of them is taken");
        holds(sigaction(number, &own, NULL) == 0);
    }
    holds(weft_world_stop());
    nobody_counts(2);
    weft_world_go();
    all_count_again(2);
    join_all();
}

/* ---- by a system call: they are named ---- */

static atomic_bool may_unblock;

static void *run_blocked_entirely(void *with)
{
    struct counter *mine = with;
    prctl(PR_SET_NAME, "runs-deaf");
    set_mask(UINT64_MAX);
    while (!atomic_load(&may_unblock))
        atomic_fetch_add(&mine->count, 1);
    set_mask(0);
    return count_on(with);
}

static void *sleep_blocked_entirely(void *with)
{
    struct counter *mine = with;
    prctl(PR_SET_NAME, "sleeps deaf) R");
    set_mask(UINT64_MAX);
    atomic_fetch_add(&mine->count, 1);
    while (!atomic_load(&may_unblock))
        syscall(SYS_futex, &may_unblock, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    set_mask(0);
    return count_on(with);
}

static unsigned long queued_signals(void)
{
    static char text[4096];
    FILE *file = fopen("/proc/self/status", "r");
    holds(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    return strtoul(strstr(text, "SigQ:") + 5, NULL, 10);
}

static void refuse_until_it_unblocks(void *(*what)(void *), const char *name, const char *state)
{
    weft_world_begin();
    start(what, &counters[0]);
    wait_until(&counters[0].count, 1);
    start(count_on, &counters[1]);
    unsigned long before = queued_signals();
    for (int i = 0; i < 8; i++) {
        holds(!weft_world_stop());
        holds(strstr(weft_world_why(), name) && strstr(weft_world_why(), state), "it is named");
        wait_until(&counters[1].count, atomic_load(&counters[1].count) + 1);
    }
    holds(queued_signals() <= before + 6, "signals do not pile up (others of this user's may)");
    atomic_store(&may_unblock, true);
    syscall(SYS_futex, &may_unblock, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
    all_count_again(2);
    while (!weft_world_stop())
        continue; /* it is short of patience, and cores may be few */
    weft_world_go();
    for (int i = 0; i < 15; i++) { /* late signals of the failed stops do no harm */
        holds(weft_world_stop());
        nobody_counts(2);
        weft_world_go();
    }
    join_all();
}

static void a_thread_that_runs_and_blocks_even_libcs_signals_is_named(void)
{
    refuse_until_it_unblocks(run_blocked_entirely, "\"runs-deaf\"", "runs and blocks every signal");
}

static void a_thread_that_sleeps_and_blocks_even_libcs_signals_is_named(void)
{
    refuse_until_it_unblocks(sleep_blocked_entirely, "\"sleeps deaf) R\"", "sleeps and blocks every signal");
}

static void a_signal_that_cannot_be_sent_is_no_answer(void)
{
    weft_world_begin();
    start_counting(3);
    struct rlimit none = {0, 0};
    if (geteuid() == 0 && setresuid(12345, 12345, 0) != 0) /* the limit counts a user's signals, and root's are many */
        story_cannot_be_told("cannot become another user");
    holds(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    if (weft_world_stop()) { /* a kernel that lets it through */
        nobody_counts(3);
        weft_world_go();
    }
    all_count_again(3);
    join_all();
}

static void without_a_free_signal_the_world_cannot_be_stopped(void)
{
    struct sigaction used = {.sa_handler = theirs};
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        sigaction(number, &used, NULL);
    weft_world_begin();
    start_counting(1);
    holds(!weft_world_stop());
    all_count_again(1);
    join_all();
}

/* ---- of the kernel ---- */

static void an_idle_worker_of_io_uring_need_not_stop(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1};
    if (syscall(SYS_io_uring_setup, 8, &params) < 0)
        story_cannot_be_told("io_uring may not be used here");
    weft_world_begin();
    start_counting(3);
    unsigned long before = queued_signals();
    for (int i = 0; i < 30; i++) {
        while (!weft_world_stop()) /* while it polls it is not idle */
            holds(strstr(weft_world_why(), "io_uring"), "it is named");
        nobody_counts(3);
        weft_world_go();
    }
    holds(queued_signals() <= before + 15, "signals do not pile up (others of this user's may)");
    join_all();
}

static const struct story stories[] = {
    STORY(threads_that_block_all_signals_by_libc_stop_awake_and_asleep),
    STORY(a_program_may_change_its_users_and_groups_at_any_time),
    STORY(the_signals_of_programs_are_left_to_them),
    STORY(a_thread_that_runs_and_blocks_even_libcs_signals_is_named),
    STORY(a_thread_that_sleeps_and_blocks_even_libcs_signals_is_named),
    STORY(a_signal_that_cannot_be_sent_is_no_answer),
    STORY(without_a_free_signal_the_world_cannot_be_stopped),
    STORY(an_idle_worker_of_io_uring_need_not_stop),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
