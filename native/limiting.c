/* The limit: what is in use counts, what is free may be given back, what is over it goes to the next tier. */
#include "state.h"
#include "world.h"

#include <errno.h>

/* What requested bytes count as. A block's bytes beyond them stay untouched. */
uint64_t weft_charge(uint64_t requested)
{
    return weft_up(requested < WEFT_SMALLEST ? WEFT_SMALLEST : requested, WEFT_GRAIN);
}

/* Of a block in the next tier, the edges: they share their pages with neighbours. */
uint64_t weft_on_device(const struct weft_block *block)
{
    uint64_t all = weft_charge(block->requested), lead = weft_inner_from(block) - block->offset;
    if (!block->is_out)
        return all;
    uint64_t led = lead + weft_inner_bytes(block);
    return lead + (all > led ? all - led : 0);
}

uint64_t weft_in_tier(const struct weft_block *block)
{
    return weft_charge(block->requested) - weft_on_device(block);
}

/* Of this free block, give back the pages with dirty bytes from `from` on, but for those that a neighbour uses too. */
static void purge_block(uint32_t index, uint64_t from)
{
    const struct weft_block *block = &weft_memory.own.blocks[index];
    uint64_t first = weft_down(from), inner = weft_inner_from(block), past = inner + weft_inner_bytes(block);
    uint64_t last = weft_up(block->dirty_to, WEFT_PAGE_SIZE);
    first = first < inner ? inner : first;
    last = last < past ? last : past;
    if (last > first)
        (void)weft_memory.backend->decommit(weft_memory.own.range.base + first, last - first);
    weft_arena_cleaned(&weft_memory.own, index, from);
}

/* Give the pages of all free blocks back. */
void weft_purge(void)
{
    for (uint32_t index = weft_memory.own.lowest; index && weft_memory.own.dirty; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        if (block->is_free && block->dirty_from != block->dirty_to)
            purge_block(index, block->dirty_from);
    }
    weft_memory.least_cached = 0;
}

static uint32_t dirtiest(void)
{
    uint32_t found = WEFT_NO_BLOCK;
    uint64_t most = 0;
    for (uint32_t index = weft_memory.own.lowest; index; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        uint64_t dirty = block->is_free ? block->dirty_to - block->dirty_from : 0;
        if (dirty > most) {
            most = dirty;
            found = index;
        }
    }
    return found;
}

/* No more than is needed: what is given back has to be got again. It is the end of the largest free block, because
 * blocks are cut from its beginning. */
void weft_trim(void)
{
    uint64_t limit = weft_memory.limit;
    while (limit && weft_memory.own.dirty && weft_memory.device + weft_memory.own.dirty > limit) {
        uint64_t excess = weft_memory.device + weft_memory.own.dirty - limit;
        uint32_t index = dirtiest();
        if (index == WEFT_NO_BLOCK)
            return;
        const struct weft_block *block = &weft_memory.own.blocks[index];
        uint64_t most = block->dirty_to - block->dirty_from;
        purge_block(index, excess < most ? weft_down(block->dirty_to - excess) : block->dirty_from);
    }
    if (weft_memory.own.dirty < weft_memory.least_cached)
        weft_memory.least_cached = weft_memory.own.dirty;
}

static int move_block(struct weft_block *block, bool is_out)
{
    uint64_t from = weft_inner_from(block), bytes = weft_inner_bytes(block);
    uint8_t *at = weft_memory.own.range.base + from;
    int error = is_out ? weft_memory.backend->move_out(weft_memory.tier, at, from, bytes)
                       : weft_memory.backend->move_in(weft_memory.tier, at, from, bytes);
    if (error)
        return error;
    weft_memory.device -= weft_on_device(block);
    weft_memory.overflow -= weft_in_tier(block);
    block->is_out = is_out;
    weft_memory.device += weft_on_device(block);
    weft_memory.overflow += weft_in_tier(block);
    return 0;
}

/* From this block on, the first in the next tier for which there is room on the device. */
static uint32_t next_to_return(uint32_t index)
{
    uint64_t room = weft_memory.limit ? weft_memory.limit : UINT64_MAX;
    uint64_t taken = weft_memory.device + weft_most(&weft_memory.ephemeral);
    for (; index; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        bool is_meant = !block->is_free && block->is_out && !block->is_kept;
        if (is_meant && taken <= room && weft_inner_bytes(block) <= room - taken)
            return index;
    }
    return WEFT_NO_BLOCK;
}

/* The largest blocks first, until what is on the device is within the limit. */
static int move_largest_out(void)
{
    for (uint64_t least = UINT64_C(1) << 40; least >= WEFT_PAGE_SIZE; least /= 2)
        for (uint32_t index = weft_memory.own.lowest; index; index = weft_memory.own.blocks[index].after) {
            struct weft_block *block = &weft_memory.own.blocks[index];
            if (weft_memory.device <= weft_memory.limit)
                return 0;
            bool is_meant = !block->is_free && !block->is_out && weft_inner_bytes(block) >= least;
            int error = is_meant ? move_block(block, true) : 0;
            if (error)
                return error;
        }
    return 0;
}

static int move_back(uint32_t index)
{
    int error = 0;
    for (; index && error == 0; index = next_to_return(weft_memory.own.blocks[index].after))
        error = move_block(&weft_memory.own.blocks[index], false);
    return error;
}

int weft_obey(void)
{
    weft_trim();
    bool has_place = !weft_memory.is_swapped && !weft_memory.is_child && weft_memory.tier >= 0;
    bool is_over = weft_memory.limit && weft_memory.device > weft_memory.limit && !weft_memory.is_strict;
    uint32_t back = weft_memory.overflow && !is_over ? next_to_return(weft_memory.own.lowest) : WEFT_NO_BLOCK;
    if (!has_place || (!is_over && !back))
        return 0;
    if (is_over)
        weft_drop_kept(UINT64_MAX); /* what is to be moved may need the room */
    if (!weft_world_stop())
        return EBUSY;
    int error = is_over ? move_largest_out() : move_back(back);
    weft_world_go();
    return error;
}
