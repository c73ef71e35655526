/* Threads that count, to see whether they are stopped. */
#ifndef WEFT_COUNTING_H
#define WEFT_COUNTING_H

#include "../world.h"
#include "story.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MOST 64

static atomic_bool is_over;
static pthread_t threads[MOST];
static unsigned thread_count;

struct counter {
    _Alignas(64) atomic_ulong count;
};

static struct counter counters[MOST];

static void start(void *(*what)(void *), void *with)
{
    holds(pthread_create(&threads[thread_count++], NULL, what, with) == 0);
}

static void join_all(void)
{
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    thread_count = 0;
}

static void wait_until(const atomic_ulong *number, unsigned long is)
{
    while (atomic_load(number) < is)
        usleep(100);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *count_on(void *with)
{
    struct counter *mine = with;
    while (!atomic_load(&is_over))
        atomic_fetch_add(&mine->count, 1);
    return NULL;
}

static void nobody_counts(unsigned counting)
{
    unsigned long seen[MOST];
    for (unsigned i = 0; i < counting; i++)
        seen[i] = atomic_load(&counters[i].count);
    for (int looks = 0; looks < 3; looks++) {
        usleep(200);
        for (unsigned i = 0; i < counting; i++)
            holds(atomic_load(&counters[i].count) == seen[i], "no thread runs in a stopped world");
    }
}

static void start_counting(unsigned counting)
{
    for (unsigned i = 0; i < counting; i++)
        start(count_on, &counters[i]);
    for (unsigned i = 0; i < counting; i++)
        wait_until(&counters[i].count, 1);
}

static void all_count_again(unsigned counting)
{
    unsigned long seen[MOST];
    for (unsigned i = 0; i < counting; i++)
        seen[i] = atomic_load(&counters[i].count);
    for (unsigned i = 0; i < counting; i++)
        wait_until(&counters[i].count, seen[i] + 1);
}

#endif
