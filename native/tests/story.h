/* Tests as stories: each is a function whose name is a sentence. Every story runs in a process of its own, because
 * the library has one state a process, and within a given time, because what goes wrong may be that nothing goes on.
 *
 *     PROGRAM [--seed N] [--rounds N] [--list | STORY]
 */
#ifndef WEFT_STORY_H
#define WEFT_STORY_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-function" /* not every program needs every word */

#define STORY_SKIPPED 77
#define STORY_SECONDS 60u

struct story {
    const char *name;
    void (*tell)(void);
};

#define STORY(function) {#function, function}

static struct {
    const char *name;
    uint64_t seed;
    unsigned rounds; /* how many times longer than usual; for stress */
    uint64_t state;
} this_story = {.name = "", .seed = 1, .rounds = 1};

#define holds(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            story_ends_badly(__FILE__, __LINE__, #condition, "" __VA_ARGS__);                                          \
    } while (0)

_Noreturn static void story_ends_badly(const char *file, int line, const char *condition, const char *why)
{
    fprintf(stderr, "%s:%d: in %s (seed %llu): it does not hold that %s %s\n", file, line, this_story.name,
            (unsigned long long)this_story.seed, condition, why);
    fflush(stdout);
    _exit(1);
}

_Noreturn static void story_cannot_be_told(const char *why)
{
    printf("skipped: %s\n", why);
    fflush(stdout);
    _exit(STORY_SKIPPED);
}

/* xorshift64*; threads keep a state of their own. */
static uint64_t chance_of(uint64_t *state, uint64_t below)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * UINT64_C(2685821657736338717) >> 16) % below;
}

static uint64_t chance(uint64_t below)
{
    return chance_of(&this_story.state, below);
}

static int tell(const struct story *story)
{
    fflush(stdout);
    pid_t teller = fork();
    if (teller == 0) {
        this_story.name = story->name;
        this_story.state = this_story.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        alarm(STORY_SECONDS * this_story.rounds);
        story->tell();
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    while (waitpid(teller, &status, 0) < 0 && errno == EINTR)
        continue;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const char *end = code == 0 ? "ok" : code == STORY_SKIPPED ? "skipped" : code == 128 + SIGALRM ? "HANGS" : "FAILS";
    printf("%-7s %s (seed %llu)\n", end, story->name, (unsigned long long)this_story.seed);
    return code;
}

static int tell_stories(int argc, char **argv, const struct story *stories, size_t count)
{
    const char *only = NULL;
    int worst = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            for (size_t each = 0; each < count; each++)
                puts(stories[each].name);
            return 0;
        }
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            this_story.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            this_story.rounds = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            only = argv[i];
    }
    bool is_found = only == NULL;
    for (size_t each = 0; each < count; each++) {
        if (only && strcmp(only, stories[each].name) != 0)
            continue;
        is_found = true;
        int code = tell(&stories[each]);
        if (code && (worst == 0 || worst == STORY_SKIPPED) && (code != STORY_SKIPPED || only))
            worst = code;
    }
    if (!is_found)
        fprintf(stderr, "no story is called %s\n", only);
    return is_found ? worst : 2;
}

#endif
