/* A limit that binds in every step: places in the tier are kept, and no more pages are given back than it asks for. */
#include "pieces.h"

#define LAYERS 12

static unsigned long placed, decommitted_bytes;

static int count_place_out(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    placed++;
    return weft_cpu.place_out(tier, at, offset, bytes);
}

static int count_decommit(uint8_t *at, size_t bytes)
{
    decommitted_bytes += bytes;
    return weft_cpu.decommit(at, bytes);
}

static int begin_counting(int tier, uint64_t limit)
{
    static struct weft_backend counting;
    counting = weft_cpu;
    counting.place_out = count_place_out;
    counting.decommit = count_decommit;
    begin_with(&counting, tier, limit, false);
    return tier;
}

/* As a training does: blocks of the same sizes in the same order, the last first back. */
static void a_step(uint64_t limit, size_t most)
{
    struct piece pieces[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        pieces[i] = try_piece(most / 2 + (size_t)i * most / (2 * LAYERS), 64, true);
    for (int i = LAYERS - 1; i >= 0; i--)
        give(&pieces[i]);
    weft_memory_boundary(limit, false);
}

static uint64_t tier_bytes(int tier)
{
    struct stat seen;
    holds(fstat(tier, &seen) == 0);
    return (uint64_t)seen.st_blocks * 512;
}

static void equal_steps_use_the_same_places_in_the_tier(void)
{
    begin_counting(a_tier(), 4 * MIB);
    for (int step = 0; step < 3; step++)
        a_step(4 * MIB, MIB);
    holds(placed > 0);
    unsigned long before = placed;
    for (int step = 0; step < 60; step++)
        a_step(4 * MIB, MIB);
    holds(placed == before, "nothing is reserved anew");
    holds(state().overflow == 0, "no kept block is in use");
}

static void places_that_no_step_uses_are_given_back(void)
{
    int tier = begin_counting(a_tier(), 4 * MIB);
    for (int step = 0; step < 3; step++)
        a_step(4 * MIB, MIB);
    holds(tier_bytes(tier) > 3 * MIB);
    for (int step = 0; step < 50; step++)
        a_step(4 * MIB, MIB / 8); /* which fits the limit */
    holds(tier_bytes(tier) <= MIB / 8, "a file system may need some room for itself");
    for (int step = 0; step < 3; step++)
        a_step(4 * MIB, MIB);
    weft_memory_drop_caches();
    holds(tier_bytes(tier) <= MIB / 8);
}

static void places_that_were_kept_make_room_for_others(void)
{
    begin_counting(a_small_tmpfs("size=4m"), MIB);
    struct piece pieces[20];
    for (int round = 0; round < 10; round++) { /* of another size each time, and each time all that is there */
        size_t bytes = (300 + (size_t)round * 64) * 1024;
        int taken = 0;
        while (taken < 20 && (pieces[taken] = try_piece(bytes, 64, false)).at)
            taken++;
        holds((size_t)taken * bytes > 3 * MIB);
        while (taken)
            give(&pieces[--taken]);
    }
    struct piece half = try_piece(MIB, 64, false), lasting = try_piece(2 * MIB, 64, false);
    give(&half);
    weft_memory_boundary(64 * 1024, false);
    holds(state().device <= 64 * 1024 && is_intact(&lasting), "a lowered limit finds the room too");
    holds(weft_memory_swap_out() == 0 && is_intact(&lasting));
    holds(weft_memory_swap_in() == 0 && is_intact(&lasting));
}

static void a_place_that_was_kept_is_nobodys(void)
{
    begin_counting(a_tier(), MIB);
    a_step(MIB, MIB);
    a_step(MIB, MIB);
    struct piece lasting = a_piece(MIB);
    struct piece over = a_piece(MIB);
    uint8_t *at = over.at;
    give(&over);
    weft_memory_give(at); /* twice: a bug of the script, which must not break anything */
    pid_t child = fork();
    holds(child >= 0);
    if (child == 0)
        _exit(is_intact(&lasting) ? 0 : 1);
    int status = -1;
    holds(waitpid(child, &status, 0) == child && status == 0);
    weft_memory_boundary(NO_LIMIT, false); /* what is over the old limit comes back; what is kept does not */
    holds(state().overflow == 0 && is_intact(&lasting));
    holds(weft_memory_swap_out() == 0);
    a_step(NO_LIMIT, MIB);
    holds(weft_memory_swap_in() == 0 && is_intact(&lasting));
}

static void no_more_is_given_back_than_the_limit_asks_for(void)
{
    uint64_t limit = 8 * MIB; /* and a step needs 9 at most */
    begin_counting(a_tier(), limit);
    for (int step = 0; step < 3; step++)
        a_step(limit, MIB);
    decommitted_bytes = 0;
    for (int step = 0; step < 20; step++) {
        a_step(limit, MIB);
        struct weft_native_state now = state();
        holds(now.device + now.cached <= limit);
    }
    printf("%.2f MiB a step are given back\n", (double)decommitted_bytes / 20 / (double)MIB);
    holds(decommitted_bytes / 20 < limit / 2);
}

static const struct story stories[] = {
    STORY(equal_steps_use_the_same_places_in_the_tier),
    STORY(places_that_no_step_uses_are_given_back),
    STORY(places_that_were_kept_make_room_for_others),
    STORY(a_place_that_was_kept_is_nobodys),
    STORY(no_more_is_given_back_than_the_limit_asks_for),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
