/* How long it takes from one member's release of the turn until another one runs with it, for the benchmark.
 *
 * handover PATH CPU OTHER_CPU TURNS [work_us]   two members on those cores hand the turn back and forth, each having
 *     worked for so long; prints the median, the 99th percentile and the largest of TURNS hand-overs in nanoseconds
 * handover PATH CPU - TURNS   a member alone: nanoseconds for a release and the next turn */
#include "turnstile.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_TURNS 1000000

struct shared {
    _Atomic uint64_t released_ns, count, together;
    uint64_t taken_ns[MOST_TURNS];
};

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void stay_on(const char *cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(strtoul(cpu, NULL, 10), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("there is no such core");
}

static void join(struct weft_turnstile *lane, const char *path)
{
    char why[300] = "";
    if (weft_join(lane, path, 1 << 20, 0, 0, why, sizeof why) != 0)
        fail(why);
}

static void work(uint64_t until_ns)
{
    while (weft_now_ns() < until_ns)
        ;
}

/* The turn is kept until the other one waits for it, so that each is handed over and we measure nothing else. */
static void take_turns(struct shared *shared, const char *path, uint64_t turns, uint64_t work_us)
{
    struct weft_turnstile lane = {0};
    join(&lane, path);
    for (shared->together++; shared->together < 2;)
        sched_yield();
    while (shared->count < turns) {
        weft_take_turn(&lane);
        uint64_t now = weft_now_ns(), released = shared->released_ns;
        if (released && shared->count < turns)
            shared->taken_ns[shared->count++] = now - released;
        work(now + work_us * 1000);
        while (!weft_is_wanted(&lane) && shared->count < turns)
            sched_yield();
        shared->released_ns = weft_now_ns();
        weft_release_turn(&lane);
    }
    weft_leave(&lane);
}

static int compare(const void *one, const void *other)
{
    const uint64_t *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

static void measure_two(char **words, uint64_t turns, uint64_t work_us)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("no memory");
    pid_t other = fork();
    stay_on(words[other ? 2 : 3]);
    take_turns(shared, words[1], turns, work_us);
    if (other == 0)
        exit(0);
    int status = 0;
    waitpid(other, &status, 0);
    if (status)
        fail("the other member failed");
    qsort(shared->taken_ns, turns, sizeof *shared->taken_ns, compare);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", shared->taken_ns[turns / 2], shared->taken_ns[turns * 99 / 100],
           shared->taken_ns[turns - 1]);
}

static void measure_alone(char **words, uint64_t turns)
{
    struct weft_turnstile lane = {0};
    stay_on(words[2]);
    join(&lane, words[1]);
    weft_take_turn(&lane);
    uint64_t began = weft_now_ns();
    for (uint64_t i = 0; i < turns; i++) {
        weft_release_turn(&lane);
        weft_take_turn(&lane);
    }
    printf("%" PRIu64 "\n", (weft_now_ns() - began) / turns);
    weft_leave(&lane);
}

int main(int count, char **words)
{
    uint64_t turns = count >= 5 ? strtoull(words[4], NULL, 10) : 0;
    if (turns == 0 || turns > MOST_TURNS)
        fail("handover PATH CPU OTHER_CPU TURNS [work_us]");
    if (strcmp(words[3], "-") == 0)
        measure_alone(words, turns);
    else
        measure_two(words, turns, count > 5 ? strtoull(words[5], NULL, 10) : 0);
    return 0;
}
