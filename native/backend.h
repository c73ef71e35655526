/* What a kind of device has to offer so that memory.c can manage its memory.
 *
 * Addresses are reserved once and never move: a tensor stays valid wherever its pages are. Pages are in one of three
 * places: on the device, in the next tier (slower and larger: a file for cpu, host memory for cuda), or nowhere.
 * All ranges are whole pages. Functions return 0, or an errno. None of them allocates with malloc. */
#ifndef WEFT_BACKEND_H
#define WEFT_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_PAGE_SIZE ((size_t)4096)

struct weft_range {
    uint8_t *base;
    size_t bytes;
};

struct weft_backend {
    const char *name;

    /* Addresses without memory; base is NULL if there are none. */
    struct weft_range (*reserve)(size_t bytes);

    /* Make pages of a reservation usable. What they hold is undefined. */
    int (*commit)(uint8_t *at, size_t bytes);

    /* Give the device's pages back; they may be used again without a commit. */
    int (*decommit)(uint8_t *at, size_t bytes);

    /* Pages whose contents are not needed are in the next tier from now on, at `offset`, a place that is theirs alone.
     * The place is really reserved: ENOSPC here, and never SIGBUS later. */
    int (*place_out)(int tier, uint8_t *at, size_t offset, size_t bytes);

    /* Move pages to the next tier and back, contents and addresses kept. On failure they are where they were. */
    int (*move_out)(int tier, uint8_t *at, size_t offset, size_t bytes);
    int (*move_in)(int tier, uint8_t *at, size_t offset, size_t bytes);

    /* Pages in the next tier whose contents are not needed become device pages again. */
    int (*discard)(int tier, uint8_t *at, size_t offset, size_t bytes);

    /* What is in the next tier takes no memory of this machine either, as far as that can be. */
    int (*settle)(int tier);

    /* Addresses without memory again. */
    int (*unmap)(uint8_t *at, size_t bytes);

    /* Memory that several processes map: have more of it for real, give the end of it back, map it, and put private
     * pages with the same contents in its place, all of them or none. */
    int (*share_grow)(int shared, size_t from, size_t to);
    int (*share_shrink)(int shared, size_t from, size_t to);
    int (*share_map)(int shared, uint8_t *at, size_t offset, size_t bytes);
    int (*make_private)(int shared, uint8_t *at, size_t offset, size_t bytes);
};

extern const struct weft_backend weft_cpu;

/* A file of the next tier in `folder`, nameless, gone with its last user; negative errno if it cannot be made. */
int weft_cpu_tier(const char *folder);

#endif
