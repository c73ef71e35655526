#include "../arena.h"
#include "story.h"

#include <sys/mman.h>

#define MANY 400
#define MIB ((size_t)1 << 20)

static struct weft_arena arena;

struct piece {
    uint32_t block;
    uint64_t stamp;
    size_t bytes;
};

static struct piece pieces[MANY];
static unsigned held;

static void begin(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    holds(base != MAP_FAILED);
    holds(weft_arena_begin(&arena, (struct weft_range){base, bytes}));
    holds(weft_arena_wrong(&arena) == NULL);
}

static void all_is_right(void)
{
    const char *wrong = weft_arena_wrong(&arena);
    if (wrong)
        story_ends_badly(__FILE__, __LINE__, "the arena is right:", wrong);
}

static uint8_t *address(uint32_t block)
{
    return arena.range.base + arena.blocks[block].offset;
}

/* All of it, so that an overlap is a changed byte. */
static void stamp(const struct piece *piece)
{
    uint8_t *at = address(piece->block);
    for (size_t i = 0; i < piece->bytes; i += 32)
        at[i] = (uint8_t)(piece->stamp + i / 32 * 7);
    at[piece->bytes - 1] = (uint8_t)(piece->stamp ^ 0x5a);
}

static bool is_stamped(const struct piece *piece)
{
    const uint8_t *at = address(piece->block);
    for (size_t i = 0; i + 1 < piece->bytes; i += 32)
        if (at[i] != (uint8_t)(piece->stamp + i / 32 * 7))
            return false;
    return at[piece->bytes - 1] == (uint8_t)(piece->stamp ^ 0x5a);
}

static bool overlaps_another(const struct piece *piece)
{
    uint64_t from = arena.blocks[piece->block].offset, to = from + arena.blocks[piece->block].bytes;
    for (unsigned i = 0; i < held; i++) {
        const struct weft_block *other = &arena.blocks[pieces[i].block];
        if (from < other->offset + other->bytes && other->offset < to)
            return true;
    }
    return false;
}

/* Mostly small, sometimes large, often the same again: as programs ask. */
static size_t some_size(void)
{
    static const size_t usual[] = {1, 64, 4095, 4096, 4097, 65536, 200704, 802816, 37632};
    switch (chance(4)) {
    case 0:
        return usual[chance(sizeof usual / sizeof *usual)];
    case 1:
        return 1 + chance(MIB);
    default:
        return 1 + chance(20000);
    }
}

static size_t some_alignment(void)
{
    return chance(50) == 0 ? (size_t)4096 << chance(10) : (size_t)64 << chance(7);
}

static bool take_a_piece(size_t end)
{
    struct piece piece = {.bytes = some_size(), .stamp = chance(256)};
    size_t alignment = some_alignment();
    piece.block = weft_arena_take(&arena, piece.bytes, alignment, end);
    all_is_right();
    if (piece.block == WEFT_NO_BLOCK)
        return false;
    const struct weft_block *block = &arena.blocks[piece.block];
    holds(!block->is_free);
    holds(block->requested == piece.bytes && block->bytes >= piece.bytes);
    holds(block->offset + piece.bytes <= end, "a block ends below the end that was asked for");
    holds((uintptr_t)address(piece.block) % alignment == 0);
    holds(weft_arena_find(&arena, address(piece.block)) == piece.block);
    holds(weft_arena_find(&arena, address(piece.block) + 64) == WEFT_NO_BLOCK);
    holds(!overlaps_another(&piece));
    stamp(&piece);
    pieces[held++] = piece;
    return true;
}

static void give_a_piece(void)
{
    unsigned which = (unsigned)chance(held);
    struct piece piece = pieces[which];
    holds(is_stamped(&piece), "what was written is still there");
    uint8_t *at = address(piece.block);
    pieces[which] = pieces[--held];
    uint32_t free_block = weft_arena_give(&arena, piece.block);
    holds(arena.blocks[free_block].is_free);
    holds(weft_arena_find(&arena, at) == WEFT_NO_BLOCK, "what was given back is found no more");
    all_is_right();
}

static void give_everything(void)
{
    while (held)
        give_a_piece();
}

static void blocks_never_overlap_and_keep_what_is_written(void)
{
    begin(96 * MIB);
    for (unsigned i = 0; i < 6000 * this_story.rounds; i++)
        if (held == MANY || (held && chance(100) < 48) || !take_a_piece(arena.range.bytes))
            give_a_piece();
    for (unsigned i = 0; i < held; i++)
        holds(is_stamped(&pieces[i]));
    give_everything();
}

static void everything_given_back_is_one_block_again(void)
{
    begin(64 * MIB);
    uint32_t made = 0;
    for (unsigned round = 0; round < 12 * this_story.rounds; round++) {
        while (held < 100 && take_a_piece(arena.range.bytes))
            continue;
        give_everything();
        const struct weft_block *all = &arena.blocks[arena.lowest];
        holds(all->is_free && all->offset == 0 && all->bytes == arena.range.bytes && all->after == WEFT_NO_BLOCK);
        if (round == 5)
            made = arena.blocks_made;
    }
    holds(arena.blocks_made <= made + 110, "descriptors are used again");
}

static void a_full_range_says_no_and_stays_right(void)
{
    begin(4 * MIB);
    unsigned refused = 0;
    for (unsigned i = 0; i < 4000 * this_story.rounds; i++) {
        if (held < MANY && take_a_piece(arena.range.bytes))
            continue;
        refused++;
        give_a_piece();
    }
    holds(refused > 100);
    give_everything();
    holds(weft_arena_take(&arena, 4 * MIB + 1, 64, arena.range.bytes) == WEFT_NO_BLOCK);
    holds(weft_arena_take(&arena, SIZE_MAX, 64, arena.range.bytes) == WEFT_NO_BLOCK);
    holds(weft_arena_take(&arena, 1, SIZE_MAX / 2 + 1, arena.range.bytes) == WEFT_NO_BLOCK);
    uint32_t all = weft_arena_take(&arena, 4 * MIB, 64, arena.range.bytes);
    holds(all != WEFT_NO_BLOCK, "one block may be all there is");
    holds(weft_arena_take(&arena, 0, 64, arena.range.bytes) == WEFT_NO_BLOCK);
    all_is_right();
    weft_arena_give(&arena, all);
    all_is_right();
}

static void nothing_is_taken_past_the_end_asked_for(void)
{
    begin(64 * MIB);
    for (unsigned i = 0; i < 3000 * this_story.rounds; i++) {
        size_t end = (1 + chance(16)) * MIB - chance(5000);
        if (held == MANY || !take_a_piece(end)) {
            if (held)
                give_a_piece();
        }
    }
    give_everything();
}

static void a_block_may_be_of_no_bytes(void)
{
    begin(4 * MIB);
    uint32_t one = weft_arena_take(&arena, 0, 1, arena.range.bytes), other = weft_arena_take(&arena, 0, 1, 4 * MIB);
    holds(one && other && one != other && address(one) != address(other));
    all_is_right();
}

static void addresses_of_no_block_are_not_found(void)
{
    begin(64 * MIB);
    uint32_t block = weft_arena_take(&arena, 10000, 64, arena.range.bytes);
    holds(weft_arena_find(&arena, arena.range.base + 32 * MIB) == WEFT_NO_BLOCK);
    holds(weft_arena_find(&arena, arena.range.base + 64 * MIB - 1) == WEFT_NO_BLOCK);
    holds(weft_arena_find(&arena, address(block) + 1) == WEFT_NO_BLOCK);
    holds(weft_arena_find(&arena, address(block) + 4096) == WEFT_NO_BLOCK);
    holds(weft_arena_has(&arena, arena.range.base) && weft_arena_has(&arena, arena.range.base + 64 * MIB - 1));
    holds(!weft_arena_has(&arena, arena.range.base + 64 * MIB) && !weft_arena_has(&arena, arena.range.base - 1));
}

/* ---- which free memory may have pages ---- */

#define HULL_RANGE (16 * MIB)

static uint8_t may_have_pages[HULL_RANGE / WEFT_GRAIN];

static void mark(uint32_t block, uint8_t has)
{
    const struct weft_block *of = &arena.blocks[block];
    memset(may_have_pages + of->offset / WEFT_GRAIN, has, of->bytes / WEFT_GRAIN);
}

static void every_hull_covers_what_was_used(void)
{
    for (uint32_t index = arena.lowest; index; index = arena.blocks[index].after) {
        const struct weft_block *block = &arena.blocks[index];
        for (uint64_t at = block->offset; block->is_free && at < block->offset + block->bytes; at += WEFT_GRAIN)
            if (may_have_pages[at / WEFT_GRAIN])
                holds(block->dirty_from <= at && at < block->dirty_to);
    }
}

static uint32_t some_free_block(void)
{
    uint32_t found = WEFT_NO_BLOCK;
    for (uint32_t index = arena.lowest, seen = 0; index; index = arena.blocks[index].after)
        if (arena.blocks[index].is_free && chance(++seen) == 0)
            found = index;
    return found;
}

static void free_memory_that_was_used_is_known_as_dirty_until_cleaned(void)
{
    begin(HULL_RANGE);
    holds(arena.dirty == 0, "memory that was never used has no pages");
    for (unsigned i = 0; i < 4000 * this_story.rounds; i++) {
        uint64_t what = chance(100);
        if (what < 5) {
            uint32_t block = some_free_block();
            if (block) {
                const struct weft_block *of = &arena.blocks[block];
                uint64_t from = of->offset + chance(of->bytes / WEFT_GRAIN) * WEFT_GRAIN * chance(2);
                weft_arena_cleaned(&arena, block, from);
                memset(may_have_pages + from / WEFT_GRAIN, 0, (of->offset + of->bytes - from) / WEFT_GRAIN);
            }
        } else if (held < MANY && (what < 52 || !held) && take_a_piece(arena.range.bytes)) {
            mark(pieces[held - 1].block, 1);
        } else if (held) {
            give_a_piece();
        }
        all_is_right();
        if (i % 16 == 0)
            every_hull_covers_what_was_used();
    }
    give_everything();
    every_hull_covers_what_was_used();
    weft_arena_cleaned(&arena, arena.lowest, 0);
    holds(arena.dirty == 0);
    all_is_right();
}

static void a_lone_hole_is_dirty_exactly_where_it_was_used(void)
{
    begin(16 * MIB);
    uint32_t low = weft_arena_take(&arena, MIB, 64, arena.range.bytes);
    uint32_t mid = weft_arena_take(&arena, MIB, 64, arena.range.bytes);
    uint32_t high = weft_arena_take(&arena, MIB, 64, arena.range.bytes);
    weft_arena_give(&arena, mid);
    holds(arena.dirty == MIB);
    weft_arena_give(&arena, high);
    holds(arena.dirty == 2 * MIB, "the untouched memory behind it is clean");
    uint32_t again = weft_arena_take(&arena, MIB / 2, 64, arena.range.bytes);
    holds(again != WEFT_NO_BLOCK);
    uint64_t dirty = arena.dirty;
    weft_arena_give(&arena, again);
    holds(arena.dirty == 2 * MIB && dirty == 2 * MIB - MIB / 2);
    weft_arena_give(&arena, low);
    holds(arena.dirty == 3 * MIB);
    all_is_right();
}

/* ---- how much is lost between blocks ---- */

/* Activations of a small residual network, in forward order, bytes a sample; each is saved for the backward pass. */
static const size_t activations[] = {
    3211264, 802816, 802816, 802816, 802816, 802816, 401408, 401408, 401408, 401408,
    200704,  200704, 200704, 200704, 100352, 100352, 100352, 100352, 2048,   4000,
};
#define LAYERS (sizeof activations / sizeof *activations)

static uint64_t live_bytes, most_live, highest;

static uint32_t use(size_t bytes)
{
    uint32_t block = weft_arena_take(&arena, bytes, 64, arena.range.bytes);
    holds(block != WEFT_NO_BLOCK);
    live_bytes += bytes;
    most_live = live_bytes > most_live ? live_bytes : most_live;
    uint64_t past = arena.blocks[block].offset + arena.blocks[block].bytes;
    highest = past > highest ? past : highest;
    return block;
}

static void drop(uint32_t block)
{
    live_bytes -= arena.blocks[block].requested;
    weft_arena_give(&arena, block);
}

static void one_step(size_t batch)
{
    uint32_t saved[LAYERS], gradient = WEFT_NO_BLOCK;
    for (size_t layer = 0; layer < LAYERS; layer++) {
        uint32_t columns = use(activations[layer] * batch * 9 / 8); /* a convolution's workspace */
        saved[layer] = use(activations[layer] * batch);
        drop(columns);
    }
    for (size_t layer = LAYERS; layer-- > 0;) {
        uint32_t next = use(activations[layer] * batch), columns = use(activations[layer] * batch * 9 / 8);
        drop(columns);
        drop(saved[layer]);
        if (gradient)
            drop(gradient);
        gradient = next;
    }
    drop(gradient);
}

static void training_steps_lose_little_to_fragmentation(void)
{
    begin((size_t)4 << 30);
    for (unsigned i = 0; i < 60; i++) /* parameters, with gradients and momentum */
        use(3 * (2048 + (i * 37633 % 590000)));
    for (unsigned step = 0; step < 200 * this_story.rounds; step++)
        one_step(step % 10 == 9 ? 3 + chance(5) : 8); /* a shorter last batch in each epoch */
    all_is_right();
    double ratio = (double)highest / (double)most_live;
    printf("addresses used / most bytes in use = %.3f (%.0f MB)\n", ratio, (double)most_live / 1e6);
    holds(ratio < 1.20);
}

static void lengths_that_vary_lose_little_to_fragmentation(void)
{
    begin((size_t)4 << 30);
    for (unsigned step = 0; step < 300 * this_story.rounds; step++) {
        uint32_t blocks[48];
        size_t length = 16 + chance(240);
        for (unsigned i = 0; i < 48; i++)
            blocks[i] = use(length * (i % 3 == 0 ? 12288 : i % 3 == 1 ? 3072 : length * 32));
        for (unsigned left = 48; left > 0; left--) { /* not in the order they came */
            unsigned which = (unsigned)chance(left);
            drop(blocks[which]);
            blocks[which] = blocks[left - 1];
        }
    }
    all_is_right();
    double ratio = (double)highest / (double)most_live;
    printf("addresses used / most bytes in use = %.3f (%.0f MB)\n", ratio, (double)most_live / 1e6);
    holds(ratio < 1.10);
}

static const struct story stories[] = {
    STORY(blocks_never_overlap_and_keep_what_is_written),
    STORY(everything_given_back_is_one_block_again),
    STORY(a_full_range_says_no_and_stays_right),
    STORY(nothing_is_taken_past_the_end_asked_for),
    STORY(a_block_may_be_of_no_bytes),
    STORY(addresses_of_no_block_are_not_found),
    STORY(free_memory_that_was_used_is_known_as_dirty_until_cleaned),
    STORY(a_lone_hole_is_dirty_exactly_where_it_was_used),
    STORY(training_steps_lose_little_to_fragmentation),
    STORY(lengths_that_vary_lose_little_to_fragmentation),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
