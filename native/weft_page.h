/* The control page: one page of shared memory between a task and its coordinator.
 * Its Python twin is src/weft/runtime/page/layout.py; a test compares them. */
#ifndef WEFT_PAGE_H
#define WEFT_PAGE_H

#include <stdint.h>

#define WEFT_PAGE_BYTES 4096
#define WEFT_PAGE_MAGIC UINT64_C(0x4547415054464557) /* "WEFTPAGE" in the file */
#define WEFT_PAGE_VERSION 2

struct weft_metric {
    char name[24];
    double value;
};

struct weft_page {
    /* written once, by the launcher of the task */
    uint64_t magic;
    uint64_t version;
    uint64_t size;
    uint64_t attempt;
    uint64_t launcher_pid;
    uint64_t launcher_start; /* as in /proc/PID/stat */
    uint64_t task_pid;       /* leader of the task's process group */
    uint64_t task_start;

    /* coordinator -> job */
    uint64_t request; /* generation << 8 | wanted depth; the job waits on its lower half */
    uint64_t run_to;  /* a job gates only once it has completed this step */
    uint64_t duty;    /* per cent */
    uint64_t limit;   /* device memory in bytes, 0 = none */
    uint64_t lane;    /* device + 1 << 32 | which of its lanes, 0 = none, or the one that the environment names */
    int64_t lane_base; /* the next turn is of the waiting member with the smallest base + weight * used / 1000 */
    int64_t lane_weight;
    uint64_t stopped; /* the generation whose pause stopped the process group, 0 = it is not stopped */

    /* job -> coordinator */
    uint64_t claim_pid;
    uint64_t claim_start;
    uint64_t rank;
    uint64_t world;     /* ranks that step together, 0 = no gang */
    uint64_t state;     /* generation it answers << 8 | state; the coordinator waits on its lower half */
    uint64_t step;      /* steps completed */
    uint64_t heartbeat; /* monotonic nanoseconds */
    uint64_t source;    /* where step boundaries come from */
    uint64_t persistent; /* bytes; this and the next, overflow and idle to peak are the native library's */
    uint64_t ephemeral;
    uint64_t host;
    uint64_t overflow;
    uint64_t checkpoint; /* last checkpoint: 1 + its step, 0 = none */
    uint64_t abilities;
    uint64_t depth;  /* how deep the present pause has got */
    uint64_t paused; /* nanoseconds spent in pauses; no step's duration contains them */
    uint64_t durations_count;
    uint64_t idle;        /* nanoseconds that the duty inserted, ever */
    uint64_t turns;       /* taken in the lane */
    uint64_t turn_waited; /* nanoseconds, ever */
    uint64_t copied_out;  /* bytes of survivors, ever */
    uint64_t peak;        /* most bytes on the device */
    uint64_t native;      /* version of the native library that serves this process, 0 = none */
    uint64_t unused_1[1];

    uint64_t durations[64]; /* a ring, nanoseconds */
    uint64_t message_length;
    char message[248]; /* UTF-8: what the job has to say about its state */
    uint64_t metrics_count;
    struct weft_metric metrics[8];
    uint64_t unused_2[343];
};

_Static_assert(sizeof(struct weft_page) == WEFT_PAGE_BYTES, "the control page is one page");

#endif
