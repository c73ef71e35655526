#include "pieces.h"

static void swapping_out_and_in_keeps_every_byte(void)
{
    begin(NO_LIMIT);
    struct piece pieces[80];
    for (unsigned round = 0; round < 6 * this_story.rounds; round++) {
        for (int i = 0; i < 80; i++) /* odd sizes: neighbours share pages */
            pieces[i] = try_piece(4096 + chance(i % 5 ? 9000 : 400000), 64, false);
        for (int i = 0; i < 80; i += 3)
            give(&pieces[i]);
        weft_memory_boundary(round % 2 ? 3 * MIB : NO_LIMIT, false); /* some are in the tier already */
        holds(weft_memory_swap_out() == 0);
        if (round % 3 == 1)
            holds(weft_memory_swap_out() == 0, "twice is as good as once");
        if (round % 3 == 2)
            for (int i = 1; i < 80; i += 3)
                holds(is_intact(&pieces[i]), "it can be used where it is");
        holds(weft_memory_swap_in() == 0);
        for (int i = 0; i < 80; i++)
            if (i % 3)
                give(&pieces[i]);
        struct weft_native_state now = state();
        holds(now.device == 0 && now.overflow == 0);
    }
}

static void swapping_out_gives_nearly_all_of_p_back(void)
{
    begin(NO_LIMIT);
    struct piece pieces[30];
    size_t all = 0, resident = 0;
    for (int i = 0; i < 30; i++) {
        pieces[i] = a_piece(5000 + chance(4 * MIB));
        all += pieces[i].bytes;
    }
    size_t before = rss_bytes();
    holds(weft_memory_swap_out() == 0);
    size_t after = rss_bytes();
    for (int i = 0; i < 30; i++)
        resident += resident_bytes(pieces[i].at, pieces[i].bytes);
    printf("of %.1f MB, %.1f MB have left the process and %.1f MB are still in memory\n", (double)all / 1e6,
           (double)(before - after) / 1e6, (double)resident / 1e6);
    holds(before - after >= all * 9 / 10, "the process has 90 % of P less");
    holds(resident <= all / 10, "nor is it in the page cache");
    holds(weft_memory_swap_in() == 0);
    for (int i = 0; i < 30; i++)
        holds(is_intact(&pieces[i]));
    holds(state().overflow == 0);
}

static void others_take_and_give_while_all_is_swapped_out(void)
{
    begin(NO_LIMIT);
    struct piece pieces[30];
    for (int i = 0; i < 30; i++)
        pieces[i] = a_piece(4096 + chance(300000));
    struct churner one = {1, 60000, false}, other = {2, 200000, false};
    start(take_and_give, &one);
    start(take_and_give, &other);
    for (unsigned round = 0; round < 15 * this_story.rounds; round++) {
        holds(weft_memory_swap_out() == 0);
        usleep(3000);
        int which = (int)chance(30);
        give(&pieces[which]);
        pieces[which] = a_piece(4096 + chance(300000));
        holds(weft_memory_swap_in() == 0);
        for (int i = 0; i < 30; i++)
            holds(is_intact(&pieces[i]));
    }
    join_all();
}

static void the_limit_holds_while_others_take_and_all_is_swapped_out(void)
{
    begin(2 * MIB);
    struct piece pieces[12];
    for (int i = 0; i < 12; i++)
        pieces[i] = a_piece(300000);
    for (unsigned round = 0; round < 6 * this_story.rounds; round++) {
        holds(weft_memory_swap_out() == 0);
        for (int i = 0; i < 20; i++) {
            int which = (int)chance(12);
            give(&pieces[which]);
            pieces[which] = a_piece(4096 + chance(600000));
            holds(state().device <= 2 * MIB);
        }
        holds(weft_memory_swap_in() == 0);
        for (int i = 0; i < 12; i++)
            holds(is_intact(&pieces[i]));
        weft_memory_boundary((1 + chance(3)) * MIB, false);
        weft_memory_boundary(2 * MIB, false);
        for (int i = 0; i < 12; i++)
            holds(is_intact(&pieces[i]));
    }
}

static void what_is_given_back_while_swapped_out_does_not_come_back(void)
{
    begin(NO_LIMIT);
    struct piece kept = a_piece(MIB), gone = a_piece(40 * MIB);
    const uint8_t *at = gone.at;
    holds(weft_memory_swap_out() == 0);
    weft_memory_give(gone.at);
    weft_memory_drop_caches();
    holds(weft_memory_swap_in() == 0);
    holds(resident_bytes(at, 40 * MIB) <= 40 * MIB / 10 || state().cached >= 36 * MIB,
          "memory that is neither used nor known of");
    holds(is_intact(&kept));
}

/* A swap-in that fails leaves all where it was, to be used there, and to be tried again. */

static int failures;

static int move_in_fails(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    return failures-- > 0 ? EIO : weft_cpu.move_in(tier, at, offset, bytes);
}

static int move_out_fails(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    return failures-- == 0 ? ENOSPC : weft_cpu.move_out(tier, at, offset, bytes);
}

static void a_swap_in_that_fails_loses_nothing(void)
{
    struct weft_backend failing = weft_cpu;
    failing.move_in = move_in_fails;
    begin_with(&failing, a_tier(), NO_LIMIT, false);
    struct piece pieces[30];
    for (int i = 0; i < 30; i++)
        pieces[i] = a_piece(4096 + chance(300000));
    for (int i = 0; i < 30; i += 4)
        give(&pieces[i]);
    for (int round = 0; round < 4; round++) {
        holds(weft_memory_swap_out() == 0);
        failures = 1;
        holds(weft_memory_swap_in() == EIO);
        for (int i = 0; i < 30; i++)
            holds(pieces[i].at == NULL || is_intact(&pieces[i]));
        weft_memory_boundary(MIB, false); /* the job runs on: a limit comes, and goes */
        weft_memory_boundary(MIB / 2, false);
        for (int i = 1; i < 30; i += 4) {
            pieces[i].tag++;
            fill(&pieces[i]);
        }
        holds(weft_memory_swap_in() == 0);
        weft_memory_boundary(MIB, false);
        weft_memory_boundary(NO_LIMIT, false);
        for (int i = 0; i < 30; i++)
            holds(pieces[i].at == NULL || is_intact(&pieces[i]));
        holds(state().overflow == 0);
    }
}

static void after_a_swap_in_that_failed_all_can_be_swapped_out_again(void)
{
    struct weft_backend failing = weft_cpu;
    failing.move_in = move_in_fails;
    begin_with(&failing, a_tier(), NO_LIMIT, false);
    struct piece one = a_piece(10 * MIB);
    holds(weft_memory_swap_out() == 0);
    failures = 1;
    holds(weft_memory_swap_in() == EIO);
    struct piece other = a_piece(100 * MIB); /* more than was there when the first was swapped out */
    holds(weft_memory_swap_out() == 0 && is_intact(&one) && is_intact(&other));
    holds(weft_memory_swap_in() == 0 && is_intact(&one) && is_intact(&other));
}

static void a_swap_out_that_fails_halfway_is_undone(void)
{
    struct weft_backend failing = weft_cpu;
    failing.move_out = move_out_fails;
    begin_with(&failing, a_tier(), NO_LIMIT, false);
    struct piece pieces[30];
    for (int i = 0; i < 30; i++)
        pieces[i] = a_piece(4096 + chance(300000));
    for (int i = 0; i < 30; i += 3)
        give(&pieces[i]);
    for (failures = 0; failures < 10;) {
        int at = failures, error = weft_memory_swap_out();
        holds(error == ENOSPC || at >= 9);
        for (int i = 0; i < 30; i++)
            holds(pieces[i].at == NULL || is_intact(&pieces[i]));
        holds(weft_memory_swap_in() == 0);
        failures = at + 1;
    }
}

static void moving_in_that_fails_halfway_leaves_the_pages_out(void)
{
    size_t bytes = 80 * MIB;
    struct weft_range range = weft_cpu.reserve(bytes);
    int tier = a_tier();
    holds(range.base && weft_cpu.commit(range.base, bytes) == 0);
    struct piece piece = {range.base, bytes, 42};
    fill(&piece);
    holds(weft_cpu.move_out(tier, range.base, 0, bytes) == 0 && is_intact(&piece));
    holds(ftruncate(tier, (off_t)(70 * MIB)) == 0); /* the end of the file is lost: it cannot be read */
    holds(weft_cpu.move_in(tier, range.base, 0, bytes) == EIO);
    piece.bytes = 70 * MIB;
    holds(is_intact(&piece));
    piece.tag = 43;
    fill(&piece); /* and they are in use where they are */
    holds(ftruncate(tier, (off_t)bytes) == 0);
    holds(weft_cpu.move_in(tier, range.base, 0, bytes) == 0);
    holds(is_intact(&piece));
}

/* ---- a full tier ---- */

static void a_full_tier_refuses_and_breaks_nothing(void)
{
    begin_with(&weft_cpu, a_small_tmpfs("size=4m"), 2 * MIB, false);
    struct piece pieces[40];
    int taken = 0;
    while (taken < 40 && (pieces[taken] = try_piece(300000, 64, false)).at)
        taken++;
    holds(taken >= 15 && taken < 25, "2 MiB on the device and 4 in the tier");
    for (int round = 0; round < 20; round++) {
        holds(try_piece(900000, 64, false).at == NULL);
        holds(weft_memory_swap_out() == ENOSPC);
        weft_memory_boundary(MIB / 2, false); /* cannot be obeyed */
        weft_memory_boundary(2 * MIB, false);
        for (int i = 0; i < taken; i++)
            holds(is_intact(&pieces[i]));
        int which = (int)chance((uint64_t)taken);
        give(&pieces[which]);
        pieces[which] = try_piece(300000, 64, false);
        holds(pieces[which].at != NULL, "the room of one that went is another's");
    }
    for (int i = 0; i < taken; i++)
        give(&pieces[i]);
    holds(state().overflow == 0 && state().device == 0);
    struct piece whole = a_piece(4 * MIB - 65536);
    give(&whole); /* nothing of the tier was lost */
}

static void a_full_tier_while_swapped_out_breaks_nothing(void)
{
    begin_with(&weft_cpu, a_small_tmpfs("size=4m"), NO_LIMIT, false);
    struct piece pieces[16];
    for (int i = 0; i < 16; i++)
        pieces[i] = a_piece(240000);
    holds(weft_memory_swap_out() == 0);
    struct piece more = a_piece(2 * MIB);
    for (int i = 0; i < 16; i += 2)
        give(&pieces[i]);
    struct piece another = a_piece(3 * MIB);
    holds(weft_memory_swap_in() == 0);
    for (int i = 1; i < 16; i += 2)
        holds(is_intact(&pieces[i]));
    holds(is_intact(&more) && is_intact(&another));
}

static const struct story stories[] = {
    STORY(swapping_out_and_in_keeps_every_byte),
    STORY(swapping_out_gives_nearly_all_of_p_back),
    STORY(others_take_and_give_while_all_is_swapped_out),
    STORY(the_limit_holds_while_others_take_and_all_is_swapped_out),
    STORY(what_is_given_back_while_swapped_out_does_not_come_back),
    STORY(a_swap_in_that_fails_loses_nothing),
    STORY(after_a_swap_in_that_failed_all_can_be_swapped_out_again),
    STORY(a_swap_out_that_fails_halfway_is_undone),
    STORY(moving_in_that_fails_halfway_leaves_the_pages_out),
    STORY(a_full_tier_refuses_and_breaks_nothing),
    STORY(a_full_tier_while_swapped_out_breaks_nothing),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
