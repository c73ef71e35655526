/* The library under a job: it serves what PyTorch allocates, and the runtime calls it at each step boundary.
 *
 * PyTorch on cpu, and oneDNN within it, allocate with posix_memalign. That, and whatever may be done with such an
 * address, is taken over here; everything else stays libc's. */
#include "backend.h"
#include "memory.h"
#include "turnstile.h"
#include "weft_native.h"
#include "weft_page.h"
#include "world.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST_SERVED WEFT_PAGE_SIZE /* what is smaller is not worth a block, and stays libc's */
#define SHORTEST_IDLE_NS 500000        /* shorter sleeps end too late to be of use */
#define SPARE_LANE ((uint64_t)1 << 20) /* that the lane may be larger than needed before it shrinks */
#define BURST ((uint64_t)1 << 20)      /* what a step needs more than those before it: by less than this they all differ */

static struct {
    atomic_bool is_serving;
    _Atomic(const char *) stepper;
    bool is_claimed, is_member, is_in_step, is_poisoning, is_lane_clear;
    int disobeyed;  /* as last seen */
    uint64_t limit; /* as last read */
    volatile struct weft_page *page;
    struct weft_turnstile lane;
    struct {
        bool is_counting;
        uint64_t wall_ns, cpu_ns; /* since when, if so */
        int64_t owed_ns;
        uint64_t idle_ns;
    } duty;
    pthread_mutex_t turning; /* taking a turn and releasing it: not both at once */
    uint64_t not_own_ns;    /* of the present step: inserted by the duty, or waited for the turn */
    uint64_t usual_turn_ns; /* how long turns last that end at a boundary */
} shim = {.turning = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local char self __attribute__((tls_model("initial-exec"))); /* its address identifies the thread */

/* Whether this thread passed the last boundary. If several do in turn, the others' blocks in the lane have been copied
 * out by then, and what they allocate is persistent. */
static bool is_stepper(void)
{
    return atomic_load_explicit(&shim.stepper, memory_order_relaxed) == &self;
}

/* ---- what is below us ---- */

static int (*next_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);
static size_t (*next_usable)(void *);

/* While dlsym looks for the real one, it may free. Weak: musl has none, and would not start a program without it. */
extern void __libc_free(void *) __attribute__((weak));

static void *below(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void find_what_is_below(void)
{
    *(void **)&next_memalign = below("posix_memalign");
    *(void **)&next_realloc = below("realloc");
    *(void **)&next_usable = below("malloc_usable_size");
    *(void **)&next_free = below("free");
}

/* Other constructors may allocate before ours has run. */
static int memalign_below(void **place, size_t alignment, size_t bytes)
{
    if (next_memalign == NULL)
        find_what_is_below();
    return next_memalign(place, alignment, bytes);
}

/* What another preloaded allocator gave before our constructor has run is its own to free. */
static void free_below(void *at)
{
    static _Thread_local bool is_looking __attribute__((tls_model("initial-exec")));
    if (next_free == NULL && !is_looking) {
        is_looking = true;
        find_what_is_below();
        is_looking = false;
    }
    if (next_free)
        next_free(at);
    else if (__libc_free)
        __libc_free(at);
}

/* ---- saying something ---- */

static void say(char *why, size_t why_bytes, const char *text)
{
    if (why_bytes)
        snprintf(why, why_bytes, "%s", text);
}

/* Into a buffer of our own: stdio would allocate. */
__attribute__((format(printf, 1, 2))) static void say_line(const char *format, ...)
{
    char line[320] = "weft: ";
    va_list words;
    va_start(words, format);
    int length = vsnprintf(line + 6, sizeof line - 7, format, words);
    va_end(words);
    size_t end = 6 + (length < 0 ? 0 : (size_t)length < sizeof line - 8 ? (size_t)length : sizeof line - 8);
    line[end] = '\n';
    if (write(STDERR_FILENO, line, end + 1) < 0)
        return; /* stderr is not usable */
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* One line for each refusal; PyTorch then raises its own error. */
static void say_refused(size_t bytes)
{
    struct weft_native_state now;
    weft_memory_look(&now);
    bool is_by_limit = now.limit && now.device + bytes > now.limit;
    const char *why = !is_by_limit              ? "there is no memory for"
                      : weft_memory_overflows() ? "over the limit, and the folder for overflow has no room for"
                                                : "the limit refuses";
    say_line("%s %zu bytes more: limit %.1f MiB, in use %.1f MiB, peak %.1f MiB, overflow %.1f MiB", why, bytes,
             mib(now.limit), mib(now.device), mib(now.peak), mib(now.overflow));
}

/* When it begins to be so. */
static void say_disobeyed(const struct weft_boundary *seen)
{
    if (seen->disobeyed && seen->disobeyed != shim.disobeyed)
        say_line("the limit of %.1f MiB cannot be obeyed for now: %s", mib(shim.page->limit),
                 seen->disobeyed == EBUSY ? weft_world_why() : strerror(seen->disobeyed));
    shim.disobeyed = seen->disobeyed;
}

/* A burst is reported at once, not only at the boundary: the coordinator can make room for it before it does not fit,
 * or before the next step. */
static void report_burst(void)
{
    uint64_t needs = weft_memory_step_needs(), overflow = weft_memory_overflow();
    if (needs > shim.page->ephemeral + BURST)
        shim.page->ephemeral = needs;
    if (overflow > shim.page->overflow)
        shim.page->overflow = overflow;
}

/* ---- the duty ---- */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void begin_computing(void)
{
    if (shim.page->duty >= 100)
        return; /* the second clock is a system call */
    shim.duty.wall_ns = clock_ns(CLOCK_MONOTONIC);
    shim.duty.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    shim.duty.is_counting = true;
}

/* What was computed since the last time, and how long that has to be idled for. Waiting for data is no computing. */
static int64_t owed_since(uint64_t wall, uint64_t cpu, uint64_t duty)
{
    uint64_t passed = wall - shim.duty.wall_ns, computed = cpu - shim.duty.cpu_ns;
    uint64_t busy = passed < computed ? passed : computed;
    shim.duty.wall_ns = wall;
    shim.duty.cpu_ns = cpu;
    return (int64_t)(busy * (100 - duty) / duty);
}

/* Idle for as long as the duty asks. To fall asleep and to wake takes some computing too. */
static void pay_duty(uint64_t duty)
{
    uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    shim.duty.owed_ns += owed_since(wall, cpu, duty);
    if (shim.duty.owed_ns < SHORTEST_IDLE_NS)
        return;
    uint64_t until = wall + (uint64_t)shim.duty.owed_ns;
    struct timespec end = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    uint64_t slept = clock_ns(CLOCK_MONOTONIC) - wall, computed = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    uint64_t idle = slept > computed ? slept - computed : 0;
    shim.duty.owed_ns += owed_since(wall + slept, cpu + computed, duty) - (int64_t)idle;
    shim.duty.idle_ns += idle;
    shim.not_own_ns += slept;
}

static void pay_if_owed(void)
{
    uint64_t duty = shim.page->duty;
    bool is_below = duty >= 1 && duty < 100;
    if (is_below && shim.duty.is_counting) {
        pay_duty(duty);
    } else if (is_below) { /* since just now */
        begin_computing();
    } else {
        shim.duty.owed_ns = 0;
        shim.duty.is_counting = false;
    }
}

/* ---- the turn ---- */

static void run_on_without_lane(void)
{
    shim.is_member = false;
    (void)weft_memory_leave_lane(); /* we have no turn, so nothing is in there */
    say_line("the lane cannot be used any more; continuing without it");
}

static void take_turn_alone(void)
{
    uint64_t waited = weft_take_turn(&shim.lane);
    if (waited == UINT64_MAX) {
        run_on_without_lane();
        return;
    }
    shim.page->turn_waited += waited;
    shim.not_own_ns += waited;
    if (shim.lane.turn == 0)
        return; /* a signal came: this once the memory is our own, and the interpreter can see to it */
    weft_memory_turn_begins(weft_reserved(&shim.lane), shim.lane.lane->capacity);
    shim.page->turns++;
    begin_computing();
}

/* Nothing of ours is in the lane outside of our turns, so it is taken when a step first needs memory: a job that loads
 * data or waits does not block the others. Several threads may step in turn: not while another one releases. */
static void take_turn(void)
{
    pthread_mutex_lock(&shim.turning);
    if (is_stepper() && shim.is_member && shim.is_in_step && shim.lane.turn == 0)
        take_turn_alone();
    pthread_mutex_unlock(&shim.turning);
}

/* The lane is no larger than any member needs, or than it may be. Only in our turn. */
static void shrink_lane(struct weft_lane *lane)
{
    uint64_t needed = weft_most_needed(&shim.lane), reserved = weft_reserved(&shim.lane), wanted = reserved;
    if (wanted > needed + needed / 8 + SPARE_LANE)
        wanted = needed;
    if (wanted > lane->capacity)
        wanted = lane->capacity;
    wanted = (wanted + WEFT_PAGE_SIZE - 1) / WEFT_PAGE_SIZE * WEFT_PAGE_SIZE;
    if (wanted >= reserved)
        return;
    lane->reserved = wanted; /* first: if we die in between, what is there is more than is known */
    if (weft_cpu.share_shrink(shim.lane.memory, wanted, reserved) != 0)
        lane->reserved = reserved;
}

static void release_turn(const struct weft_boundary *seen)
{
    struct weft_lane *lane = shim.lane.lane;
    struct weft_member *mine = &lane->members[shim.lane.slot];
    bool is_asked_to_pause = shim.page->request & 0xff;
    mine->needs = is_asked_to_pause ? 0 : seen->lane_needs;
    mine->persistent = seen->persistent;
    if (shim.lane.turn == 0)
        return;
    uint64_t lasted = clock_ns(CLOCK_MONOTONIC) - shim.lane.began_ns;
    shim.usual_turn_ns = shim.usual_turn_ns ? (7 * shim.usual_turn_ns + lasted) / 8 : lasted;
    lane->reserved = seen->lane_reserved;
    shim.is_lane_clear = seen->is_lane_clear;
    if (!seen->is_lane_clear) {
        say_line("no room for private pages; the lane is kept until there is some");
        return;
    }
    shrink_lane(lane);
    if (is_asked_to_pause)
        weft_release_turn(&shim.lane);
    else
        weft_pass_turn(&shim.lane);
}

/* Between steps (an evaluation, say) there is no boundary for long. When nothing of ours is in the lane and a member
 * waits, the turn can end just as well. */
static void release_between_steps(void)
{
    uint64_t reserved;
    if (pthread_mutex_trylock(&shim.turning) != 0)
        return;
    bool is_ours = shim.is_member && shim.lane.turn && shim.is_in_step;
    uint64_t lasted = is_ours ? clock_ns(CLOCK_MONOTONIC) - shim.lane.began_ns : 0;
    if (lasted > 2 * shim.usual_turn_ns + SHORTEST_IDLE_NS && weft_is_wanted(&shim.lane)
        && weft_memory_turn_ends(&reserved, shim.is_poisoning)) {
        shim.lane.lane->reserved = reserved;
        weft_release_turn(&shim.lane);
    }
    pthread_mutex_unlock(&shim.turning);
}

/* ---- what is interposed ---- */

WEFT_EXPORT int posix_memalign(void **place, size_t alignment, size_t bytes)
{
    bool steps = is_stepper() && shim.is_claimed;
    if (steps && shim.page->duty < 100)
        pay_if_owed();
    bool is_odd = alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0;
    if (bytes < SMALLEST_SERVED || is_odd || !atomic_load_explicit(&shim.is_serving, memory_order_relaxed))
        return memalign_below(place, alignment, bytes);
    if (steps && shim.page->limit != shim.limit)
        weft_memory_allow(shim.limit = shim.page->limit);
    if (steps && shim.is_member && shim.lane.turn == 0 && shim.is_in_step)
        take_turn();
    void *at = weft_memory_take(bytes, alignment, steps);
    if (at == NULL) {
        say_refused(bytes);
        return ENOMEM;
    }
    if (steps && shim.is_in_step && shim.limit)
        report_burst();
    *place = at;
    return 0;
}

WEFT_EXPORT void free(void *at)
{
    if (weft_memory_has(at)) {
        weft_memory_give(at);
        if (shim.is_member && shim.lane.turn && is_stepper() && shim.is_in_step && weft_memory_lane_is_empty())
            release_between_steps();
    } else {
        free_below(at);
    }
}

WEFT_EXPORT void *realloc(void *at, size_t bytes)
{
    if (!weft_memory_has(at)) {
        if (next_realloc == NULL)
            find_what_is_below();
        return next_realloc(at, bytes);
    }
    size_t before = weft_memory_size(at);
    void *moved = bytes ? malloc(bytes) : NULL;
    if (moved)
        memcpy(moved, at, before < bytes ? before : bytes);
    if (moved || bytes == 0)
        weft_memory_give(at);
    return moved;
}

WEFT_EXPORT size_t malloc_usable_size(void *at)
{
    if (weft_memory_has(at))
        return weft_memory_size(at);
    return next_usable ? next_usable(at) : 0;
}

/* ---- forks ---- */

/* A child is another process: it has our memory as it was, and what it allocates is libc's. */
static void after_fork_in_child(void)
{
    weft_memory_after_fork_in_child();
    shim.turning = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (shim.is_member)
        weft_forget_lane(&shim.lane);
    shim.is_serving = shim.is_claimed = shim.is_member = false;
}

/* ---- what the runtime calls ---- */

uint64_t weft_native_version(void)
{
    return WEFT_NATIVE_VERSION;
}

/* pthread_atfork, which glibc makes of this. Weak, as __libc_free is: where it is not there, nothing is served. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static int at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return __register_atfork ? __register_atfork(before, in_parent, in_child, &__dso_handle) : ENOSYS;
}

int weft_native_begin(const char *tier, uint64_t limit, int is_strict, char *why, size_t why_bytes)
{
    if (shim.is_serving)
        return 0;
    say(why, why_bytes, "");
    int file = -1;
    if (tier[0] && (file = weft_cpu_tier(tier)) < 0 && why_bytes)
        snprintf(why, why_bytes, "no overflow to %s: %s", tier, strerror(-file));
    int error = weft_memory_begin(&weft_cpu, file, limit, is_strict != 0);
    if (error == 0)
        error = at_fork(weft_memory_before_fork, weft_memory_after_fork_in_parent, after_fork_in_child);
    if (error) {
        say(why, why_bytes, "no room for the tables of the allocator (is there a limit? ulimit -v, ulimit -d)");
        return error;
    }
    const char *poison = getenv("WEFT_POISON");
    shim.is_poisoning = poison && poison[0] == '1';
    atomic_store(&shim.is_serving, true);
    return 0;
}

int weft_native_claim(uint64_t *page)
{
    if (!shim.is_serving)
        return ENXIO;
    shim.page = (volatile struct weft_page *)(void *)page;
    shim.page->native = WEFT_NATIVE_VERSION;
    shim.is_claimed = true;
    atomic_store(&shim.stepper, &self);
    begin_computing();
    return 0;
}

int weft_native_join(const char *path, uint64_t capacity, int64_t base, int64_t weight, char *why, size_t why_bytes)
{
    if (!shim.is_claimed || shim.is_member) {
        say(why, why_bytes, "this process has no control page, or is in a lane already");
        return EINVAL;
    }
    int error = -weft_join(&shim.lane, path, capacity, base, weight, why, why_bytes);
    if (error)
        return error;
    error = weft_memory_use_lane(shim.lane.memory, shim.lane.lane->capacity, weft_reserved(&shim.lane));
    if (error) {
        weft_leave(&shim.lane);
        say(why, why_bytes, "there are no addresses for the lane (is there a limit? ulimit -v)");
        return error;
    }
    shim.lane.heeds_signals = true;
    shim.is_member = true;
    return 0;
}

uint64_t weft_native_rest(void)
{
    if (!shim.is_claimed)
        return 0;
    pay_if_owed();
    pthread_mutex_lock(&shim.turning);
    shim.is_in_step = false;
    shim.limit = shim.page->limit;
    struct weft_boundary seen = weft_memory_boundary(shim.limit, shim.is_poisoning);
    shim.page->persistent = seen.persistent;
    shim.page->ephemeral = seen.ephemeral;
    shim.page->overflow = seen.overflow;
    shim.page->peak = seen.peak;
    shim.page->copied_out = seen.copied_out;
    shim.page->idle = shim.duty.idle_ns;
    say_disobeyed(&seen);
    if (shim.is_member)
        release_turn(&seen);
    uint64_t not_own = shim.not_own_ns;
    shim.not_own_ns = 0;
    pthread_mutex_unlock(&shim.turning);
    return not_own;
}

void weft_native_let_pass(void)
{
    pthread_mutex_lock(&shim.turning);
    if (shim.is_member)
        shim.lane.lane->members[shim.lane.slot].needs = 0;
    if (shim.is_member && shim.is_lane_clear)
        weft_stand_back(&shim.lane);
    pthread_mutex_unlock(&shim.turning);
}

uint64_t weft_native_go(void)
{
    char why[200];
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    if (!shim.is_claimed)
        return 0;
    atomic_store(&shim.stepper, &self);
    if (weft_native_swap_in(why, sizeof why) != 0)
        say_line("%s; what is left there is used where it is", why);
    shim.is_in_step = true;
    begin_computing();
    return clock_ns(CLOCK_MONOTONIC) - began;
}

int weft_native_drop_caches(void)
{
    return weft_memory_drop_caches();
}

static int failed(int error, const char *what, char *why, size_t why_bytes)
{
    const char *reason = error == EBUSY    ? weft_world_why()
                         : error == ENOENT ? "there is no next tier: no folder was given, or it cannot be used"
                                           : strerror(error);
    if (why_bytes)
        snprintf(why, why_bytes, "no %s: %s", what, reason);
    return error;
}

int weft_native_swap_out(char *why, size_t why_bytes)
{
    int error = weft_memory_swap_out();
    return error ? failed(error, "swap-out", why, why_bytes) : 0;
}

int weft_native_swap_in(char *why, size_t why_bytes)
{
    int error = weft_memory_swap_in(); /* nothing, if nothing is out */
    return error ? failed(error, "swap-in", why, why_bytes) : 0;
}

static bool leave_lane(void)
{
    if (shim.is_member && weft_memory_leave_lane()) {
        shim.is_member = false;
        shim.is_lane_clear = true;
        weft_leave(&shim.lane);
    }
    return !shim.is_member;
}

int weft_native_leave_lane(void)
{
    pthread_mutex_lock(&shim.turning);
    bool has_left = leave_lane();
    pthread_mutex_unlock(&shim.turning);
    return has_left ? 0 : ENOMEM;
}

void weft_native_leave(void)
{
    shim.is_claimed = false;
    if (pthread_mutex_trylock(&shim.turning) != 0)
        return; /* another thread waits for a turn; waiters notice when we are gone */
    leave_lane();
    pthread_mutex_unlock(&shim.turning);
}

/* A script that ends without the interpreter's usual way out gives its turn back all the same. */
__attribute__((destructor)) static void end(void)
{
    weft_native_leave();
}

void weft_native_look(struct weft_native_state *state)
{
    memset(state, 0, sizeof *state);
    weft_memory_look(state);
    state->is_claimed = shim.is_claimed;
    state->idle = shim.duty.idle_ns;
}
