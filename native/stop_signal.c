#include "stop_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GLIBC_SIGSETXID 33
#define GLIBC_SIGRTMIN 34 /* 32 and 33 are glibc's own; another libc may keep others */

/* glibc's sigaction refuses its own signals, so the kernel is asked directly, with the structure of these machines.
 * Elsewhere an ordinary signal is used, which threads can block. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(WEFT_ORDINARY_SIGNAL)
#define CAN_USE_SIGSETXID 1
#else
#define CAN_USE_SIGSETXID 0
#endif

typedef void (*signal_handler)(int, siginfo_t *, void *);

struct kernel_action {
    signal_handler handler;
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static struct {
    void (*park)(void);
    int ordinary;              /* a real-time signal that was free, kept if it has to be used; 0: none was */
    bool is_ready;             /* `ours` is filled in */
    struct kernel_action ours; /* for SIGSETXID */
    struct kernel_action next; /* the handler that was there before: signals that are not ours are passed on to it */
} stopping;

static bool is_callable(signal_handler handler)
{
    return handler != (signal_handler)(void *)SIG_DFL && handler != (signal_handler)(void *)SIG_IGN;
}

static void pass_on(int number, siginfo_t *from, void *context)
{
    signal_handler handler = stopping.next.handler;
    if (number != GLIBC_SIGSETXID || !is_callable(handler))
        return;
    if (stopping.next.flags & SA_SIGINFO)
        handler(number, from, context);
    else
        ((void (*)(int))(void *)handler)(number);
}

static void receive(int number, siginfo_t *from, void *context)
{
    int error = errno;
    if (from->si_code == SI_QUEUE && from->si_value.sival_ptr == &stopping)
        stopping.park();
    else
        pass_on(number, from, context);
    errno = error;
}

static long kernel_sigaction(int number, const struct kernel_action *new, struct kernel_action *old)
{
    return syscall(SYS_rt_sigaction, number, new, old, sizeof new->mask);
}

static int take_free_signal(void)
{
    for (int number = SIGRTMAX - 1; number > SIGRTMIN; number--) {
        struct sigaction present;
        if (sigaction(number, NULL, &present) != 0 || present.sa_handler != SIG_DFL)
            continue;
        struct sigaction ours = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
        sigfillset(&ours.sa_mask);
        if (sigaction(number, &ours, NULL) == 0)
            return number;
    }
    return 0;
}

/* The way back from a handler (`restorer`) is glibc's: an action that glibc has installed is taken as the pattern, and
 * its signal is free again. All signals are blocked meanwhile: a cancellation would leave the handler for good. */
static void take_pattern(void)
{
    if (kernel_sigaction(stopping.ordinary, NULL, &stopping.ours) != 0 || stopping.ours.handler != receive)
        return;
    stopping.ours.mask = UINT64_MAX;
    stopping.is_ready = true;
    struct sigaction none = {.sa_handler = SIG_DFL};
    (void)sigaction(stopping.ordinary, &none, NULL);
    stopping.ordinary = 0;
}

void weft_stop_signal_begin(void (*park)(void))
{
    if (stopping.is_ready || stopping.ordinary)
        return;
    stopping.park = park;
    stopping.ordinary = take_free_signal();
    if (CAN_USE_SIGSETXID && SIGRTMIN == GLIBC_SIGRTMIN && stopping.ordinary)
        take_pattern();
}

static bool install_over_glibc(void)
{
    struct kernel_action present;
    if (kernel_sigaction(GLIBC_SIGSETXID, NULL, &present) != 0)
        return false;
    if (present.handler == receive)
        return true;
    stopping.next = present; /* first: what comes from glibc the moment after has to be passed on */
    return kernel_sigaction(GLIBC_SIGSETXID, &stopping.ours, NULL) == 0;
}

int weft_stop_signal_install(void)
{
    struct sigaction present;
    if (stopping.is_ready)
        return install_over_glibc() ? GLIBC_SIGSETXID : 0;
    bool is_ours = stopping.ordinary && sigaction(stopping.ordinary, NULL, &present) == 0
                   && present.sa_sigaction == receive; /* else the program has taken it for itself since */
    return is_ours ? stopping.ordinary : 0;
}

int weft_stop_signal_send(pid_t thread)
{
    siginfo_t sent;
    memset(&sent, 0, sizeof sent);
    sent.si_code = SI_QUEUE;
    sent.si_pid = getpid();
    sent.si_uid = getuid();
    sent.si_value.sival_ptr = &stopping;
    int number = stopping.is_ready ? GLIBC_SIGSETXID : stopping.ordinary;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, number, &sent) == 0 ? 0 : errno;
}
