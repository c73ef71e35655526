#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    _Atomic uintptr_t from;
    _Atomic size_t bytes;
    bool is_installed;
    struct sigaction before;
} guard;

static bool is_guarded(const siginfo_t *info)
{
    uintptr_t at = (uintptr_t)info->si_addr, from = guard.from;
    return info->si_code > 0 && from && at >= from && at - from < guard.bytes;
}

/* Zeros in the place of the whole mapping: the words that are still there belong to a page that is not whole. */
static bool replace_by_zeros(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return mmap((void *)guard.from, guard.bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int error = errno;
    (void)context;
    if (!is_guarded(info) || !replace_by_zeros()) {
        sigaction(SIGBUS, &guard.before, NULL); /* the instruction faults again there */
        if (info->si_code <= 0)
            raise(number); /* it was sent, so nothing faults */
    }
    errno = error;
}

void weft_guard(void *at, size_t bytes)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    guard.from = 0;
    guard.bytes = bytes;
    guard.from = (uintptr_t)at;
    if (at == NULL || guard.is_installed) /* once: a handler that came after ours may call ours in turn */
        return;
    sigemptyset(&action.sa_mask);
    guard.is_installed = sigaction(SIGBUS, &action, &guard.before) == 0;
}
