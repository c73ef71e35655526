#include "counting.h"

#include <linux/futex.h>
#include <sys/syscall.h>

static void a_stopped_world_does_not_move(void)
{
    weft_world_begin();
    start_counting(8);
    for (unsigned i = 0; i < 15 * this_story.rounds; i++) {
        holds(weft_world_stop());
        nobody_counts(8);
        weft_world_go();
        if (i % 20 == 0)
            all_count_again(8);
    }
    join_all();
}

static void a_thread_alone_need_not_wait_for_anybody(void)
{
    weft_world_begin();
    int64_t began = now_ms();
    for (int i = 0; i < 200; i++) {
        holds(weft_world_stop());
        weft_world_go();
    }
    holds(now_ms() - began < 2000);
}

static void stops_may_follow_each_other_at_once(void)
{
    weft_world_begin();
    start_counting(4);
    for (unsigned i = 0; i < 60 * this_story.rounds; i++) {
        holds(weft_world_stop());
        unsigned long seen[4];
        for (int each = 0; each < 4; each++)
            seen[each] = atomic_load(&counters[each].count);
        for (int spin = 0; spin < 100; spin++)
            for (int each = 0; each < 4; each++)
                holds(atomic_load(&counters[each].count) == seen[each]);
        weft_world_go();
    }
    all_count_again(4);
    join_all();
}

/* ---- threads that wait for something ---- */

static int pipes[2];
static atomic_uint word;
static atomic_ulong waiting;

static void *read_a_byte(void *with)
{
    (void)with;
    char byte = 0;
    atomic_fetch_add(&waiting, 1);
    holds(read(pipes[0], &byte, 1) == 1 && byte == 'x', "a stop does not end a read");
    return NULL;
}

static void *wait_on_a_futex(void *with)
{
    (void)with;
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&word) == 0)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

static void *sleep_well(void *with)
{
    (void)with;
    struct timespec left = {0, 300000000};
    int64_t began = now_ms();
    atomic_fetch_add(&waiting, 1);
    while (nanosleep(&left, &left) != 0) /* the kernel restarts no sleep that a handler ended, so programs do */
        holds(errno == EINTR);
    holds(now_ms() - began >= 299);
    return NULL;
}

static pthread_mutex_t a_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t a_condition = PTHREAD_COND_INITIALIZER;

static void *wait_for_a_condition(void *with)
{
    (void)with;
    pthread_mutex_lock(&a_lock);
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(&is_over))
        pthread_cond_wait(&a_condition, &a_lock);
    pthread_mutex_unlock(&a_lock);
    return NULL;
}

static void threads_that_wait_are_stopped_and_wait_on(void)
{
    weft_world_begin();
    holds(pipe(pipes) == 0);
    start(read_a_byte, NULL);
    start(wait_on_a_futex, NULL);
    start(sleep_well, NULL);
    start(wait_for_a_condition, NULL);
    start_counting(3);
    wait_until(&waiting, 4);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        holds(weft_world_stop());
        nobody_counts(3);
        weft_world_go();
    }
    holds(write(pipes[1], "x", 1) == 1);
    atomic_store(&word, 1);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
    pthread_mutex_lock(&a_lock);
    atomic_store(&is_over, true);
    pthread_cond_broadcast(&a_condition);
    pthread_mutex_unlock(&a_lock);
    join_all();
}

static void *watch_errno(void *with)
{
    struct counter *mine = with;
    errno = ENOTDIR;
    while (!atomic_load(&is_over)) {
        holds(errno == ENOTDIR);
        atomic_fetch_add(&mine->count, 1);
    }
    return NULL;
}

static void a_stop_leaves_errno_alone(void)
{
    weft_world_begin();
    start(watch_errno, &counters[0]);
    start(watch_errno, &counters[1]);
    for (int i = 0; i < 30; i++) {
        holds(weft_world_stop());
        weft_world_go();
        usleep(500);
    }
    all_count_again(2);
    join_all();
}

/* ---- threads that come and go ---- */

static atomic_ulong lives;
static atomic_ulong moves[4];

static void *live_shortly(void *with)
{
    atomic_ulong *mine = with;
    for (int i = 0; i < 300; i++)
        atomic_fetch_add(mine, 1);
    atomic_fetch_add(&lives, 1);
    return NULL;
}

static void *beget(void *with)
{
    while (!atomic_load(&is_over)) {
        pthread_t children[3];
        int born = 0;
        while (born < 3 && pthread_create(&children[born], NULL, live_shortly, with) == 0)
            born++;
        for (int i = 0; i < born; i++)
            pthread_join(children[i], NULL);
    }
    return NULL;
}

static void threads_may_begin_and_end_while_the_world_is_stopped(void)
{
    weft_world_begin();
    for (int i = 0; i < 4; i++)
        start(beget, &moves[i]);
    wait_until(&lives, 20);
    for (unsigned i = 0; i < 200 * this_story.rounds; i++) {
        holds(weft_world_stop());
        unsigned long seen[4], lived = atomic_load(&lives);
        for (int each = 0; each < 4; each++)
            seen[each] = atomic_load(&moves[each]);
        usleep(300);
        for (int each = 0; each < 4; each++)
            holds(atomic_load(&moves[each]) == seen[each], "not even the newly born move");
        holds(atomic_load(&lives) == lived);
        weft_world_go();
    }
    join_all();
}

static void a_forked_child_stops_its_own_world(void)
{
    weft_world_begin();
    start_counting(3);
    for (int i = 0; i < 20; i++) {
        holds(weft_world_stop());
        weft_world_go();
        pid_t child = fork();
        holds(child >= 0);
        if (child == 0) {
            alarm(10);
            thread_count = 0;
            weft_world_after_fork();
            holds(weft_world_stop());
            weft_world_go();
            start(count_on, &counters[9]);
            wait_until(&counters[9].count, 1);
            holds(weft_world_stop());
            weft_world_go();
            _exit(0);
        }
        int status = -1;
        holds(waitpid(child, &status, 0) == child && status == 0);
    }
    join_all();
}

static const struct story stories[] = {
    STORY(a_stopped_world_does_not_move),
    STORY(a_thread_alone_need_not_wait_for_anybody),
    STORY(stops_may_follow_each_other_at_once),
    STORY(threads_that_wait_are_stopped_and_wait_on),
    STORY(a_stop_leaves_errno_alone),
    STORY(threads_may_begin_and_end_while_the_world_is_stopped),
    STORY(a_forked_child_stops_its_own_world),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
