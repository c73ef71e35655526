/* Where glibc's own signal cannot be used, an ordinary one is; threads can block it. */
#define WEFT_ORDINARY_SIGNAL
#include "../stop_signal.c"

#include "counting.h"

static atomic_bool may_listen;

static void *listen_to_nobody(void *with)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    struct counter *mine = with;
    while (!atomic_load(&may_listen))
        atomic_fetch_add(&mine->count, 1);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    return count_on(with);
}

static void a_thread_that_does_not_listen_makes_the_stop_fail_in_time(void)
{
    weft_world_begin();
    start(listen_to_nobody, &counters[5]);
    wait_until(&counters[5].count, 1);
    start_counting(5);
    for (int i = 0; i < 4; i++) {
        int64_t began = now_ms();
        holds(!weft_world_stop());
        int64_t took = now_ms() - began;
        holds(took < (i ? 900 : 3000), "it gives up after about a second, and does not wait as long again");
        all_count_again(6);
    }
    atomic_store(&may_listen, true);
    all_count_again(6);
    while (!weft_world_stop())
        continue; /* it is short of patience, and cores may be few */
    weft_world_go();
    for (int i = 0; i < 15; i++) { /* late signals of the failed stops do no harm */
        holds(weft_world_stop());
        nobody_counts(6);
        weft_world_go();
    }
    all_count_again(6);
    join_all();
}

static void theirs(int number)
{
    (void)number;
}

static void a_signal_that_the_program_took_for_itself_is_left_to_it(void)
{
    struct sigaction before[64], present;
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        holds(sigaction(number, NULL, &before[number - SIGRTMIN]) == 0);
    weft_world_begin();
    start_counting(2);
    holds(weft_world_stop());
    weft_world_go();
    int chosen = 0;
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        holds(sigaction(number, NULL, &present) == 0);
        if (present.sa_handler != before[number - SIGRTMIN].sa_handler)
            chosen = number;
    }
    holds(chosen != 0);
    present = (struct sigaction){.sa_handler = theirs};
    holds(sigaction(chosen, &present, NULL) == 0);
    holds(!weft_world_stop());
    all_count_again(2);
    join_all();
}

static const struct story stories[] = {
    STORY(a_thread_that_does_not_listen_makes_the_stop_fail_in_time),
    STORY(a_signal_that_the_program_took_for_itself_is_left_to_it),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
