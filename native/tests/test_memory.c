#include "pieces.h"

#include <sys/time.h>

/* ---- the limit ---- */

static void what_is_on_the_device_is_never_over_the_limit(void)
{
    uint64_t limit = 6 * MIB;
    begin(limit);
    struct piece pieces[64] = {0};
    uint64_t most_overflow = 0;
    for (unsigned i = 0; i < 3000 * this_story.rounds; i++) {
        struct piece *piece = &pieces[chance(64)];
        if (piece->at)
            give(piece);
        else
            *piece = try_piece(1 + chance(chance(3) ? 20000 : 600000), (size_t)64 << chance(7), false);
        if (chance(100) == 0) {
            limit = (2 + chance(8)) * MIB + chance(5000);
            weft_memory_boundary(limit, false);
        }
        struct weft_native_state now = state();
        holds(now.device <= limit);
        most_overflow = now.overflow > most_overflow ? now.overflow : most_overflow;
    }
    holds(most_overflow > MIB, "there was overflow at all");
    for (int i = 0; i < 64; i++)
        if (pieces[i].at)
            give(&pieces[i]);
    struct weft_native_state end = state();
    holds(end.device == 0 && end.overflow == 0 && end.lane_used == 0);
}

static void a_higher_limit_holds_at_once_and_a_lower_one_from_the_next_boundary_on(void)
{
    begin(2 * MIB);
    struct piece one = a_piece(MIB), out = a_piece(2 * MIB);
    holds(state().overflow >= 2 * MIB);
    weft_memory_allow(8 * MIB);
    struct piece in = a_piece(3 * MIB);
    holds(state().overflow < 3 * MIB && state().device >= 4 * MIB);
    weft_memory_allow(MIB);
    holds(state().limit == 8 * MIB);
    weft_memory_boundary(2 * MIB, false);
    holds(state().device <= 2 * MIB);
    weft_memory_allow(0);
    holds(state().limit == 2 * MIB, "none may be there for a moment only");
    holds(is_intact(&one) && is_intact(&out) && is_intact(&in));
    give(&one), give(&out), give(&in);
}

static void what_is_over_the_limit_is_in_the_tier_and_whole(void)
{
    begin(8 * MIB);
    struct piece first = a_piece(6 * MIB), second = a_piece(6 * MIB + 4321), third = a_piece(100001);
    struct weft_native_state now = state();
    holds(now.device <= 8 * MIB && now.overflow >= 6 * MIB && now.overflow < 7 * MIB);
    holds(is_intact(&first) && is_intact(&second) && is_intact(&third));
    give(&first);
    give(&second);
    give(&third);
    now = state();
    holds(now.device == 0 && now.overflow == 0);
}

static void a_limit_of_just_the_bytes_asked_for_is_enough(void)
{
    begin_with(&weft_cpu, -1, 4 * MIB, true);
    struct piece one = a_piece(3 * MIB), other = a_piece(1 * MIB);
    holds(state().device == 4 * MIB);
    holds(try_piece(4096, 64, false).at == NULL);
    give(&one);
    give(&other);
    give(&(struct piece){a_piece(4 * MIB).at, 0, 0});
}

static void a_strict_limit_refuses(void)
{
    begin_with(&weft_cpu, a_tier(), 4 * MIB, true);
    struct piece one = a_piece(3 * MIB);
    holds(try_piece(2 * MIB, 64, false).at == NULL);
    struct weft_native_state now = state();
    holds(now.overflow == 0 && now.device <= 4 * MIB);
    struct piece small = a_piece(MIB / 2);
    weft_memory_boundary(MIB, false);
    holds(is_intact(&one) && is_intact(&small) && state().overflow == 0, "a strict limit below P moves nothing");
    holds(try_piece(4096, 64, false).at == NULL);
    weft_memory_boundary(8 * MIB, false);
    give(&(struct piece){a_piece(4 * MIB).at, 0, 0});
    give(&one);
    give(&small);
}

static void the_smallest_block_counts_in_full(void)
{
    begin_with(&weft_cpu, -1, 4 * MIB + 2000, true);
    struct piece one = a_piece(4 * MIB);
    holds(try_piece(1, 64, false).at == NULL, "it would have a page to itself");
    give(&one);
    for (int i = 0; i < 1024; i++)
        a_piece(4096 - (size_t)i);
    holds(try_piece(1, 64, false).at == NULL && state().device <= 4 * MIB + 2000);
}

static void sizes_that_no_machine_has_are_refused(void)
{
    begin(MIB);
    for (size_t less = 0; less < 10000; less += 31)
        holds(weft_memory_take(SIZE_MAX - less, 64, less % 2) == NULL);
    holds(weft_memory_take((size_t)1 << 62, 4096, false) == NULL);
    holds(weft_memory_take(4096, (size_t)1 << 62, false) == NULL);
    holds(state().device == 0 && state().overflow == 0);
}

static void without_a_tier_the_limit_is_strict(void)
{
    begin_with(&weft_cpu, -1, 4 * MIB, false);
    struct piece one = a_piece(3 * MIB);
    holds(try_piece(2 * MIB, 64, false).at == NULL);
    weft_memory_boundary(MIB, false);
    holds(is_intact(&one) && weft_memory_swap_out() == ENOENT && is_intact(&one));
}

static void a_strict_limit_holds_while_all_is_swapped_out_too(void)
{
    begin_with(&weft_cpu, a_tier(), 4 * MIB, true);
    struct piece one = a_piece(3 * MIB);
    holds(weft_memory_swap_out() == 0);
    holds(try_piece(2 * MIB, 64, false).at == NULL);
    holds(weft_memory_swap_in() == 0 && is_intact(&one));
}

static void caches_count_within_the_limit(void)
{
    begin(16 * MIB);
    for (int i = 0; i < 40; i++) {
        struct piece one = a_piece((1 + chance(12)) * MIB);
        struct weft_native_state now = state();
        holds(now.device + now.cached <= 16 * MIB);
        give(&one);
    }
}

static void nothing(int number)
{
    (void)number;
}

static void a_storm_of_signals_is_no_lack_of_memory(void)
{
    struct stat shm;
    int tier = stat("/dev/shm", &shm) == 0 ? weft_cpu_tier("/dev/shm") : -1;
    if (tier < 0)
        story_cannot_be_told("no /dev/shm: only there does a signal end a reservation");
    begin_with(&weft_cpu, tier, MIB, false);
    struct sigaction quiet = {.sa_handler = nothing};
    holds(sigaction(SIGPROF, &quiet, NULL) == 0);
    struct itimerval often = {{0, 9000}, {0, 9000}};
    holds(setitimer(ITIMER_PROF, &often, NULL) == 0);
    for (int i = 0; i < 12; i++) {
        void *at = weft_memory_take(24 * MIB, 64, false);
        holds(at != NULL);
        weft_memory_give(at);
    }
}

/* ---- shrinking and growing ---- */

static void a_shrink_moves_blocks_out_and_a_grow_brings_them_back(void)
{
    begin(NO_LIMIT);
    struct piece pieces[40];
    size_t all = 0;
    for (int i = 0; i < 40; i++) {
        pieces[i] = a_piece(4096 + chance(i % 4 ? 100000 : 1500000));
        all += pieces[i].bytes;
    }
    for (unsigned i = 0; i < 12 * this_story.rounds; i++) {
        uint64_t limit = MIB + chance(all);
        weft_memory_boundary(limit, false);
        struct weft_native_state now = state();
        holds(now.device <= limit && now.device + now.overflow >= all);
        for (int each = 0; each < 40; each++)
            holds(is_intact(&pieces[each]));
        if (i % 3 == 2) {
            weft_memory_boundary(i % 2 ? NO_LIMIT : 2 * all, false);
            holds(state().overflow == 0, "all is back where there is room");
            for (int each = 0; each < 40; each++)
                holds(is_intact(&pieces[each]));
        }
    }
    for (int i = 0; i < 40; i++)
        give(&pieces[i]);
}

static void no_write_is_lost_while_blocks_move(void)
{
    begin(NO_LIMIT);
    void *(*ways[])(void *) = {count_in_every_page, count_with_signals_blocked, wake_and_count_with_signals_blocked};
    struct piece still = a_piece(3 * MIB + 777), counted[3];
    for (int i = 0; i < 3; i++) {
        counted[i] = try_piece(64 * PAGE + 192, 4096, false);
        start(ways[i], &counted[i]);
    }
    for (unsigned i = 0; i < 40 * this_story.rounds; i++) {
        weft_memory_boundary(i % 2 ? NO_LIMIT : 16384, false);
        holds(i % 2 ? state().overflow == 0 : state().overflow > 3 * MIB);
        usleep(500);
    }
    for (unsigned i = 0; i < 20 * this_story.rounds; i++) {
        holds(weft_memory_swap_out() == 0);
        usleep(200);
        holds(weft_memory_swap_in() == 0);
    }
    join_all();
    holds(is_intact(&still));
}

/* ---- learning and caches ---- */

static void p_and_t_are_learnt(void)
{
    begin(NO_LIMIT);
    struct piece parameter = a_piece(3 * MIB);
    weft_memory_boundary(NO_LIMIT, false);
    struct weft_boundary seen = {0};
    for (int step = 0; step < 3; step++) {
        struct piece one = a_young_piece(2 * MIB), other = a_young_piece(MIB);
        give(&one);
        give(&other);
        seen = weft_memory_boundary(NO_LIMIT, false);
    }
    holds(seen.persistent == 3 * MIB && seen.ephemeral == 3 * MIB && seen.peak >= 6 * MIB);
    for (int step = 0; step < 40; step++)
        seen = weft_memory_boundary(NO_LIMIT, false);
    holds(seen.ephemeral == 0, "what is long past is forgotten");
    give(&parameter);
    holds(weft_memory_boundary(NO_LIMIT, false).persistent == 0);
}

static void free_blocks_keep_no_page_when_caches_are_dropped(void)
{
    begin(NO_LIMIT);
    struct piece pieces[60];
    for (int i = 0; i < 60; i++)
        pieces[i] = a_piece(4096 + chance(50000));
    for (int i = 0; i < 60; i++)
        if (i % 5) { /* one by one: the page that two shared goes with the second */
            give(&pieces[i]);
            holds(weft_memory_drop_caches() == 0 && state().cached == 0);
        }
    for (int i = 0; i + 5 < 60; i += 5) { /* between two that are left, only their own last pages are */
        uint8_t *from = pieces[i].at + pieces[i].bytes + 4096, *to = pieces[i + 5].at;
        if (to > from + 2 * PAGE)
            holds(resident_bytes(from, (size_t)(to - from)) == 0);
    }
    for (int i = 0; i < 60; i += 5)
        give(&pieces[i]);
}

static void caches_that_no_step_uses_are_given_back(void)
{
    begin(NO_LIMIT);
    weft_memory_boundary(NO_LIMIT, false);
    for (int step = 0; step < 80; step++) {
        struct piece one = a_young_piece(step < 2 ? 24 * MIB : 2 * MIB);
        give(&one);
        weft_memory_boundary(NO_LIMIT, false);
    }
    holds(state().cached <= 4 * MIB);
}

static const struct story stories[] = {
    STORY(what_is_on_the_device_is_never_over_the_limit),
    STORY(a_higher_limit_holds_at_once_and_a_lower_one_from_the_next_boundary_on),
    STORY(what_is_over_the_limit_is_in_the_tier_and_whole),
    STORY(a_limit_of_just_the_bytes_asked_for_is_enough),
    STORY(a_strict_limit_refuses),
    STORY(the_smallest_block_counts_in_full),
    STORY(sizes_that_no_machine_has_are_refused),
    STORY(without_a_tier_the_limit_is_strict),
    STORY(a_strict_limit_holds_while_all_is_swapped_out_too),
    STORY(caches_count_within_the_limit),
    STORY(a_storm_of_signals_is_no_lack_of_memory),
    STORY(a_shrink_moves_blocks_out_and_a_grow_brings_them_back),
    STORY(no_write_is_lost_while_blocks_move),
    STORY(p_and_t_are_learnt),
    STORY(free_blocks_keep_no_page_when_caches_are_dropped),
    STORY(caches_that_no_step_uses_are_given_back),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
