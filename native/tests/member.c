/* A member of a lane, for tests. In each turn it writes a pattern of its own over the lane's memory and reads it back:
 * if another had the turn at the same time, it says so. What it hashes depends on its number and steps alone.
 *
 * member PATH NUMBER STEPS [name=value]...   prints "joined", at the end "STEPS HASH USED"; STEPS = 0: until SIGTERM
 * member PATH NUMBER -     [name=value]...   does what the lines on its standard input say, and answers each */
#include "turnstile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512
#define MOST_ENTRIES 16384

struct entry {
    uint64_t number, used;
};

struct shared {
    uint64_t pattern[WORDS];
    uint64_t entries_count;
    struct entry entries[MOST_ENTRIES]; /* the member that had the turn, and what it had used before */
};

static struct {
    const char *path;
    uint64_t number, steps, spin_us, grace_ms, rejoins, idle;
    int64_t base, weight;
    struct weft_turnstile lane;
    struct shared *shared;
    uint64_t hash;
    volatile sig_atomic_t is_asked_to_end;
} member;

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

#ifdef WEFT_FAIL_POINTS
/* WEFT_FAIL is POINT:SIGNAL:TIMES: at the so-manieth time at that point, this process gets the signal. */
void weft_fail_point(const char *name)
{
    static int left;
    char point[64];
    int number, times;
    const char *wanted = getenv("WEFT_FAIL");
    if (wanted == NULL || sscanf(wanted, "%63[^:]:%d:%d", point, &number, &times) != 3 || strcmp(point, name) != 0)
        return;
    left = left ? left : times;
    if (left > 0 && --left == 0) {
        left = -1;
        kill(getpid(), number);
    }
}
#endif

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9) ^ b;
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void spin(uint64_t until_ns)
{
    while (weft_now_ns() < until_ns)
        ;
}

static void have_memory(void)
{
    struct weft_lane *lane = member.lane.lane;
    if (weft_reserved(&member.lane) >= sizeof(struct shared)) /* not what the page says: another member writes there */
        return;
    if (posix_fallocate(member.lane.memory, 0, sizeof(struct shared)) != 0)
        fail("no room for the lane's memory");
    lane->reserved = sizeof(struct shared);
}

static void note_turn(void)
{
    uint64_t at = member.shared->entries_count++ % MOST_ENTRIES;
    member.shared->entries[at] = (struct entry){member.number, member.lane.lane->members[member.lane.slot].used};
}

/* What a step does with the lane. */
static void work(uint64_t step)
{
    volatile uint64_t *pattern = member.shared->pattern;
    for (uint64_t i = 0; i < WORDS; i++)
        pattern[i] = mix(member.number, mix(step, i));
    spin(weft_now_ns() + member.spin_us * 1000);
    for (uint64_t i = 0; i < WORDS; i++) {
        if (pattern[i] != mix(member.number, mix(step, i)))
            fail("two had the turn at once");
        member.hash = mix(member.hash, pattern[i]);
    }
}

static void join(void)
{
    char why[300] = "";
    int error =
        weft_join(&member.lane, member.path, sizeof(struct shared), member.base, member.weight, why, sizeof why);
    if (error) {
        fprintf(stderr, "%s: %s\n", strerror(-error), why);
        exit(2);
    }
    if (member.grace_ms)
        member.lane.lane->stopped_grace = member.grace_ms * 1000000;
    member.shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, member.lane.memory, 0);
    if (member.shared == MAP_FAILED)
        fail("the lane's memory cannot be mapped");
}

static void leave(void)
{
    munmap(member.shared, sizeof(struct shared));
    weft_leave(&member.lane);
}

/* As at a step boundary. */
static uint64_t next_turn(void)
{
    weft_pass_turn(&member.lane);
    return weft_take_turn(&member.lane);
}

static uint64_t take(void)
{
    uint64_t waited = next_turn();
    if (waited == UINT64_MAX)
        fail("no member any more");
    have_memory();
    note_turn();
    return waited;
}

static uint64_t count(bool only_waiting)
{
    uint64_t members = 0;
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS; slot++) {
        const struct weft_member *other = &member.lane.lane->members[slot];
        members += other->pid && (other->waits_since || !only_waiting);
    }
    return members;
}

/* With idle=N, a turn lasts until all but N members wait, so that the order of turns is a matter of keys alone. */
static void wait_for_others(void)
{
    while (member.idle && count(true) + member.idle < count(false))
        sched_yield();
}

static uint64_t run(void)
{
    uint64_t step = 0;
    while (!member.is_asked_to_end && (member.steps == 0 || step < member.steps)) {
        take();
        work(step++);
        wait_for_others();
    }
    return step;
}

/* ---- by hand ---- */

static void print_waiting(uint64_t number)
{
    (void)number;
    printf("%" PRIu64 "\n", count(true));
}

static void print_members(uint64_t number)
{
    (void)number;
    printf("%" PRIu64 "\n", count(false));
}

static void print_entries(uint64_t number)
{
    (void)number;
    for (uint64_t i = 0; i < member.shared->entries_count; i++)
        printf("%" PRIu64 ",%" PRIu64 " ", member.shared->entries[i].number, member.shared->entries[i].used);
    printf("\n");
}

/* From here on the kernel ends us at the first system call but exit. (Its strict mode would forbid the clock too.) */
static bool seal(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void take_turns_without_system_calls(uint64_t turns)
{
    bool is_sealed = seal();
    for (uint64_t i = 0; i < turns; i++)
        if (next_turn() == UINT64_MAX)
            is_sealed = false;
    syscall(SYS_exit, is_sealed ? 0 : 77);
}

static void fork_a_child(uint64_t number)
{
    (void)number;
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        weft_forget_lane(&member.lane);
        _exit(member.lane.lane != NULL || member.lane.page || weft_take_turn(&member.lane) != UINT64_MAX);
    }
    waitpid(child, &status, 0);
    printf("%d\n", status);
}

static void on_alarm(int number)
{
    (void)number;
}

static void be_alarmed(uint64_t number)
{
    (void)number;
    struct sigaction often = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}; /* which a timed wait does not heed */
    struct itimerval every = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &often, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    printf("alarmed\n");
}

static void take_turn(uint64_t number)
{
    (void)number;
    printf("%" PRIu64 "\n", take());
}

static void release(uint64_t number)
{
    (void)number;
    weft_release_turn(&member.lane);
    printf("released\n");
}

static void pass_turn(uint64_t number)
{
    (void)number;
    weft_pass_turn(&member.lane);
    printf("passed\n");
}

static void need(uint64_t bytes)
{
    member.lane.lane->members[member.lane.slot].needs = bytes;
    printf("%" PRIu64 "\n", weft_most_needed(&member.lane));
}

static void become_another_program(uint64_t seconds)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, seconds);
    execlp("sleep", "sleep", text, (char *)NULL);
}

static const struct {
    const char *word;
    void (*act)(uint64_t number);
} words_known[] = {
    {"take", take_turn},        {"release", release},    {"pass", pass_turn},        {"needs", need},
    {"waiting", print_waiting}, {"members", print_members}, {"entries", print_entries},
    {"fork", fork_a_child},     {"alarm", be_alarmed},   {"exec", become_another_program},
    {"sealed", take_turns_without_system_calls},
};

static void obey(const char *word, uint64_t number)
{
    for (size_t i = 0; i < sizeof words_known / sizeof *words_known; i++)
        if (strcmp(words_known[i].word, word) == 0) {
            words_known[i].act(number);
            return;
        }
    fail("no such word");
}

static void obey_lines(void)
{
    char line[100], word[20];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t number = 0;
        if (sscanf(line, "%19s %" SCNu64, word, &number) >= 1)
            obey(word, number);
        fflush(stdout);
    }
}

/* ---- the program ---- */

static void set(const char *word)
{
    char name[20];
    long long value;
    if (sscanf(word, "%19[^=]=%lld", name, &value) != 2)
        fail("name=value is what an option looks like");
    if (strcmp(name, "base") == 0)
        member.base = value;
    else if (strcmp(name, "weight") == 0)
        member.weight = value;
    else if (strcmp(name, "spin_us") == 0)
        member.spin_us = (uint64_t)value;
    else if (strcmp(name, "grace_ms") == 0)
        member.grace_ms = (uint64_t)value;
    else if (strcmp(name, "idle") == 0)
        member.idle = (uint64_t)value;
    else if (strcmp(name, "rejoins") == 0)
        member.rejoins = (uint64_t)value;
    else
        fail("no such option");
}

static void ask_to_end(int number)
{
    (void)number;
    member.is_asked_to_end = 1;
}

int main(int count, char **words)
{
    struct sigaction ending = {.sa_handler = ask_to_end};
    if (count < 4)
        fail("member PATH NUMBER STEPS [name=value]...");
    member.path = words[1];
    member.number = strtoull(words[2], NULL, 10);
    member.steps = strtoull(words[3], NULL, 10);
    for (int i = 4; i < count; i++)
        set(words[i]);
    sigaction(SIGTERM, &ending, NULL);
    join();
    printf("joined\n");
    fflush(stdout);
    if (strcmp(words[3], "-") == 0) {
        obey_lines();
        leave();
        return 0;
    }
    uint64_t steps = run();
    for (uint64_t i = 0; i < member.rejoins; i++) {
        leave();
        join();
        steps += run();
    }
    weft_release_turn(&member.lane);
    printf("%" PRIu64 " %016" PRIx64 " %" PRIu64 "\n", steps, member.hash,
           (uint64_t)member.lane.lane->members[member.lane.slot].used);
    leave();
    return 0;
}
