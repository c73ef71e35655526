/* A pause that takes the memory away: all pages in use go to the next tier, and come back. */
#include "memory.h"
#include "state.h"
#include "world.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int weft_memory_drop_caches(void)
{
    weft_lock();
    weft_purge();
    weft_drop_kept(UINT64_MAX);
    weft_unlock();
    return 0;
}

static bool is_moved(uint64_t offset)
{
    uint64_t page = offset / WEFT_PAGE_SIZE;
    return page < weft_memory.own_moved_pages && weft_memory.own_moved[page];
}

static void mark(uint64_t from, uint64_t to, bool moved)
{
    memset(weft_memory.own_moved + from / WEFT_PAGE_SIZE, moved, (to - from) / WEFT_PAGE_SIZE);
}

static bool begin_marks(void)
{
    size_t pages = weft_memory.own_open / WEFT_PAGE_SIZE + 1;
    void *table = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return false;
    weft_memory.own_moved = table;
    weft_memory.own_moved_pages = pages;
    return true;
}

static void end_marks(void)
{
    munmap(weft_memory.own_moved, weft_memory.own_moved_pages);
    weft_memory.own_moved_pages = 0;
    weft_memory.is_swapped = false;
}

/* Move the pages from `from` to `to` out, those that are not there yet. */
static int swap_pages(uint64_t from, uint64_t to)
{
    for (int error; from < to; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (past < to && !is_moved(past))
            past += WEFT_PAGE_SIZE;
        if (past == from)
            continue;
        uint8_t *at = weft_memory.own.range.base + from;
        if ((error = weft_memory.backend->move_out(weft_memory.tier, at, from, past - from)) != 0)
            return error;
        mark(from, past, true);
        from = past;
    }
    return 0;
}

/* All pages of blocks in use, those of neighbours together. */
static int swap_own_out(void)
{
    uint64_t from = 0, to = 0;
    int error = 0;
    for (uint32_t index = weft_memory.own.lowest; index && !error; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        if (block->is_free)
            continue;
        uint64_t first = weft_down(block->offset), last = weft_up(block->offset + block->bytes, WEFT_PAGE_SIZE);
        if (first > to || block->is_out) {
            error = swap_pages(from, to);
            from = to = first;
        }
        if (block->is_out && !error) { /* only its edges are here */
            error = swap_pages(first, weft_inner_from(block));
            from = to = weft_inner_from(block) + weft_inner_bytes(block);
        }
        to = last;
    }
    return error ? error : swap_pages(from, to);
}

static int swap_own_in(void)
{
    uint64_t end = weft_memory.own_moved_pages * WEFT_PAGE_SIZE;
    for (uint64_t from = 0; from < end; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (is_moved(past))
            past += WEFT_PAGE_SIZE;
        if (past == from)
            continue;
        uint8_t *at = weft_memory.own.range.base + from;
        int error = weft_memory.backend->move_in(weft_memory.tier, at, from, past - from);
        if (error)
            return error;
        mark(from, past, false);
        from = past;
    }
    end_marks();
    return 0;
}

int weft_memory_swap_in(void)
{
    weft_lock();
    int error = 0;
    if (weft_memory.is_swapped) {
        error = EBUSY;
        if (weft_world_stop()) {
            error = swap_own_in();
            weft_world_go();
        }
    }
    weft_unlock();
    return error;
}

/* What was over the limit was in the next tier before; its pages are not to be kept here either. */
static void let_overflow_go(void)
{
    for (uint32_t index = weft_memory.own.lowest; index; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        if (!block->is_free && block->is_out)
            (void)weft_memory.backend->decommit(weft_memory.own.range.base + weft_inner_from(block),
                                                weft_inner_bytes(block));
    }
}

static int swap_all_out(void)
{
    int left = weft_memory.is_swapped ? swap_own_in() : 0; /* of an earlier time */
    if (left)
        return left;
    weft_purge();
    weft_drop_kept(UINT64_MAX);
    if (!begin_marks())
        return ENOMEM;
    weft_memory.is_swapped = true;
    int error = swap_own_out();
    if (error)
        (void)swap_own_in(); /* what does not come back can be used where it is, and comes later */
    else
        let_overflow_go();
    return error;
}

int weft_memory_swap_out(void)
{
    weft_lock();
    int error = ENOENT;
    if (weft_memory.tier >= 0) {
        error = EBUSY;
        if (weft_world_stop()) {
            error = swap_all_out();
            weft_world_go();
        }
    }
    int tier = weft_memory.tier;
    weft_unlock();
    if (error == 0)
        (void)weft_memory.backend->settle(tier); /* slow, and what is out is out; should it fail, memory is freed later */
    return error;
}

/* Of pages of this free block, those that were swapped out are not needed any more. */
void weft_forget_swapped(const struct weft_block *block, uint64_t from, uint64_t to)
{
    from = from < weft_inner_from(block) ? weft_inner_from(block) : from;
    to = to < weft_inner_from(block) + weft_inner_bytes(block) ? to : weft_inner_from(block) + weft_inner_bytes(block);
    for (; from < to; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (past < to && is_moved(past))
            past += WEFT_PAGE_SIZE;
        if (past == from)
            continue;
        if (weft_memory.backend->discard(weft_memory.tier, weft_memory.own.range.base + from, from, past - from) == 0)
            mark(from, past, false);
        from = past;
    }
}
