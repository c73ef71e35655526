/* What the stories about memory share: blocks whose contents identify their owner, and threads beside the story. */
#ifndef WEFT_PIECES_H
#define WEFT_PIECES_H

#include "../memory.h"
#include "../weft_native.h"
#include "story.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)
#define PAGE WEFT_PAGE_SIZE
#define NO_LIMIT UINT64_C(0)

static struct weft_native_state state(void)
{
    struct weft_native_state now = {0};
    weft_memory_look(&now);
    return now;
}

static const char *folder(void)
{
    const char *named = getenv("TMPDIR");
    return named ? named : "/tmp";
}

static int a_tier(void)
{
    int tier = weft_cpu_tier(folder());
    if (tier < 0)
        story_cannot_be_told("no nameless files in the folder for temporary files");
    return tier;
}

static void begin_with(const struct weft_backend *backend, int tier, uint64_t limit, bool is_strict)
{
    holds(weft_memory_begin(backend, tier, limit, is_strict) == 0);
    holds(pthread_atfork(weft_memory_before_fork, weft_memory_after_fork_in_parent, weft_memory_after_fork_in_child)
          == 0);
}

static void begin(uint64_t limit)
{
    begin_with(&weft_cpu, a_tier(), limit, false);
}

/* A block with contents that identify its owner. */
struct piece {
    uint8_t *at;
    size_t bytes;
    uint64_t tag;
};

static uint64_t word_of(uint64_t tag, size_t i)
{
    return (tag + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(const struct piece *piece)
{
    for (size_t i = 0; i + 8 <= piece->bytes; i += 8) {
        uint64_t word = word_of(piece->tag, i);
        memcpy(piece->at + i, &word, 8);
    }
    memset(piece->at + piece->bytes / 8 * 8, (int)(piece->tag & 0xff), piece->bytes % 8);
}

static bool is_intact(const struct piece *piece)
{
    for (size_t i = 0; i + 8 <= piece->bytes; i += 8) {
        uint64_t word;
        memcpy(&word, piece->at + i, 8);
        if (word != word_of(piece->tag, i))
            return false;
    }
    for (size_t i = piece->bytes / 8 * 8; i < piece->bytes; i++)
        if (piece->at[i] != (uint8_t)piece->tag)
            return false;
    return true;
}

static atomic_ulong next_tag = 1;

static struct piece try_piece(size_t bytes, size_t alignment, bool may_use_lane)
{
    struct piece piece = {weft_memory_take(bytes, alignment, may_use_lane), bytes, atomic_fetch_add(&next_tag, 1)};
    if (piece.at) {
        holds((uintptr_t)piece.at % alignment == 0 && weft_memory_has(piece.at));
        holds(weft_memory_size(piece.at) == bytes);
        fill(&piece);
    }
    return piece;
}

static struct piece a_piece(size_t bytes)
{
    struct piece piece = try_piece(bytes, 64, false);
    holds(piece.at != NULL);
    return piece;
}

static struct piece a_young_piece(size_t bytes)
{
    struct piece piece = try_piece(bytes, 64, true);
    holds(piece.at != NULL);
    return piece;
}

static void give(struct piece *piece)
{
    holds(is_intact(piece));
    weft_memory_give(piece->at);
    piece->at = NULL;
}

static size_t resident_bytes(const uint8_t *at, size_t bytes)
{
    static unsigned char pages[1 << 16];
    uintptr_t from = ((uintptr_t)at + PAGE - 1) / PAGE * PAGE, to = ((uintptr_t)at + bytes) / PAGE * PAGE;
    size_t resident = 0;
    holds((to - from) / PAGE <= sizeof pages);
    holds(mincore((void *)from, to - from, pages) == 0);
    for (size_t page = 0; page < (to - from) / PAGE; page++)
        resident += pages[page] & 1 ? PAGE : 0;
    return resident;
}

static size_t rss_bytes(void)
{
    char text[200] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    holds(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(strchr(text, ' '), NULL, 10) * PAGE;
}

/* ---- threads beside the story ---- */

static atomic_bool is_over;
static atomic_ulong started;

#define MOST_THREADS 8
static pthread_t threads[MOST_THREADS];
static unsigned thread_count;

static void start(void *(*what)(void *), void *with)
{
    unsigned long before = atomic_load(&started);
    holds(pthread_create(&threads[thread_count++], NULL, what, with) == 0);
    while (atomic_load(&started) == before)
        usleep(100);
}

static void join_all(void)
{
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    thread_count = 0;
}

static _Thread_local bool is_sleepy; /* sleep after each round */

/* Writes into every page of its block, forever; what it wrote and what is there must agree: no write was lost. */
static void *count_in_every_page(void *with)
{
    const struct piece *piece = with;
    size_t pages = piece->bytes / PAGE;
    uint64_t rounds = 0;
    for (size_t page = 0; page < pages; page++)
        *(volatile uint64_t *)(void *)(piece->at + page * PAGE) = 0;
    atomic_fetch_add(&started, 1);
    while (!atomic_load(&is_over)) {
        for (size_t page = 0; page < pages; page++) {
            volatile uint64_t *counter = (volatile uint64_t *)(void *)(piece->at + page * PAGE);
            holds(*counter == rounds, "a write was lost");
            *counter = rounds + 1;
        }
        rounds++;
        if (is_sleepy)
            usleep(50);
    }
    return NULL;
}

/* The same, and as threads of libraries do: it blocks all signals, and sleeps in between. */
static void *count_with_signals_blocked(void *with)
{
    sigset_t all;
    sigfillset(&all);
    holds(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    return count_in_every_page(with);
}

static void *wake_and_count_with_signals_blocked(void *with)
{
    is_sleepy = true;
    return count_with_signals_blocked(with);
}

struct churner {
    uint64_t seed;
    size_t most_bytes;
    bool may_fail;
};

#define CHURNED 24

static void *take_and_give(void *with)
{
    const struct churner *churner = with;
    uint64_t state_of_chance = (churner->seed + this_story.seed * 1000) | 1;
    struct piece pieces[CHURNED] = {0};
    atomic_fetch_add(&started, 1);
    while (!atomic_load(&is_over)) {
        struct piece *piece = &pieces[chance_of(&state_of_chance, CHURNED)];
        if (piece->at) {
            give(piece);
        } else {
            *piece = try_piece(4096 + chance_of(&state_of_chance, churner->most_bytes),
                               (size_t)64 << chance_of(&state_of_chance, 7), false);
            holds(piece->at || churner->may_fail);
        }
    }
    for (int i = 0; i < CHURNED; i++)
        if (pieces[i].at)
            give(&pieces[i]);
    return NULL;
}

static int a_small_tmpfs(const char *size)
{
    static char place[200];
    snprintf(place, sizeof place, "%s/weft-small-XXXXXX", folder());
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mkdtemp(place) == NULL)
        story_cannot_be_told("may not mount");
    if (mount("weft", place, "tmpfs", 0, size) != 0)
        story_cannot_be_told("may not mount a tmpfs");
    int tier = weft_cpu_tier(place);
    holds(tier >= 0);
    umount2(place, MNT_DETACH);
    rmdir(place);
    return tier;
}

#endif
