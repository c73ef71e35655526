/* A forked child has the memory as it was: what it would share with us, it gets a copy of. */
#include "memory.h"
#include "state.h"
#include "world.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*with_pages)(uint8_t *at, size_t bytes, size_t *place);

static void each_in_lane(with_pages act, size_t *place)
{
    for (uint32_t index = weft_memory.lane.lowest; index; index = weft_memory.lane.blocks[index].after) {
        const struct weft_block *block = &weft_memory.lane.blocks[index];
        uint64_t to = weft_up(block->offset + block->bytes, WEFT_PAGE_SIZE);
        for (uint64_t from = weft_down(block->offset); from < to && !block->is_free; from += WEFT_PAGE_SIZE) {
            uint64_t past = from;
            while (past < to && !weft_memory.lane_private[past / WEFT_PAGE_SIZE])
                past += WEFT_PAGE_SIZE;
            if (past > from)
                act(weft_memory.lane.range.base + from, past - from, place);
            from = past;
        }
    }
}

static void each_over_the_limit(with_pages act, size_t *place)
{
    for (uint32_t index = weft_memory.own.lowest; index; index = weft_memory.own.blocks[index].after) {
        const struct weft_block *block = &weft_memory.own.blocks[index];
        if (!block->is_free && block->is_out && !block->is_kept)
            act(weft_memory.own.range.base + weft_inner_from(block), weft_inner_bytes(block), place);
    }
}

static void each_swapped_out(with_pages act, size_t *place)
{
    for (size_t page = 0, past; page < weft_memory.own_moved_pages; page = past + 1) {
        for (past = page; past < weft_memory.own_moved_pages && weft_memory.own_moved[past];)
            past++;
        if (past > page)
            act(weft_memory.own.range.base + page * WEFT_PAGE_SIZE, (past - page) * WEFT_PAGE_SIZE, place);
    }
}

/* Every run of pages that has blocks in use and that a child would share with us, in the same order each time. */
static void each_shared(with_pages act)
{
    size_t place = 0;
    if (weft_memory.shared >= 0)
        each_in_lane(act, &place);
    if (weft_memory.overflow)
        each_over_the_limit(act, &place);
    if (weft_memory.is_swapped)
        each_swapped_out(act, &place);
}

static void measure(uint8_t *at, size_t bytes, size_t *place)
{
    (void)at;
    weft_memory.shadow.bytes = *place += bytes;
}

static void copy_to_shadow(uint8_t *at, size_t bytes, size_t *place)
{
    memcpy(weft_memory.shadow.base + *place, at, bytes);
    *place += bytes;
}

/* Better to end where it is touched than to compute with what is another's. */
static void deny(uint8_t *at, size_t bytes, size_t *place)
{
    (void)place;
    (void)weft_memory.backend->unmap(at, bytes);
}

static void take_from_shadow(uint8_t *at, size_t bytes, size_t *place)
{
    uint8_t *copy = weft_memory.shadow.base + *place;
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        deny(at, bytes, place);
    *place += bytes;
}

void weft_memory_before_fork(void)
{
    weft_lock();
    weft_is_forking = true;
    weft_memory.shadow = (struct weft_range){0};
    each_shared(measure);
    if (weft_memory.shadow.bytes == 0)
        return;
    void *base = mmap(NULL, weft_memory.shadow.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return; /* with bytes and no base: the child must not touch them */
    weft_memory.shadow.base = base;
    each_shared(copy_to_shadow);
}

void weft_memory_after_fork_in_parent(void)
{
    if (weft_memory.shadow.base)
        munmap(weft_memory.shadow.base, weft_memory.shadow.bytes);
    weft_is_forking = false;
    while (weft_memory.late_count)
        weft_give(weft_memory.late[--weft_memory.late_count]);
    weft_unlock();
}

void weft_memory_after_fork_in_child(void)
{
    if (weft_memory.shadow.bytes)
        each_shared(weft_memory.shadow.base ? take_from_shadow : deny);
    weft_memory.is_child = true;
    weft_memory.has_turn = weft_memory.is_swapped = false;
    weft_memory.late_count = 0;
    weft_memory.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    weft_is_forking = false;
    weft_world_after_fork();
    if (weft_memory.tier >= 0)
        close(weft_memory.tier);
    weft_memory.tier = weft_memory.shared = -1;
}
