#include "pieces.h"

static void a_child_sees(struct piece *pieces, int count, void (*meanwhile)(void))
{
    int go[2];
    holds(pipe(go) == 0);
    pid_t child = fork();
    holds(child >= 0);
    if (child == 0) {
        alarm(20);
        char byte;
        holds(read(go[0], &byte, 1) == 1);
        for (int i = 0; i < count; i++)
            holds(is_intact(&pieces[i]), "a child sees what was there when it was forked");
        for (int i = 0; i < count; i++) {
            pieces[i].tag += 1000;
            fill(&pieces[i]); /* which is its own */
            holds(is_intact(&pieces[i]));
        }
        holds(weft_memory_take(10000, 64, false) == NULL);
        weft_memory_boundary(4096, true);
        weft_memory_boundary(NO_LIMIT, true);
        (void)weft_memory_swap_out();
        (void)weft_memory_swap_in();
        weft_memory_drop_caches();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            for (int i = 0; i < count; i++)
                holds(is_intact(&pieces[i]), "so does a grandchild");
            _exit(0);
        }
        int status = -1;
        holds(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        for (int i = 0; i < count; i++) {
            holds(is_intact(&pieces[i]), "whatever it does");
            weft_memory_give(pieces[i].at); /* does nothing, and no harm */
            holds(is_intact(&pieces[i]));
        }
        _exit(0);
    }
    for (int i = 0; i < count; i++) {
        holds(is_intact(&pieces[i]));
        pieces[i].tag += 500;
        fill(&pieces[i]);
    }
    if (meanwhile)
        meanwhile();
    holds(write(go[1], "x", 1) == 1);
    int status = -1;
    holds(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < count; i++)
        holds(is_intact(&pieces[i]), "the child's writes are not seen");
    close(go[0]), close(go[1]);
}

static void what_a_child_maps_where_the_lane_was_is_not_ours(void)
{
    int lane_file = memfd_create("weft-lane", MFD_CLOEXEC);
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) {
            void *mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            holds(mapped != MAP_FAILED && !weft_memory_has(mapped), "libc would lose what it has there");
        }
        _exit(0);
    }
    int status = -1;
    holds(waitpid(child, &status, 0) == child && status == 0);
}

static void a_child_sees_what_is_in_the_lane_as_it_was(void)
{
    int lane_file = memfd_create("weft-lane", MFD_CLOEXEC);
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece pieces[9];
    for (int i = 0; i < 6; i++)
        pieces[i] = a_young_piece(5000 + chance(90000));
    struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true); /* these are survivors */
    weft_memory_turn_begins(seen.lane_reserved, 16 * MIB);
    for (int i = 6; i < 9; i++)
        pieces[i] = a_young_piece(400000 + chance(90000)); /* and these in the lane */
    holds(state().lane_used >= 3 * 400000);
    for (int i = 0; i < 5; i++)
        a_child_sees(pieces, 9, NULL);
    for (int i = 0; i < 9; i++)
        give(&pieces[i]);
}

static void a_child_sees_what_is_in_the_tier_as_it_was(void)
{
    begin(MIB);
    struct piece pieces[8];
    for (int i = 0; i < 8; i++)
        pieces[i] = a_piece(5000 + chance(500000));
    weft_memory_boundary(MIB / 2, false);
    holds(state().overflow > 0);
    for (int i = 0; i < 5; i++)
        a_child_sees(pieces, 8, NULL);
    weft_memory_boundary(NO_LIMIT, false);
    for (int i = 0; i < 8; i++)
        give(&pieces[i]);
}

static void come_back(void)
{
    holds(weft_memory_swap_in() == 0);
}

static void a_child_sees_what_is_swapped_out_as_it_was(void)
{
    begin(MIB);
    struct piece pieces[8];
    for (int i = 0; i < 8; i++)
        pieces[i] = a_piece(5000 + chance(500000));
    for (int i = 0; i < 4; i++) {
        holds(weft_memory_swap_out() == 0);
        a_child_sees(pieces, 8, i % 2 ? come_back : NULL);
        holds(weft_memory_swap_in() == 0);
    }
    for (int i = 0; i < 8; i++)
        give(&pieces[i]);
}

/* Fork handlers of other libraries run between ours, and may take and give. */

static struct piece of_handlers[40];
static int handled;

static void another_prepares(void)
{
    if (!state().is_serving)
        return; /* a child that forks in its turn */
    give(&of_handlers[handled]);
    of_handlers[handled + 20] = try_piece(100000, 64, true);
    holds(of_handlers[handled + 20].at != NULL);
    handled++;
}

static void another_cleans_up_in_the_child(void)
{
    weft_memory_give(of_handlers[handled].at);
    weft_memory_give(of_handlers[19].at);
}

static void handlers_of_others_may_take_and_give_in_a_fork(void)
{
    holds(pthread_atfork(another_prepares, NULL, another_cleans_up_in_the_child) == 0);
    begin(MIB);
    struct piece pieces[20];
    for (int i = 0; i < 20; i++) {
        of_handlers[i] = a_piece(100000 + (size_t)i * 5000);
        pieces[i] = a_piece(100000);
    }
    holds(state().overflow > 0);
    for (int i = 0; i < 5; i++) {
        a_child_sees(pieces, 20, NULL);
        for (int each = handled; each < 20; each++)
            holds(is_intact(&of_handlers[each]), "what a child gives back is still its parent's");
    }
    weft_memory_boundary(NO_LIMIT, false);
    for (int i = 0; i < 20; i++)
        give(&pieces[i]);
    for (int i = 0; i < 40; i++)
        if (of_handlers[i].at)
            give(&of_handlers[i]);
    holds(state().device == 0 && state().overflow == 0);
}

static void *fork_and_wait(void *with)
{
    const unsigned *times = with;
    atomic_fetch_add(&started, 1);
    struct piece mine = a_piece(70000);
    for (unsigned i = 0; i < *times; i++) {
        pid_t child = fork();
        holds(child >= 0);
        if (child == 0) {
            alarm(20);
            holds(is_intact(&mine));
            void *at = weft_memory_take(10000, 64, false);
            weft_memory_give(at ? at : mine.at);
            _exit(at == NULL ? 0 : 1);
        }
        int status = -1;
        holds(waitpid(child, &status, 0) == child && status == 0);
    }
    give(&mine);
    return NULL;
}

static void forks_never_hang_while_others_take_and_give(void)
{
    begin(4 * MIB);
    struct churner churners[3] = {{1, 30000, false}, {2, 200000, false}, {3, 300000, false}};
    for (int i = 0; i < 3; i++)
        start(take_and_give, &churners[i]);
    unsigned times = 200 * this_story.rounds;
    fork_and_wait(&times);
    join_all();
}

static void forks_never_hang_while_the_world_stops(void)
{
    begin(4 * MIB);
    struct churner churners[2] = {{1, 30000, false}, {2, 200000, false}};
    for (int i = 0; i < 2; i++)
        start(take_and_give, &churners[i]);
    unsigned times = 80 * this_story.rounds;
    start(fork_and_wait, &times);
    for (unsigned i = 0; i < 60 * this_story.rounds; i++) {
        weft_memory_boundary(i % 2 ? NO_LIMIT : MIB, false);
        if (i % 5 == 0)
            holds(weft_memory_swap_out() == 0 && weft_memory_swap_in() == 0);
    }
    join_all();
}

static const struct story stories[] = {
    STORY(what_a_child_maps_where_the_lane_was_is_not_ours),
    STORY(a_child_sees_what_is_in_the_lane_as_it_was),
    STORY(a_child_sees_what_is_in_the_tier_as_it_was),
    STORY(a_child_sees_what_is_swapped_out_as_it_was),
    STORY(handlers_of_others_may_take_and_give_in_a_fork),
    STORY(forks_never_hang_while_others_take_and_give),
    STORY(forks_never_hang_while_the_world_stops),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
