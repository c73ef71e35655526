#include "arena.h"

#include <string.h>
#include <sys/mman.h>

#define TABLE_STEP ((size_t)1 << 20) /* tables become usable in steps of so many bytes */
#define SECOND_BITS 5

/* ---- size classes: sizes count in grains; small ones have a class each ---- */

struct size_class {
    unsigned first, second;
};

static unsigned log2_of(uint64_t number)
{
    return 63u - (unsigned)__builtin_clzll(number);
}

/* The class whose blocks are at least as large as `bytes`, if `round_up`; else the class of that size itself. */
static struct size_class class_of(uint64_t bytes, bool round_up)
{
    uint64_t grains = bytes / WEFT_GRAIN;
    unsigned top = log2_of(grains);
    if (top < SECOND_BITS)
        return (struct size_class){0, (unsigned)grains};
    if (round_up) {
        grains += (UINT64_C(1) << (top - SECOND_BITS)) - 1;
        top = log2_of(grains);
    }
    return (struct size_class){top - SECOND_BITS + 1,
                               (unsigned)(grains >> (top - SECOND_BITS)) & (WEFT_SECOND_LEVELS - 1)};
}

static void list(struct weft_arena *arena, uint32_t index)
{
    struct weft_block *block = &arena->blocks[index];
    struct size_class class = class_of(block->bytes, false);
    uint32_t *head = &arena->free_lists[class.first][class.second];
    arena->dirty += block->dirty_to - block->dirty_from;
    block->previous = WEFT_NO_BLOCK;
    block->next = *head;
    if (*head)
        arena->blocks[*head].previous = index;
    *head = index;
    arena->first_bits |= UINT64_C(1) << class.first;
    arena->second_bits[class.first] |= UINT32_C(1) << class.second;
}

static void unlist(struct weft_arena *arena, uint32_t index)
{
    struct weft_block *block = &arena->blocks[index];
    struct size_class class = class_of(block->bytes, false);
    uint32_t *head = &arena->free_lists[class.first][class.second];
    arena->dirty -= block->dirty_to - block->dirty_from;
    if (block->next)
        arena->blocks[block->next].previous = block->previous;
    if (block->previous)
        arena->blocks[block->previous].next = block->next;
    else
        *head = block->next;
    if (*head == WEFT_NO_BLOCK) {
        arena->second_bits[class.first] &= ~(UINT32_C(1) << class.second);
        if (arena->second_bits[class.first] == 0)
            arena->first_bits &= ~(UINT64_C(1) << class.first);
    }
}

/* A free block that is large enough, from the smallest class that has one. */
static uint32_t large_enough(const struct weft_arena *arena, uint64_t bytes)
{
    struct size_class class = class_of(bytes, true);
    if (class.first >= WEFT_FIRST_LEVELS)
        return WEFT_NO_BLOCK;
    uint32_t second = arena->second_bits[class.first] & (~UINT32_C(0) << class.second);
    if (second == 0) {
        uint64_t first = arena->first_bits & (~UINT64_C(0) << (class.first + 1));
        if (first == 0)
            return WEFT_NO_BLOCK;
        class.first = (unsigned)__builtin_ctzll(first);
        second = arena->second_bits[class.first];
    }
    return arena->free_lists[class.first][__builtin_ctz(second)];
}

/* A block of the very class is often of the very size: the same shapes come each step. */
static uint32_t same_size(const struct weft_arena *arena, uint64_t bytes)
{
    struct size_class class = class_of(bytes, false);
    uint32_t index = arena->free_lists[class.first][class.second];
    for (int looks = 0; index && looks < 4; looks++, index = arena->blocks[index].next)
        if (arena->blocks[index].bytes >= bytes)
            return index;
    return WEFT_NO_BLOCK;
}

/* ---- tables ---- */

static struct weft_range reserve_table(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return (struct weft_range){base == MAP_FAILED ? NULL : base, bytes};
}

/* The first `bytes` of a table can be used; `usable` says how many could before. */
static bool open_table(struct weft_range table, size_t *usable, size_t bytes)
{
    if (bytes <= *usable)
        return true;
    size_t wanted = (bytes + TABLE_STEP - 1) / TABLE_STEP * TABLE_STEP;
    wanted = wanted < table.bytes ? wanted : table.bytes;
    if (bytes > wanted || mprotect(table.base, wanted, PROT_READ | PROT_WRITE) != 0)
        return false;
    *usable = wanted;
    return true;
}

static uint32_t new_block(struct weft_arena *arena)
{
    uint32_t index = arena->unused_blocks;
    if (index) {
        arena->unused_blocks = arena->blocks[index].next;
    } else {
        if (!open_table(arena->blocks_range, &arena->blocks_usable, (arena->blocks_made + 1) * sizeof *arena->blocks))
            return WEFT_NO_BLOCK;
        index = arena->blocks_made++;
    }
    memset(&arena->blocks[index], 0, sizeof *arena->blocks);
    return index;
}

static void drop_block(struct weft_arena *arena, uint32_t index)
{
    arena->blocks[index].bytes = 0;
    arena->blocks[index].next = arena->unused_blocks;
    arena->unused_blocks = index;
}

bool weft_arena_begin(struct weft_arena *arena, struct weft_range range)
{
    memset(arena, 0, sizeof *arena);
    size_t pages = range.bytes / WEFT_PAGE_SIZE;
    size_t most_blocks = pages + 2 < UINT32_MAX / 4 ? pages + 2 : UINT32_MAX / 4;
    arena->range = range;
    arena->blocks_range = reserve_table(most_blocks * sizeof *arena->blocks);
    arena->starts_range = reserve_table((pages + 1) * sizeof *arena->starts);
    if (arena->blocks_range.base == NULL || arena->starts_range.base == NULL)
        return false;
    arena->blocks = (struct weft_block *)(void *)arena->blocks_range.base;
    arena->starts = (uint32_t *)(void *)arena->starts_range.base;
    arena->blocks_made = 1;
    uint32_t all = new_block(arena);
    if (all == WEFT_NO_BLOCK)
        return false;
    arena->blocks[all].bytes = range.bytes / WEFT_GRAIN * WEFT_GRAIN;
    arena->blocks[all].is_free = true;
    arena->lowest = all;
    list(arena, all);
    return true;
}

/* ---- taking and giving ---- */

static void set_start(struct weft_arena *arena, uint32_t index)
{
    arena->starts[arena->blocks[index].offset / WEFT_PAGE_SIZE] = index;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Cut `index` after its first `bytes`; the rest is a block of its own, in no list. False if no descriptor is left. */
static bool cut(struct weft_arena *arena, uint32_t index, uint64_t bytes)
{
    uint32_t rest = new_block(arena);
    if (rest == WEFT_NO_BLOCK)
        return false;
    struct weft_block *block = &arena->blocks[index], *other = &arena->blocks[rest];
    *other = (struct weft_block){
        .offset = block->offset + bytes,
        .bytes = block->bytes - bytes,
        .before = index,
        .after = block->after,
        .dirty_from = larger(block->dirty_from, block->offset + bytes),
        .dirty_to = larger(block->dirty_to, block->offset + bytes),
        .is_free = true,
    };
    if (block->after)
        arena->blocks[block->after].before = rest;
    block->after = rest;
    block->bytes = bytes;
    block->dirty_from = smaller(block->dirty_from, other->offset);
    block->dirty_to = smaller(block->dirty_to, other->offset);
    return true;
}

static uint64_t up(uint64_t number, uint64_t multiple)
{
    return (number + multiple - 1) / multiple * multiple;
}

/* How far into this free block an aligned one can begin, so that what is left before it is no block or a full one. */
static uint64_t lead_of(const struct weft_arena *arena, uint32_t index, size_t alignment)
{
    uint64_t at = (uint64_t)(uintptr_t)arena->range.base + arena->blocks[index].offset;
    uint64_t lead = up(at, alignment) - at;
    while (lead > 0 && lead < WEFT_SMALLEST)
        lead += alignment;
    return lead;
}

static uint32_t fitting(const struct weft_arena *arena, uint64_t bytes, size_t alignment)
{
    uint32_t index = same_size(arena, bytes);
    if (index && lead_of(arena, index, alignment) + bytes <= arena->blocks[index].bytes)
        return index;
    if (alignment > WEFT_GRAIN)
        bytes += WEFT_SMALLEST + 2 * alignment;
    return large_enough(arena, bytes);
}

uint32_t weft_arena_take(struct weft_arena *arena, size_t wanted, size_t alignment, size_t end)
{
    if (wanted > arena->range.bytes || alignment > arena->range.bytes)
        return WEFT_NO_BLOCK;
    uint64_t bytes = up(wanted < WEFT_SMALLEST ? WEFT_SMALLEST : wanted, WEFT_GRAIN);
    alignment = alignment < WEFT_GRAIN ? WEFT_GRAIN : alignment;
    uint32_t index = fitting(arena, bytes, alignment);
    if (index == WEFT_NO_BLOCK)
        return WEFT_NO_BLOCK;
    uint64_t lead = lead_of(arena, index, alignment);
    uint64_t past = arena->blocks[index].offset + lead + bytes;
    if (past > end || !open_table(arena->starts_range, &arena->starts_usable,
                                  (past / WEFT_PAGE_SIZE + 1) * sizeof *arena->starts))
        return WEFT_NO_BLOCK;
    unlist(arena, index);
    if (lead) {
        if (!cut(arena, index, lead)) {
            list(arena, index);
            return WEFT_NO_BLOCK;
        }
        list(arena, index);
        index = arena->blocks[index].after;
    }
    /* A rest that is too small to be a block stays with this one. */
    if (arena->blocks[index].bytes - bytes >= WEFT_SMALLEST && cut(arena, index, bytes))
        list(arena, arena->blocks[index].after);
    struct weft_block *block = &arena->blocks[index];
    block->is_free = block->is_private = false;
    block->requested = wanted;
    block->previous = block->next = WEFT_NO_BLOCK;
    set_start(arena, index);
    return index;
}

/* Make one of two neighbours, the first of which lives on. */
static void join(struct weft_arena *arena, uint32_t first, uint32_t second)
{
    struct weft_block *block = &arena->blocks[first], *other = &arena->blocks[second];
    block->bytes += other->bytes;
    if (block->dirty_from == block->dirty_to) {
        block->dirty_from = other->dirty_from;
        block->dirty_to = other->dirty_to;
    } else if (other->dirty_from != other->dirty_to) {
        block->dirty_to = other->dirty_to;
    }
    block->after = other->after;
    if (other->after)
        arena->blocks[other->after].before = first;
    drop_block(arena, second);
}

uint32_t weft_arena_give(struct weft_arena *arena, uint32_t index)
{
    struct weft_block *block = &arena->blocks[index];
    arena->starts[block->offset / WEFT_PAGE_SIZE] = WEFT_NO_BLOCK;
    block->is_free = true;
    block->requested = 0;
    block->dirty_from = block->offset;
    block->dirty_to = block->offset + block->bytes;
    if (block->after && arena->blocks[block->after].is_free) {
        unlist(arena, block->after);
        join(arena, index, block->after);
    }
    if (block->before && arena->blocks[block->before].is_free) {
        uint32_t before = block->before;
        unlist(arena, before);
        join(arena, before, index);
        index = before;
    }
    list(arena, index);
    return index;
}

uint32_t weft_arena_find(const struct weft_arena *arena, const void *at)
{
    uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)arena->range.base);
    if (offset / WEFT_PAGE_SIZE >= arena->starts_usable / sizeof *arena->starts)
        return WEFT_NO_BLOCK;
    uint32_t index = arena->starts[offset / WEFT_PAGE_SIZE];
    return index && arena->blocks[index].offset == offset ? index : WEFT_NO_BLOCK;
}

void weft_arena_cleaned(struct weft_arena *arena, uint32_t index, uint64_t from)
{
    struct weft_block *block = &arena->blocks[index];
    uint64_t left = larger(smaller(from, block->dirty_to), block->dirty_from);
    arena->dirty -= block->dirty_to - left;
    block->dirty_to = left;
}

/* ---- for tests ---- */

const char *weft_arena_wrong(const struct weft_arena *arena)
{
    uint64_t offset = 0, listed = 0, in_lists = 0, dirty = 0;
    uint32_t before = WEFT_NO_BLOCK;
    for (uint32_t index = arena->lowest; index; before = index, index = arena->blocks[index].after) {
        const struct weft_block *block = &arena->blocks[index];
        if (block->offset != offset)
            return "blocks do not follow each other";
        if (block->before != before)
            return "the neighbour before is another";
        if (block->bytes < WEFT_SMALLEST || block->bytes % WEFT_GRAIN)
            return "a block of no size a block can have";
        if (block->is_free && before && arena->blocks[before].is_free)
            return "two free neighbours";
        bool is_clean = block->dirty_from == block->dirty_to;
        if (block->is_free && !is_clean && (block->dirty_from < offset || block->dirty_to > offset + block->bytes))
            return "dirty outside of itself";
        if (!block->is_free && weft_arena_find(arena, arena->range.base + offset) != index)
            return "a block that is not found";
        listed += block->is_free;
        dirty += block->is_free ? block->dirty_to - block->dirty_from : 0;
        offset += block->bytes;
    }
    if (offset != arena->range.bytes / WEFT_GRAIN * WEFT_GRAIN)
        return "blocks do not fill the range";
    if (dirty != arena->dirty)
        return "the dirty bytes do not add up";
    for (unsigned first = 0; first < WEFT_FIRST_LEVELS; first++)
        for (unsigned second = 0; second < WEFT_SECOND_LEVELS; second++) {
            bool is_marked = arena->second_bits[first] >> second & 1;
            if (is_marked != (arena->free_lists[first][second] != WEFT_NO_BLOCK))
                return "a mark without a list, or a list without a mark";
            for (uint32_t index = arena->free_lists[first][second]; index; index = arena->blocks[index].next) {
                struct size_class class = class_of(arena->blocks[index].bytes, false);
                if (!arena->blocks[index].is_free || class.first != first || class.second != second)
                    return "a block in a list it does not belong to";
                in_lists++;
            }
        }
    return listed == in_lists ? NULL : "free blocks that are in no list";
}
