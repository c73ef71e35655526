/* A program with a sanitizer's runtime in it needs it to be loaded first, and aborts if it is not. So it is
 * started again without this library, and runs as it would without weft below it.
 *
 * That can only be known where the program is: it may be a child of a child of the command. The library is linked with
 * -z initfirst, so this runs before the program's own preinit functions, among which the sanitizer's check is. Until then
 * nothing may be called that a sanitizer takes over from libc, for it would begin with that check: no malloc, no strlen. */
#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LONGEST_PRELOAD 8192
#define OWN_NAME "libweft.so"
#define VARIABLE "LD_PRELOAD="

/* Resolved while the program is loaded, to the runtime in it or to nothing. UBSan takes nothing over from libc. */
extern void __asan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));
extern void __lsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static const char *sanitizer(void)
{
    return __asan_init     ? "AddressSanitizer"
           : __hwasan_init ? "HWAddressSanitizer"
           : __lsan_init   ? "LeakSanitizer"
           : __msan_init   ? "MemorySanitizer"
           : __tsan_init   ? "ThreadSanitizer"
                           : NULL;
}

/* Through volatile, or the compiler makes calls of strlen and memcpy of these. */
static size_t length(const volatile char *text)
{
    size_t bytes = 0;
    while (text[bytes])
        bytes++;
    return bytes;
}

static void copy(char *to, const volatile char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static bool begins_with(const volatile char *text, const volatile char *start)
{
    size_t i = 0;
    while (start[i] && text[i] == start[i])
        i++;
    return start[i] == '\0';
}

static bool is_own(const char *entry, size_t bytes)
{
    const size_t own = sizeof OWN_NAME - 1;
    return bytes >= own && begins_with(entry + bytes - own, OWN_NAME) && (bytes == own || entry[bytes - own - 1] == '/');
}

static bool is_end(char at)
{
    return at == '\0' || at == ' ' || at == ':';
}

/* Copy what is to be preloaded without this library; whether it was among it. */
static bool leave_out(const char *preload, char *kept)
{
    size_t used = 0;
    bool is_found = false;
    while (*preload) {
        size_t bytes = 0;
        while (!is_end(preload[bytes]))
            bytes++;
        if (is_own(preload, bytes)) {
            is_found = true;
        } else if (bytes) {
            if (used)
                kept[used++] = ':';
            copy(kept + used, preload, bytes);
            used += bytes;
        }
        preload += bytes + (preload[bytes] != '\0');
    }
    kept[used] = '\0';
    return is_found;
}

static bool look_at(const char *path, struct statx *seen)
{
    return syscall(SYS_statx, AT_FDCWD, path, 0, STATX_INO, seen) == 0;
}

/* What to start: by the name it was started by, unless that is a script, or is not there any more. */
static const char *program(char *path, size_t path_bytes)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    struct statx named, running;
    if (name && look_at(name, &named) && look_at("/proc/self/exe", &running) && named.stx_ino == running.stx_ino
        && named.stx_dev_major == running.stx_dev_major && named.stx_dev_minor == running.stx_dev_minor)
        return name;
    long bytes = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, path_bytes - 1);
    if (bytes <= 0)
        return NULL;
    path[bytes] = '\0';
    return path;
}

static void say(const char *name, const char *runtime)
{
    const char *words[] = {"weft: ", name, " has ", runtime,
                           " in it, which must be loaded first: it runs without weft's library (limit, lane, duty)\n"};
    char line[512];
    size_t used = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t bytes = length(words[i]);
        if (bytes > sizeof line - used)
            bytes = sizeof line - used;
        copy(line + used, words[i], bytes);
        used += bytes;
    }
    syscall(SYS_write, STDERR_FILENO, line, used);
}

__attribute__((constructor)) static void step_aside(int argc, char **argv, char **env)
{
    const char *runtime = sanitizer();
    if (runtime == NULL || argc < 1 || getauxval(AT_SECURE) || getauxval(AT_BASE) == 0)
        return;
    size_t count = 0, kept_count = 0;
    while (env[count])
        count++;
    char **kept = alloca((count + 1) * sizeof *kept);
    char preload[LONGEST_PRELOAD], path[PATH_MAX];
    bool is_found = false;
    for (size_t i = 0; i < count; i++) {
        kept[kept_count++] = env[i];
        if (!begins_with(env[i], VARIABLE) || length(env[i]) >= sizeof preload)
            continue;
        const size_t name_bytes = sizeof VARIABLE - 1;
        copy(preload, VARIABLE, name_bytes);
        is_found = leave_out(env[i] + name_bytes, preload + name_bytes);
        kept[kept_count - 1] = preload;
        if (preload[name_bytes] == '\0')
            kept_count--;
    }
    kept[kept_count] = NULL;
    const char *start = is_found ? program(path, sizeof path) : NULL;
    if (start == NULL)
        return;
    say(argv[0], runtime);
    syscall(SYS_execve, start, argv, kept);
}
