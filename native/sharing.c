/* The lane: one range of pages that several processes use, one after the other. */
#include "memory.h"
#include "state.h"
#include "world.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* ---- joining and leaving ---- */

static int begin_lane(uint64_t capacity)
{
    size_t most = WEFT_FEWEST_ADDRESSES;
    while (most < capacity && most < WEFT_MOST_ADDRESSES)
        most *= 2;
    if (weft_memory.lane.range.base == NULL && !weft_begin_arena(&weft_memory.lane, most))
        return ENOMEM;
    size_t pages = weft_memory.lane.range.bytes / WEFT_PAGE_SIZE;
    void *table = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    weft_memory.lane_private = table == MAP_FAILED ? NULL : table;
    return weft_memory.lane_private ? 0 : ENOMEM;
}

static void set_size(uint64_t reserved, uint64_t capacity)
{
    uint64_t most = weft_memory.lane.range.bytes;
    weft_memory.lane_reserved = weft_down(reserved < most ? reserved : most);
    weft_memory.lane_capacity = weft_down(capacity < most ? capacity : most);
}

static int map_lane(int shared, uint64_t from, uint64_t past)
{
    uint8_t *at = weft_memory.lane.range.base + from;
    return shared < 0 ? weft_memory.backend->unmap(at, past - from)
                      : weft_memory.backend->share_map(shared, at, from, past - from);
}

/* The lane's memory, or with a negative file nothing, wherever no survivor is: what we hold of a lane that we were in
 * before is ours alone, and stays where it is. */
static int map_around_survivors(int shared)
{
    uint64_t end = weft_memory.lane.range.bytes;
    int error = 0;
    for (uint64_t from = 0; from < end && error == 0; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (past < weft_memory.private_top && !weft_memory.lane_private[past / WEFT_PAGE_SIZE])
            past += WEFT_PAGE_SIZE;
        if (past >= weft_memory.private_top)
            past = end;
        if (past > from)
            error = map_lane(shared, from, past);
        from = past;
    }
    return error;
}

int weft_memory_use_lane(int shared, uint64_t capacity, uint64_t reserved)
{
    weft_lock();
    int error = weft_memory.lane_private ? 0 : begin_lane(capacity);
    if (error == 0 && (error = map_around_survivors(shared)) != 0)
        (void)map_around_survivors(-1);
    if (error == 0) {
        weft_memory.shared = shared;
        set_size(reserved, capacity);
    }
    weft_unlock();
    return error;
}

bool weft_memory_leave_lane(void)
{
    weft_lock();
    bool can_leave = weft_memory.shared < 0 || !weft_memory.has_turn || weft_clear_lane(false);
    if (can_leave && weft_memory.shared >= 0) {
        weft_age(&weft_memory.young_lane, &weft_memory.lane); /* private by now, and as good as any other block */
        weft_memory.has_turn = false;
        weft_memory.shared = -1;
        (void)map_around_survivors(-1); /* the lane's memory must not stay because of us */
        weft_give_dead_pages();
    }
    weft_unlock();
    return can_leave;
}

/* ---- survivors ---- */

/* Put private pages in the place of these, those that are not private yet. */
static bool make_private(uint64_t from, uint64_t to)
{
    for (; from < to; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (past < to && !weft_memory.lane_private[past / WEFT_PAGE_SIZE])
            past += WEFT_PAGE_SIZE;
        if (past == from)
            continue;
#ifndef WEFT_NO_COPY_OUT
        uint8_t *at = weft_memory.lane.range.base + from;
        if (weft_memory.backend->make_private(weft_memory.shared, at, from, past - from) != 0)
            return false;
#endif
        memset(weft_memory.lane_private + from / WEFT_PAGE_SIZE, 1, (past - from) / WEFT_PAGE_SIZE);
        weft_memory.private_pages += (past - from) / WEFT_PAGE_SIZE;
        from = past;
    }
    weft_memory.private_top = weft_memory.private_top < to ? to : weft_memory.private_top;
    return true;
}

static bool copy_out(struct weft_block *block)
{
    if (block->is_private)
        return true;
    if (!make_private(weft_down(block->offset), weft_up(block->offset + block->bytes, WEFT_PAGE_SIZE)))
        return false;
    block->is_private = true;
    weft_memory.lane_used -= block->bytes;
    weft_memory.copied_out++;
    weft_memory.copied_out_bytes += block->bytes;
    return true;
}

static bool copy_all_out(void)
{
    bool is_stopped = weft_world_stop(); /* if it does not, only a thread that writes just now would lose */
    bool is_done = true;
    for (uint32_t index = weft_memory.young_lane; index && is_done; index = weft_memory.lane.blocks[index].next)
        is_done = copy_out(&weft_memory.lane.blocks[index]);
    if (is_stopped)
        weft_world_go();
    return is_done;
}

/* Private pages whose survivors are dead go back to the lane; unused, if we are in none. */
static void share_again(uint64_t from, uint64_t to)
{
    for (; from < to; from += WEFT_PAGE_SIZE) {
        uint64_t past = from;
        while (past < to && weft_memory.lane_private[past / WEFT_PAGE_SIZE])
            past += WEFT_PAGE_SIZE;
        if (past == from)
            continue;
        if (map_lane(weft_memory.shared, from, past) == 0) {
            memset(weft_memory.lane_private + from / WEFT_PAGE_SIZE, 0, (past - from) / WEFT_PAGE_SIZE);
            weft_memory.private_pages -= (past - from) / WEFT_PAGE_SIZE;
        } /* else they stay private, which costs memory and nothing else */
        from = past;
    }
}

static void share_all_again(void)
{
    for (uint32_t index = weft_memory.lane.lowest; index; index = weft_memory.lane.blocks[index].after) {
        const struct weft_block *block = &weft_memory.lane.blocks[index];
        uint64_t to = weft_inner_from(block) + weft_inner_bytes(block);
        if (block->is_free)
            share_again(weft_inner_from(block), to < weft_memory.private_top ? to : weft_memory.private_top);
    }
}

void weft_give_dead_pages(void)
{
    if (weft_memory.shared < 0 && weft_memory.private_pages)
        share_all_again();
}

static void poison_lane(void)
{
    uint64_t most = weft_memory.lane.range.bytes, reserved = weft_memory.lane_reserved;
    for (uint64_t page = 0; page < (reserved < most ? reserved : most) / WEFT_PAGE_SIZE; page++)
        if (!weft_memory.lane_private[page])
            memset(weft_memory.lane.range.base + page * WEFT_PAGE_SIZE, 0xff, WEFT_PAGE_SIZE);
}

bool weft_clear_lane(bool poison)
{
    if (weft_memory.young_lane && !copy_all_out())
        return false;
    if (weft_memory.private_pages)
        share_all_again();
    if (poison)
        poison_lane();
    return true;
}

/* ---- turns ---- */

void weft_memory_turn_begins(uint64_t reserved, uint64_t capacity)
{
    weft_lock();
    set_size(reserved, capacity);
    weft_memory.has_turn = weft_memory.shared >= 0;
    weft_unlock();
}

bool weft_memory_lane_is_empty(void)
{
    return weft_memory.lane_used == 0; /* a glance without the lock: turn_ends looks again */
}

bool weft_memory_turn_ends(uint64_t *reserved, bool poison)
{
    weft_lock();
    bool ends = weft_memory.has_turn && weft_memory.lane_used == 0 && weft_clear_lane(poison);
    if (ends) {
        weft_memory.has_turn = false;
        *reserved = weft_memory.lane_reserved;
    }
    weft_unlock();
    return ends;
}
