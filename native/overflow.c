/* Blocks that begin in the next tier, because they are over the limit.
 *
 * The same shapes come in each step. To reserve a place in the file for each of them, map it, touch its pages and give
 * all of that back costs more than to compute with them. So a freed block is kept with its place and its pages for the
 * next one of its size. What no step of a window has used is given back. */
#include "state.h"

#define MOST_UNSTEPPED ((uint64_t)256 << 20) /* without steps nothing proves kept blocks useless: no more than this */
#define LOOKS 16                             /* at blocks of a size class, for one that is large enough */

static struct weft_block *block_at(uint32_t index)
{
    return &weft_memory.own.blocks[index];
}

static uint32_t *list_of(const struct weft_block *block)
{
    return &weft_memory.kept[weft_class_of(weft_inner_bytes(block))];
}

static uint8_t *address_of(const struct weft_block *block)
{
    return weft_memory.own.range.base + weft_inner_from(block);
}

static void unlist(uint32_t index)
{
    struct weft_block *block = block_at(index);
    if (block->next)
        block_at(block->next)->previous = block->previous;
    if (block->previous)
        block_at(block->previous)->next = block->next;
    else
        *list_of(block) = block->next;
    block->next = block->previous = WEFT_NO_BLOCK;
    block->is_kept = false;
    weft_memory.kept_bytes -= weft_inner_bytes(block);
}

/* Nothing of it may be on the device, and while all is swapped out a page's place is known by another table. */
bool weft_keep(uint32_t index)
{
    struct weft_block *block = block_at(index);
    if (weft_memory.is_swapped || weft_memory.is_child || block->offset != weft_inner_from(block))
        return false;
    uint64_t bytes = weft_inner_bytes(block);
    if (weft_memory.steps == 0 && weft_memory.kept_bytes + bytes > MOST_UNSTEPPED + weft_memory.overflow / 2)
        return false;
    uint32_t *head = list_of(block);
    block->requested = 0;
    block->is_kept = true;
    block->kept_at = (uint32_t)weft_memory.steps;
    block->previous = WEFT_NO_BLOCK;
    block->next = *head;
    if (*head)
        block_at(*head)->previous = index;
    *head = index;
    weft_memory.kept_bytes += bytes;
    return true;
}

static void drop(uint32_t index)
{
    struct weft_block *block = block_at(index);
    unlist(index);
    (void)weft_memory.backend->discard(weft_memory.tier, address_of(block), weft_inner_from(block),
                                       weft_inner_bytes(block));
    block->is_out = false;
    weft_arena_give(&weft_memory.own, index);
}

void weft_drop_kept(uint64_t before_step)
{
    for (uint32_t class = 0; class < WEFT_CLASSES && weft_memory.kept_bytes; class++)
        for (uint32_t index = weft_memory.kept[class], next; index; index = next) {
            next = block_at(index)->next;
            if (block_at(index)->kept_at < before_step)
                drop(index);
        }
}

static uint32_t take_kept(size_t bytes, size_t alignment)
{
    uint32_t index = weft_memory.kept[weft_class_of(bytes)];
    for (int looks = 0; index && looks < LOOKS; looks++, index = block_at(index)->next) {
        const struct weft_block *block = block_at(index);
        bool is_aligned = ((uintptr_t)weft_memory.own.range.base + block->offset) % alignment == 0;
        if (is_aligned && weft_inner_bytes(block) >= bytes) {
            unlist(index);
            return index;
        }
    }
    return WEFT_NO_BLOCK;
}

/* On pages of its own: nothing of it is on the device. */
static uint32_t take_new(size_t bytes, size_t alignment)
{
    uint32_t index = weft_take_own(bytes, alignment);
    if (index == WEFT_NO_BLOCK)
        return index;
    struct weft_block *block = block_at(index);
    uint64_t from = weft_inner_from(block), inner = weft_inner_bytes(block);
    if (inner && weft_memory.backend->place_out(weft_memory.tier, address_of(block), from, inner) != 0) {
        weft_arena_give(&weft_memory.own, index);
        return WEFT_NO_BLOCK;
    }
    block->is_out = inner > 0;
    return index;
}

uint32_t weft_take_out(size_t bytes, size_t alignment)
{
    size_t pages = weft_up(bytes, WEFT_PAGE_SIZE);
    alignment = alignment > WEFT_PAGE_SIZE ? alignment : WEFT_PAGE_SIZE;
    uint32_t index = take_kept(pages, alignment);
    if (index == WEFT_NO_BLOCK)
        index = take_new(pages, alignment);
    if (index == WEFT_NO_BLOCK && weft_memory.kept_bytes) { /* the tier is full of places that were kept for others */
        weft_drop_kept(UINT64_MAX);
        index = take_new(pages, alignment);
    }
    if (index)
        block_at(index)->requested = bytes;
    return index;
}
