/* Joining a lane and leaving it. Both are done by one process at a time, which has a record lock on the lane's page:
 * the system drops it when the process ends, a forked child does not inherit it, and a waiter can ask its pid. */
#include "guard.h"
#include "lane_page.h"
#include "turnstile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_NAME "weft-lane"
#define PATIENCE_NS (2 * WEFT_STOPPED_GRACE_NS) /* for the holder of the lock: it needs a millisecond, unless stopped */
#define ENDING_NS UINT64_C(10000000000) /* in which a process that was killed gives back all that it had */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/* ---- one at a time ---- */

static int set_lock(int page, short kind)
{
    struct flock whole = {.l_type = kind, .l_whence = SEEK_SET};
    return fcntl(page, F_SETLK, &whole) == 0 ? 0 : -errno;
}

/* The process that has the lock, 0 if there is none, or it cannot be named. */
static uint64_t keeper_of(int page)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool is_known = fcntl(page, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && whole.l_pid > 0;
    return is_known ? (uint64_t)whole.l_pid : 0;
}

static void look_after_keeper(const struct weft_turnstile *mine, struct weft_watch *watch)
{
    uint64_t pid = keeper_of(mine->page), start = pid ? weft_start_of(pid) : 0;
    bool is_lane = mine->lane->magic == WEFT_LANE_MAGIC; /* not checked yet */
    uint64_t grace = is_lane ? weft_stopped_grace(mine->lane) : WEFT_STOPPED_GRACE_NS;
    if (pid && weft_stands_too_long(watch, weft_life_of(pid, start), pid, grace) && keeper_of(mine->page) == pid)
        weft_end_stopped(pid, start);
}

/* 0, or a negative errno. Asked for again and again: in between we look after its keeper. */
static int lock(const struct weft_turnstile *mine, uint64_t patience_ns)
{
    struct weft_watch watch = {0};
    struct timespec between = {0, 200000};
    uint64_t deadline = weft_now_ns() + patience_ns;
    int error;
    while ((error = set_lock(mine->page, F_WRLCK)) != 0) {
        if ((error != -EAGAIN && error != -EACCES) || weft_now_ns() > deadline)
            return error;
        look_after_keeper(mine, &watch);
        nanosleep(&between, NULL);
        between.tv_nsec = between.tv_nsec < 10000000 ? between.tv_nsec * 2 : between.tv_nsec;
    }
    weft_fail_point("locked");
    return 0;
}

static void unlock(const struct weft_turnstile *mine)
{
    weft_fail_point("about-to-unlock");
    set_lock(mine->page, F_UNLCK);
}

static bool is_named(const char *path, int page)
{
    struct stat named, opened;
    return lstat(path, &named) == 0 && fstat(page, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* ---- members ---- */

enum weft_life weft_life_of_member(const struct weft_lane *lane, const struct weft_member *member)
{
    struct weft_opened memory = {member->memory, lane->memory_device, lane->memory_inode, "/memfd:" MEMORY_NAME};
    uint64_t pid = member->pid;
    enum weft_life life = weft_life_of(pid, member->start);
    return life != WEFT_GONE && weft_runs_another_program(pid, &memory) ? WEFT_GONE : life;
}

static void free_slot(struct weft_lane *lane, unsigned slot)
{
    uint64_t turn = lane->turn;
    if (weft_slot_of(turn) == slot) /* waiters find that out when they look */
        atomic_compare_exchange_strong(&lane->turn, &turn, weft_turn_after(turn, WEFT_NO_MEMBER));
    weft_fail_point("slot-freed");
    lane->members[slot].waits_since = 0;
    lane->members[slot].pid = 0;
}

/* Only with the lock. How many live. */
static unsigned free_slots(struct weft_lane *lane)
{
    unsigned living = 0;
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS; slot++) {
        struct weft_member *member = &lane->members[slot];
        if (member->pid && weft_life_of_member(lane, member) == WEFT_GONE)
            free_slot(lane, slot);
        living += member->pid != 0;
    }
    return living;
}

void weft_free_slots(struct weft_turnstile *mine)
{
    if (set_lock(mine->page, F_WRLCK) != 0)
        return;
    free_slots(mine->lane);
    unlock(mine);
}

/* ---- the memory ---- */

/* Whether this is the memory that the page names, and really a lane's: a member can have written there what it wants,
 * and what is mapped as a lane's memory is overwritten. A file that has a name cannot be sealed. */
static bool is_memory(const struct weft_lane *lane, int file)
{
    struct stat found;
    int seals = fcntl(file, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(file, &found) == 0 && found.st_uid == geteuid() &&
           found.st_dev == lane->memory_device && found.st_ino == lane->memory_inode;
}

static int open_memory_of(const struct weft_lane *lane, const struct weft_member *member)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)member->pid,
             (unsigned long long)member->memory);
    int file = weft_above_standard(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file < 0)
        return -errno;
    if (is_memory(lane, file))
        return file;
    close(file);
    return -EBADF;
}

static int find_memory(struct weft_turnstile *mine, const struct weft_report *to)
{
    uint64_t asked = 0;
    int file = -ENOENT;
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS && file < 0; slot++) {
        const struct weft_member *member = &mine->lane->members[slot];
        asked = member->pid ? member->pid : asked;
        file = member->pid ? open_memory_of(mine->lane, member) : file;
    }
    if (file < 0)
        return weft_fail(to, -file, "the memory of the lane %s cannot be got from member process %llu: %s", to->path,
                    (unsigned long long)asked, strerror(-file));
    mine->memory = file;
    return 0;
}

/* The old lane has no member any more, and no member has the turn. */
static int make_memory(struct weft_turnstile *mine, const struct weft_report *to, uint64_t capacity)
{
    struct weft_lane *lane = mine->lane;
    struct stat made;
    long file = syscall(SYS_memfd_create, MEMORY_NAME, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) /* an old kernel */
        file = syscall(SYS_memfd_create, MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    mine->memory = weft_above_standard((int)file);
    /* Sealed, no member can truncate it under the others: what they have in it would raise SIGBUS. */
    if (mine->memory < 0 || fcntl(mine->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
        fstat(mine->memory, &made) != 0)
        return weft_fail(to, errno, "there is no memory for the lane %s: %s", to->path, strerror(errno));
    lane->turn = weft_turn_after(lane->turn, WEFT_NO_MEMBER);
    lane->capacity = capacity;
    lane->reserved = 0;
    lane->memory_device = made.st_dev;
    lane->memory_inode = made.st_ino;
    return 0;
}

uint64_t weft_reserved(const struct weft_turnstile *mine)
{
    struct stat memory;
    uint64_t said = mine->lane->reserved, there = 0;
    if (fstat(mine->memory, &memory) == 0 && memory.st_size > 0)
        there = (uint64_t)memory.st_size;
    return said < there ? said : there;
}

bool weft_has_our_memory(const struct weft_turnstile *mine, const struct weft_member *member)
{
    struct stat memory;
    if (fstat(mine->memory, &memory) != 0)
        return false;
    struct weft_opened opened = {member->memory, memory.st_dev, memory.st_ino, "/memfd:" MEMORY_NAME};
    return weft_has_open(member->pid, &opened);
}

/* ---- joining and leaving ---- */

/* So that a newcomer under FAIR does not have the lane for itself until it has used as much as the others. */
static uint64_t first_used(const struct weft_lane *lane, int64_t weight)
{
    uint64_t least = UINT64_MAX;
    for (unsigned slot = 0; weight > 0 && slot < WEFT_LANE_MEMBERS; slot++) {
        uint64_t used = lane->members[slot].pid ? lane->members[slot].used : UINT64_MAX;
        least = used < least ? used : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

static void fill_slot(const struct weft_turnstile *mine, int64_t base, int64_t weight)
{
    struct weft_member *me = &mine->lane->members[mine->slot];
    me->start = mine->start;
    me->memory = (uint64_t)mine->memory;
    me->base = me->ordered = base;
    me->weight = weight;
    me->used = first_used(mine->lane, weight);
    me->turns = me->needs = me->persistent = me->waits_since = me->away = 0;
    weft_fail_point("slot-written");
    me->pid = mine->pid;
    weft_fail_point("joined");
}

/* A process that is ending has closed its files before it is seen to have ended: then there is a moment to wait. */
static int have_memory(struct weft_turnstile *mine, const struct weft_report *to, uint64_t capacity)
{
    struct timespec moment = {0, 2000000};
    for (uint64_t deadline = weft_now_ns() + ENDING_NS;; nanosleep(&moment, NULL)) {
        if (free_slots(mine->lane) == 0)
            return make_memory(mine, to, capacity);
        int error = find_memory(mine, to);
        if ((error != -ENOENT && error != -EACCES) || weft_now_ns() > deadline)
            return error;
    }
}

/* With the lock. We may be a member from before an execve(): then that slot is free. */
static int enter(struct weft_turnstile *mine, const struct weft_report *to, uint64_t capacity)
{
    struct weft_lane *lane = mine->lane;
    int error = weft_check_page(to, lane);
    if (error)
        return error;
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS; slot++)
        if (lane->members[slot].pid == mine->pid)
            free_slot(lane, slot);
    error = have_memory(mine, to, capacity);
    weft_fail_point("memory-opened");
    if (error)
        return error;
    while (mine->slot < WEFT_LANE_MEMBERS && lane->members[mine->slot].pid)
        mine->slot++;
    if (mine->slot == WEFT_LANE_MEMBERS)
        return weft_fail(to, EUSERS, "the lane %s is full: it has %d members", to->path, WEFT_LANE_MEMBERS);
    return 0;
}

/* The path of the page as it is now, since the working folder may have changed. */
static bool find_path(int page, char *path, size_t bytes)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", page);
    ssize_t length = readlink(link, path, bytes - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* With the lock. A process that opened the page and waits for the lock then sees that it has no name, and retries. */
static void remove_if_empty(const struct weft_turnstile *mine)
{
    char path[PATH_MAX];
    if (free_slots(mine->lane) == 0 && find_path(mine->page, path, sizeof path) && is_named(path, mine->page)) {
        weft_fail_point("about-to-unlink");
        unlink(path);
        weft_fail_point("unlinked");
    }
}

static int join_once(struct weft_turnstile *mine, const struct weft_report *to, uint64_t capacity, int64_t base,
                     int64_t weight)
{
    int page = weft_open_page(to, capacity);
    if (page < 0)
        return page;
    mine->page = page;
    void *at = mmap(NULL, WEFT_LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    if (at == MAP_FAILED)
        return weft_fail(to, errno, "the lane's page %s cannot be mapped: %s", to->path, strerror(errno));
    mine->lane = at;
    weft_guard(at, WEFT_LANE_BYTES);
    weft_fail_point("page-opened");
    int error = lock(mine, PATIENCE_NS);
    if (error)
        return weft_fail(to, EBUSY, "the lane's page %s is locked by process %llu: wait for it, or end it", to->path,
                    (unsigned long long)keeper_of(mine->page));
    if (!is_named(to->path, mine->page))
        return WEFT_KEEP_TRYING; /* closing it drops the lock */
    error = enter(mine, to, capacity);
    if (error == 0)
        fill_slot(mine, base, weight);
    unlock(mine);
    return error;
}

int weft_join(struct weft_turnstile *mine, const char *path, uint64_t capacity, int64_t base, int64_t weight,
              char *why, size_t why_bytes)
{
    struct weft_report to = {path, why, why_bytes};
    uint64_t pid = (uint64_t)getpid(), start = weft_start_of(pid);
    int error = WEFT_KEEP_TRYING;
    if (start == 0 || weft_pid_namespace() == 0)
        return weft_fail(&to, ENOSYS, "a lane needs /proc to see whether its members are alive: mount it");
    while (error == WEFT_KEEP_TRYING) { /* each time another process made or removed the page: one makes progress */
        *mine = (struct weft_turnstile){.pid = pid, .start = start};
        error = join_once(mine, &to, capacity, base, weight);
        if (error)
            weft_forget_lane(mine);
    }
    return error;
}

void weft_leave(struct weft_turnstile *mine)
{
    if (mine->lane == NULL)
        return;
    weft_release_turn(mine);
    weft_fail_point("about-to-leave");
    bool is_alone = lock(mine, ENDING_NS) == 0;
    struct weft_member *me = &mine->lane->members[mine->slot];
    if (me->pid == mine->pid && me->start == mine->start)
        me->pid = 0;
    weft_fail_point("left");
    if (is_alone) {
        remove_if_empty(mine);
        unlock(mine);
    }
    weft_forget_lane(mine);
}

static void close_file(int *file)
{
    if (*file >= WEFT_ABOVE_STANDARD)
        close(*file);
    *file = 0;
}

void weft_forget_lane(struct weft_turnstile *mine)
{
    if (mine->lane) {
        weft_guard(NULL, 0);
        munmap(mine->lane, WEFT_LANE_BYTES);
    }
    close_file(&mine->memory);
    close_file(&mine->page);
    *mine = (struct weft_turnstile){0};
}
