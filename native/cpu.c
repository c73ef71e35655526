/* The cpu device: its memory is the machine's, its next tier a file. */
#include "backend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHUNK ((size_t)32 << 20) /* what is moved in at once exists twice for a moment */

static struct weft_range reserve(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return (struct weft_range){base == MAP_FAILED ? NULL : base, bytes};
}

static int commit(uint8_t *at, size_t bytes)
{
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
}

static int decommit(uint8_t *at, size_t bytes)
{
    return madvise(at, bytes, MADV_DONTNEED) == 0 ? 0 : errno;
}

static int map_private(uint8_t *at, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? errno : 0;
}

static int map_file(int file, uint8_t *at, size_t offset, size_t bytes)
{
    int flags = MAP_SHARED | MAP_FIXED;
    return mmap(at, bytes, PROT_READ | PROT_WRITE, flags, file, (off_t)offset) == MAP_FAILED ? errno : 0;
}

static int write_all(int file, const uint8_t *from, size_t offset, size_t bytes)
{
    while (bytes) {
        ssize_t done = pwrite(file, from, bytes, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        from += done;
        offset += (size_t)done;
        bytes -= (size_t)done;
    }
    return 0;
}

static int read_all(int file, uint8_t *to, size_t offset, size_t bytes)
{
    while (bytes) {
        ssize_t done = pread(file, to, bytes, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        to += done;
        offset += (size_t)done;
        bytes -= (size_t)done;
    }
    return 0;
}

static void give_back(int file, size_t offset, size_t bytes)
{
    /* Some file systems cannot; then the file keeps the room until it goes. */
    (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

/* On a tmpfs of older kernels any signal ends it. */
static int reserve_room(int file, size_t offset, size_t bytes)
{
    int error;
    do
        error = posix_fallocate(file, (off_t)offset, (off_t)bytes);
    while (error == EINTR);
    return error;
}

static int place_out(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    int error = reserve_room(tier, offset, bytes);
    if (error == 0)
        error = map_file(tier, at, offset, bytes);
    if (error)
        give_back(tier, offset, bytes);
    return error;
}

static int move_out(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    int error = reserve_room(tier, offset, bytes);
    if (error == 0)
        error = write_all(tier, at, offset, bytes);
    if (error == 0)
        error = map_file(tier, at, offset, bytes);
    if (error)
        give_back(tier, offset, bytes);
    return error;
}

/* Private pages with what the file has there, in the place of whatever is mapped. */
static int copy_in_place(int file, uint8_t *at, size_t offset, size_t bytes)
{
    uint8_t *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED)
        return errno;
    int error = read_all(file, copy, offset, bytes);
    if (error == 0 && mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        error = errno;
    if (error)
        munmap(copy, bytes);
    return error;
}

/* The place is given back when all is in: until then, what fails can be undone by mapping it again. */
static int move_in(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += CHUNK) {
        int error = copy_in_place(tier, at + done, offset + done, bytes - done < CHUNK ? bytes - done : CHUNK);
        if (error) {
            if (done)
                (void)map_file(tier, at, offset, done); /* a mapping less than there was: it has room */
            return error;
        }
    }
    give_back(tier, offset, bytes);
    return 0;
}

static int discard(int tier, uint8_t *at, size_t offset, size_t bytes)
{
    int error = map_private(at, bytes);
    if (error == 0)
        give_back(tier, offset, bytes);
    return error;
}

static int settle(int tier)
{
    if (fdatasync(tier) != 0)
        return errno;
    return posix_fadvise(tier, 0, 0, POSIX_FADV_DONTNEED);
}

static int share_grow(int shared, size_t from, size_t to)
{
    while (fallocate(shared, 0, (off_t)from, (off_t)(to - from)) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static int share_shrink(int shared, size_t from, size_t to)
{
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(shared, mode, (off_t)from, (off_t)(to - from)) == 0 ? 0 : errno;
}

static int share_map(int shared, uint8_t *at, size_t offset, size_t bytes)
{
    int error = map_file(shared, at, offset, bytes);
    if (error == 0 && madvise(at, bytes, MADV_DONTFORK) != 0)
        error = errno;
    return error;
}

/* Whole or not at all: on failure the shared pages are still there. */
static int make_private(int shared, uint8_t *at, size_t offset, size_t bytes)
{
    return copy_in_place(shared, at, offset, bytes);
}

static int unmap(uint8_t *at, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ? errno : 0;
}

const struct weft_backend weft_cpu = {
    .name = "cpu",
    .reserve = reserve,
    .commit = commit,
    .decommit = decommit,
    .place_out = place_out,
    .move_out = move_out,
    .move_in = move_in,
    .discard = discard,
    .settle = settle,
    .unmap = unmap,
    .share_grow = share_grow,
    .share_shrink = share_shrink,
    .share_map = share_map,
    .make_private = make_private,
};

int weft_cpu_tier(const char *folder)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
        return -EFBIG; /* places in the file are far apart, and to go beyond this limit ends a process */
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 && file <= STDERR_FILENO) { /* a job without standard files would print into its tensors */
        int above = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(file);
        file = above;
    }
    return file < 0 ? -errno : file;
}
