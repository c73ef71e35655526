#include "memory.h"

#include "state.h"
#include "weft_native.h"
#include "world.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COMMIT_STEP ((size_t)32 << 20)
#define LANE_STEP ((size_t)256 << 10)     /* the lane grows and shrinks by multiples of it */
#define WINDOW 16                         /* steps over which peaks are remembered, and caches proved useless */
#define UNSTEPPED_CACHE ((uint64_t)256 << 20) /* without steps nothing proves caches useless: keep no more than this */
#define LONGEST_GAP 1024 /* steps: what is given back has to be got again, so it is done less and less often */
#define WORTH_PURGING ((uint64_t)1 << 20)

#define SURVIVED 8 /* for so many steps a kind that outlived one is taken to do so again */

struct weft_memory weft_memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .tier = -1, .shared = -1};

_Thread_local bool weft_is_forking;

void weft_lock(void)
{
    if (!weft_is_forking)
        pthread_mutex_lock(&weft_memory.lock);
}

void weft_unlock(void)
{
    if (!weft_is_forking)
        pthread_mutex_unlock(&weft_memory.lock);
}

/* ---- kinds: which allocations of a step outlive it ---- */

/* 16 classes to each power of two. */
uint32_t weft_class_of(size_t bytes)
{
    uint64_t grains = bytes / WEFT_GRAIN + 16;
    unsigned top = 63u - (unsigned)__builtin_clzll(grains);
    return ((top - 4) * 16 + ((uint32_t)(grains >> (top - 4)) & 15)) % WEFT_CLASSES;
}

/* The n-th of its class in this step. Two kinds that fall together cost time at worst. */
static uint32_t kind_of(size_t bytes)
{
    uint32_t class = weft_class_of(bytes), step = (uint32_t)weft_memory.steps;
    if (weft_memory.seen_step[class] != step) {
        weft_memory.seen_step[class] = step;
        weft_memory.seen_class[class] = 0;
    }
    return (class * 2654435761u + weft_memory.seen_class[class]++ * 40503u) % WEFT_KINDS;
}

static void make_young(struct weft_arena *arena, uint32_t *head, uint32_t index)
{
    struct weft_block *block = &arena->blocks[index];
    block->is_young = true;
    block->next = *head;
    if (*head)
        arena->blocks[*head].previous = index;
    *head = index;
}

static void forget_young(struct weft_arena *arena, uint32_t *head, uint32_t index)
{
    struct weft_block *block = &arena->blocks[index];
    if (block->next)
        arena->blocks[block->next].previous = block->previous;
    if (block->previous)
        arena->blocks[block->previous].next = block->next;
    else
        *head = block->next;
    block->is_young = false;
}

/* ---- begin ---- */

bool weft_begin_arena(struct weft_arena *arena, size_t most)
{
    struct weft_range range = {0};
    for (size_t bytes = most; range.base == NULL && bytes >= WEFT_FEWEST_ADDRESSES; bytes /= 2)
        range = weft_memory.backend->reserve(bytes);
    return range.base != NULL && weft_arena_begin(arena, range);
}

int weft_memory_begin(const struct weft_backend *backend, int tier, uint64_t limit, bool is_strict)
{
    weft_memory.backend = backend;
    weft_memory.tier = tier;
    weft_memory.limit = limit;
    weft_memory.is_strict = is_strict;
    if (!weft_begin_arena(&weft_memory.own, WEFT_MOST_ADDRESSES))
        return ENOMEM;
    weft_world_begin();
    weft_memory.is_serving = true;
    return 0;
}

/* ---- taking ---- */

static void account(struct weft_arena *arena, struct weft_block *block, size_t bytes)
{
    weft_memory.requested += bytes;
    weft_memory.device += weft_on_device(block);
    weft_memory.overflow += weft_in_tier(block);
    weft_memory.lane_used += arena == &weft_memory.lane ? block->bytes : 0;
    if (weft_memory.device > weft_memory.peak)
        weft_memory.peak = weft_memory.device;
    if (weft_memory.requested > weft_memory.step_peak)
        weft_memory.step_peak = weft_memory.requested;
}

static bool fits(size_t bytes)
{
    return weft_memory.limit == 0 || weft_memory.device + weft_charge(bytes) <= weft_memory.limit;
}

static uint32_t take_in_lane(size_t bytes, size_t alignment)
{
    uint32_t index = weft_arena_take(&weft_memory.lane, bytes, alignment, weft_memory.lane_capacity);
    if (index == WEFT_NO_BLOCK)
        return index;
    const struct weft_block *block = &weft_memory.lane.blocks[index];
    uint64_t past = block->offset + block->bytes, wanted = weft_up(past, LANE_STEP);
    wanted = wanted < weft_memory.lane_capacity ? wanted : weft_memory.lane_capacity;
    if (past > weft_memory.lane_reserved) {
        if (weft_memory.backend->share_grow(weft_memory.shared, weft_memory.lane_reserved, wanted) != 0) {
            weft_arena_give(&weft_memory.lane, index);
            return WEFT_NO_BLOCK;
        }
        weft_memory.lane_reserved = wanted;
    }
    if (past > weft_memory.lane_top)
        weft_memory.lane_top = past;
    return index;
}

uint32_t weft_take_own(size_t bytes, size_t alignment)
{
    uint32_t index = weft_arena_take(&weft_memory.own, bytes, alignment, weft_memory.own.range.bytes);
    if (index == WEFT_NO_BLOCK)
        return index;
    uint64_t past = weft_memory.own.blocks[index].offset + weft_memory.own.blocks[index].bytes;
    if (past > weft_memory.own_open) {
        uint64_t wanted = weft_up(past, COMMIT_STEP);
        wanted = wanted < weft_memory.own.range.bytes ? wanted : weft_memory.own.range.bytes;
        if (weft_memory.backend->commit(weft_memory.own.range.base + weft_memory.own_open, wanted - weft_memory.own_open) != 0) {
            weft_arena_give(&weft_memory.own, index);
            return WEFT_NO_BLOCK;
        }
        weft_memory.own_open = wanted;
    }
    return index;
}

static void *take(size_t bytes, size_t alignment, bool may_use_lane)
{
    struct weft_arena *arena = &weft_memory.own;
    uint32_t index = WEFT_NO_BLOCK, kind = 0;
    bool is_lasting = true;
    may_use_lane = may_use_lane && !weft_is_forking;
    if (may_use_lane && weft_memory.steps) {
        kind = kind_of(bytes);
        is_lasting = weft_memory.survives[kind] > 0;
    }
    if (!is_lasting && weft_memory.has_turn && fits(bytes)) {
        index = take_in_lane(bytes, alignment);
        arena = index ? &weft_memory.lane : arena;
    }
    if (index == WEFT_NO_BLOCK) {
        if (fits(bytes) || weft_is_forking) /* what the child is to see apart from us is settled by then */
            index = weft_take_own(bytes, alignment);
        else if (weft_memory.tier >= 0 && !weft_memory.is_strict)
            index = weft_take_out(bytes, alignment);
    }
    if (index == WEFT_NO_BLOCK)
        return NULL;
    struct weft_block *block = &arena->blocks[index];
    block->kind = kind;
    block->is_lasting = is_lasting;
    account(arena, block, bytes);
    weft_trim();
    if (may_use_lane && weft_memory.steps)
        make_young(arena, arena == &weft_memory.lane ? &weft_memory.young_lane : &weft_memory.young_own, index);
    if (weft_memory.own.dirty < weft_memory.least_cached)
        weft_memory.least_cached = weft_memory.own.dirty;
    weft_memory.allocations++;
    return arena->range.base + block->offset;
}

void *weft_memory_take(size_t bytes, size_t alignment, bool may_use_lane)
{
    weft_lock();
    bool can_be = weft_memory.is_serving && !weft_memory.is_child && bytes <= weft_memory.own.range.bytes;
    void *at = can_be ? take(bytes, alignment, may_use_lane) : NULL;
    weft_unlock();
    return at;
}

bool weft_memory_overflows(void)
{
    return weft_memory.tier >= 0 && !weft_memory.is_strict;
}

/* ---- giving ---- */

static struct weft_arena *arena_of(const void *at)
{
    return weft_arena_has(&weft_memory.own, at) ? &weft_memory.own : &weft_memory.lane;
}

bool weft_memory_has(const void *at)
{
    /* A child has a hole where the lane was (MADV_DONTFORK): what libc maps there is libc's. */
    if (weft_memory.is_child && weft_arena_has(&weft_memory.lane, at))
        return weft_arena_find(&weft_memory.lane, at) != WEFT_NO_BLOCK;
    return weft_arena_has(&weft_memory.own, at) || weft_arena_has(&weft_memory.lane, at);
}

size_t weft_memory_size(const void *at)
{
    weft_lock();
    const struct weft_arena *arena = arena_of(at);
    uint32_t index = weft_arena_find(arena, at);
    size_t bytes = index ? arena->blocks[index].requested : 0;
    weft_unlock();
    return bytes;
}

void weft_give(const void *at)
{
    struct weft_arena *arena = arena_of(at);
    uint32_t index = weft_arena_find(arena, at);
    if (index == WEFT_NO_BLOCK || arena->blocks[index].is_kept)
        return; /* not the address of a block in use: a bug of the script, which libc would abort for */
    struct weft_block *block = &arena->blocks[index];
    weft_memory.requested -= block->requested;
    weft_memory.device -= weft_on_device(block);
    weft_memory.overflow -= weft_in_tier(block);
    weft_memory.lane_used -= arena == &weft_memory.lane && !block->is_private ? block->bytes : 0;
    if (block->is_young) {
        forget_young(arena, arena == &weft_memory.lane ? &weft_memory.young_lane : &weft_memory.young_own, index);
        if (block->is_lasting && weft_memory.survives[block->kind])
            weft_memory.survives[block->kind]--;
    }
    if (block->is_out && weft_keep(index))
        return;
    if (block->is_out) {
        uint64_t inner = weft_inner_from(block);
        (void)weft_memory.backend->discard(weft_memory.tier, arena->range.base + inner, inner, weft_inner_bytes(block));
        block->is_out = false;
    }
    uint64_t from = weft_down(block->offset), to = weft_up(block->offset + block->bytes, WEFT_PAGE_SIZE);
    index = weft_arena_give(arena, index);
    if (weft_memory.is_swapped && arena == &weft_memory.own)
        weft_forget_swapped(&arena->blocks[index], from, to);
    if (weft_memory.steps == 0 && weft_memory.own.dirty > UNSTEPPED_CACHE + weft_memory.device / 2)
        weft_purge();
}

void weft_memory_give(void *at)
{
    weft_lock();
    if (weft_is_forking && weft_memory.late_count < sizeof weft_memory.late / sizeof *weft_memory.late)
        weft_memory.late[weft_memory.late_count++] = at; /* perhaps in the child already, where it is the parent's */
    else if (!weft_is_forking && !weft_memory.is_child) /* a child's pages are its parent's: nothing would be gained */
        weft_give(at);
    weft_unlock();
}

/* ---- the boundary ---- */

/* Nothing is young any more. What is still in use has survived. */
void weft_age(uint32_t *young, struct weft_arena *arena)
{
    while (*young) {
        struct weft_block *block = &arena->blocks[*young];
        *young = block->next;
        weft_memory.survives[block->kind] = SURVIVED;
        block->is_young = false;
        block->previous = block->next = WEFT_NO_BLOCK;
    }
}

static void end_window(void)
{
    weft_memory.ephemeral = (struct weft_peak){0, weft_memory.ephemeral.now};
    weft_memory.lane_needs = (struct weft_peak){0, weft_memory.lane_needs.now};
    bool is_time = weft_memory.steps >= weft_memory.purged_at + weft_memory.purge_gap;
    if (is_time && weft_memory.least_cached > WORTH_PURGING + weft_memory.device / 32) {
        weft_purge();
        weft_memory.purged_at = weft_memory.steps;
        weft_memory.purge_gap = weft_memory.purge_gap < LONGEST_GAP ? 2 * weft_memory.purge_gap + WINDOW : LONGEST_GAP;
    }
    weft_memory.least_cached = weft_memory.own.dirty;
    weft_drop_kept(weft_memory.steps > WINDOW ? weft_memory.steps - WINDOW : 0);
}

struct weft_boundary weft_memory_boundary(uint64_t limit, bool poison)
{
    weft_lock();
    bool is_lane_clear = !weft_memory.has_turn || weft_clear_lane(poison);
    if (is_lane_clear) { /* else its survivors are tried again at the next boundary, and the turn is kept until then */
        weft_memory.has_turn = false;
        weft_age(&weft_memory.young_lane, &weft_memory.lane);
    }
    weft_age(&weft_memory.young_own, &weft_memory.own);
    weft_give_dead_pages();

    weft_memory.persistent = weft_memory.requested;
    if (weft_memory.steps) /* what came before the first step is no step's */
        weft_note(&weft_memory.ephemeral, weft_memory.step_peak - weft_memory.persistent);
    weft_memory.step_peak = weft_memory.requested;
    weft_note(&weft_memory.lane_needs, weft_memory.lane_top);
    weft_memory.lane_top = 0;
    weft_memory.steps++;
    if (weft_memory.steps == 1 || weft_memory.steps % WINDOW == 0)
        end_window();
    if (weft_memory.disobeyed == 0 || weft_memory.limit != limit || weft_memory.steps % WINDOW == 0) {
        weft_memory.limit = limit;
        weft_memory.disobeyed = weft_obey();
    }
    struct weft_boundary seen = {
        .persistent = weft_memory.persistent,
        .ephemeral = weft_most(&weft_memory.ephemeral),
        .overflow = weft_memory.overflow,
        .peak = weft_memory.peak,
        .copied_out = weft_memory.copied_out_bytes,
        .lane_needs = weft_most(&weft_memory.lane_needs),
        .lane_reserved = weft_memory.lane_reserved,
        .is_lane_clear = is_lane_clear,
        .disobeyed = weft_memory.disobeyed,
    };
    weft_unlock();
    return seen;
}

void weft_memory_allow(uint64_t limit)
{
    weft_lock();
    if (weft_memory.limit && limit > weft_memory.limit) {
        weft_memory.limit = limit;
        weft_memory.disobeyed = 0; /* what is over it may come back at the next boundary */
    }
    weft_unlock();
}

uint64_t weft_memory_overflow(void)
{
    return weft_memory.overflow;
}

uint64_t weft_memory_step_needs(void)
{
    uint64_t most = weft_memory.step_peak, persistent = weft_memory.persistent;
    return most > persistent ? most - persistent : 0;
}

/* Bytes of our own range that have pages, used or not. */
static uint64_t resident(void)
{
    unsigned char present[1024];
    uint64_t bytes = 0;
    for (size_t from = 0; from < weft_memory.own_open; from += sizeof present * WEFT_PAGE_SIZE) {
        size_t pages = (weft_memory.own_open - from) / WEFT_PAGE_SIZE;
        pages = pages < sizeof present ? pages : sizeof present;
        if (mincore(weft_memory.own.range.base + from, pages * WEFT_PAGE_SIZE, present) != 0)
            continue;
        for (size_t page = 0; page < pages; page++)
            bytes += present[page] & 1 ? WEFT_PAGE_SIZE : 0;
    }
    return bytes;
}

void weft_memory_look(struct weft_native_state *state)
{
    weft_lock();
    state->is_serving = weft_memory.is_serving && !weft_memory.is_child;
    state->is_member = weft_memory.shared >= 0;
    state->limit = weft_memory.limit;
    state->device = weft_memory.device;
    state->peak = weft_memory.peak;
    state->overflow = weft_memory.overflow;
    state->persistent = weft_memory.persistent;
    state->ephemeral = weft_most(&weft_memory.ephemeral);
    state->cached = weft_memory.own.dirty;
    state->resident = resident();
    state->lane_used = weft_memory.lane_used;
    state->lane_private = weft_memory.private_pages * WEFT_PAGE_SIZE;
    state->copied_out = weft_memory.copied_out;
    state->copied_out_bytes = weft_memory.copied_out_bytes;
    state->allocations = weft_memory.allocations;
    state->steps = weft_memory.steps;
    weft_unlock();
}
