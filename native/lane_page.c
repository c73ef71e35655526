#include "lane_page.h"

#include "turnstile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int weft_fail(const struct weft_report *to, int error, const char *format, ...)
{
    va_list words;
    if (to->bytes) {
        va_start(words, format);
        vsnprintf(to->why, to->bytes, format, words);
        va_end(words);
    }
    return -error;
}

/* ---- files ---- */

int weft_above_standard(int file)
{
    if (file < 0 || file >= WEFT_ABOVE_STANDARD)
        return file;
    int moved = fcntl(file, F_DUPFD_CLOEXEC, WEFT_ABOVE_STANDARD);
    int error = errno;
    close(file);
    errno = error;
    return moved;
}

uint64_t weft_pid_namespace(void)
{
    struct stat found;
    return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

/* ---- a new page ---- */

static int fail_to_make(const struct weft_report *to, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return weft_fail(to, error, "there is no folder for the lane's page %s: make it first", to->path);
    case ENOSPC:
    case EDQUOT:
        return weft_fail(to, error, "there is no room for the lane's page %s: its file system is full", to->path);
    case EOPNOTSUPP:
    case EISDIR: /* from kernels that do not know nameless files */
        return weft_fail(to, error, "the lane's page %s cannot be there: use a tmpfs such as /dev/shm", to->path);
    default:
        return weft_fail(to, error, "the lane's page %s cannot be made: %s", to->path, strerror(error));
    }
}

/* A nameless file in the folder of the page: if we are killed, nothing is left of it. Negative errno. */
static int open_draft(const char *path)
{
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/');
    size_t length = name ? (size_t)(name - path) + 1 : 0; /* with the slash: "/" is a folder too */
    if (length >= sizeof folder)
        return -ENAMETOOLONG;
    memcpy(folder, path, length);
    folder[length] = 0;
    int draft = weft_above_standard(open(length ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    return draft < 0 ? -errno : draft;
}

/* 0, or an errno. The space is really reserved, so that writing to the page later cannot fail. */
static int write_draft(int draft, uint64_t capacity)
{
    struct weft_lane blank = {.magic = WEFT_LANE_MAGIC,
                              .version = WEFT_LANE_VERSION,
                              .size = WEFT_LANE_BYTES,
                              .pid_namespace = weft_pid_namespace(),
                              .owner = geteuid(),
                              .capacity = capacity,
                              .turn = WEFT_NO_MEMBER,
                              .stopped_grace = WEFT_STOPPED_GRACE_NS};
    int error = posix_fallocate(draft, 0, WEFT_LANE_BYTES);
    if (error)
        return error;
    return pwrite(draft, &blank, sizeof blank, 0) == sizeof blank ? 0 : errno;
}

/* 0 if there is a page now, ours or another's. */
static int make_page(const struct weft_report *to, uint64_t capacity)
{
    char nameless[40];
    int draft = open_draft(to->path);
    if (draft < 0)
        return fail_to_make(to, -draft);
    snprintf(nameless, sizeof nameless, "/proc/self/fd/%d", draft);
    int error = write_draft(draft, capacity);
    weft_fail_point("draft-written");
    if (error == 0 && linkat(AT_FDCWD, nameless, AT_FDCWD, to->path, AT_SYMLINK_FOLLOW) != 0 && errno != EEXIST)
        error = errno;
    close(draft);
    weft_fail_point("page-made");
    return error ? fail_to_make(to, error) : 0;
}

/* ---- a page that is there ---- */

static int fail_to_open(const struct weft_report *to, int error)
{
    switch (error) {
    case EISDIR:
        return weft_fail(to, error, "the lane's page %s is a folder: give the lane another path", to->path);
    case ELOOP:
        return weft_fail(to, error, "the lane's page %s is a symbolic link: give the path that it leads to", to->path);
    case EACCES:
    case EPERM:
        return weft_fail(to, error, "the lane %s is another user's: only one user's jobs share a lane", to->path);
    default:
        return weft_fail(to, error, "the lane's page %s cannot be opened: %s", to->path, strerror(error));
    }
}

/* What can be checked before it is mapped. */
static int check_file(const struct weft_report *to, int page)
{
    struct stat found;
    if (fstat(page, &found) != 0)
        return fail_to_open(to, errno);
    if (!S_ISREG(found.st_mode) || found.st_size != WEFT_LANE_BYTES)
        return weft_fail(to, EINVAL, "%s is no lane's page (%lld bytes instead of %d): give the lane another path",
                         to->path, (long long)found.st_size, WEFT_LANE_BYTES);
    if (found.st_uid != geteuid())
        return fail_to_open(to, EPERM);
    return 0;
}

int weft_check_page(const struct weft_report *to, const struct weft_lane *lane)
{
    if (lane->magic != WEFT_LANE_MAGIC)
        return weft_fail(to, EINVAL, "%s is no lane's page (it does not begin with WEFTLANE): give another path",
                         to->path);
    if (lane->version != WEFT_LANE_VERSION || lane->size != WEFT_LANE_BYTES)
        return weft_fail(to, EPROTO, "the lane %s is of another weft (layout %llu, ours is %d): use another lane",
                         to->path, (unsigned long long)lane->version, WEFT_LANE_VERSION);
    if (lane->owner != geteuid())
        return fail_to_open(to, EPERM);
    if (lane->pid_namespace != weft_pid_namespace())
        return weft_fail(to, EXDEV, "the lane %s is of another container (pid namespace): use another lane", to->path);
    return 0;
}

int weft_open_page(const struct weft_report *to, uint64_t capacity)
{
    int page = weft_above_standard(open(to->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (page < 0 && errno == ENOENT) {
        int error = make_page(to, capacity);
        return error ? error : WEFT_KEEP_TRYING;
    }
    if (page < 0)
        return fail_to_open(to, errno);
    int error = check_file(to, page);
    if (error)
        close(page);
    return error ? error : page;
}
