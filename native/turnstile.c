#include "turnstile.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define AWAY_NS UINT64_C(3000000) /* a member that is away may take so long to come for its turn */
#define OFTEN_LATE 3              /* times in a row: once may be the machine's doing */
#define FIRST_LOOK_NS UINT64_C(20000000) /* a waiter looks after the holder as often as that, then less and less */
#define LAST_LOOK_NS UINT64_C(100000000)
#define MOST_TRIES (4 * WEFT_LANE_MEMBERS) /* to find a member that comes for its turn */
#define ROUND_NS UINT64_C(1000000000) /* and after all others as often as that */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a bell's lower half is its first");

/* ---- bells ---- */

static uint32_t *half_of(weft_word *bell)
{
    return (uint32_t *)(void *)bell;
}

/* Whether a waiter slept on it. */
static bool ring(weft_word *bell)
{
    atomic_fetch_add(bell, 1);
    weft_fail_point("bell-counted");
    return syscall(SYS_futex, half_of(bell), FUTEX_WAKE, 1, NULL, NULL, 0) > 0;
}

/* Whether a signal came. */
static bool sleep_until(weft_word *bell, uint64_t heard, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
    return syscall(SYS_futex, half_of(bell), FUTEX_WAIT_BITSET, (uint32_t)heard, &until, NULL, FUTEX_BITSET_MATCH_ANY)
               != 0
           && errno == EINTR;
}

/* ---- the next member ---- */

static bool is_accepted(uint64_t turn)
{
    return turn >> 8 & 1;
}

struct choice {
    unsigned slot;
    uint64_t since;
    __int128 key; /* base + weight * used does not fit into less */
};

static struct choice candidate(struct weft_member *member, unsigned slot)
{
    __int128 earned = (__int128)member->weight * member->used / 1000;
    return (struct choice){slot, member->waits_since, member->base + earned};
}

static bool comes_before(const struct choice *one, const struct choice *other)
{
    if (one->key != other->key)
        return one->key < other->key;
    return one->since < other->since; /* if that is equal too, the lower slot was seen first */
}

/* The next member, apart from `but`. */
static struct choice choose(struct weft_lane *lane, unsigned but)
{
    struct choice best = {.slot = WEFT_NO_MEMBER};
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS; slot++) {
        if (lane->members[slot].pid == 0 || slot == but)
            continue;
        struct choice this = candidate(&lane->members[slot], slot);
        if (this.since && (best.slot == WEFT_NO_MEMBER || comes_before(&this, &best)))
            best = this;
    }
    return best;
}

/* It shall not be chosen again. If it lives it finds that out when it wakes, and waits anew. */
static void withdraw(struct weft_member *member, uint64_t since)
{
    if (since)
        atomic_compare_exchange_strong(&member->waits_since, &since, 0);
}

/* Notify a member that it was chosen. False if it cannot come: another one is to be chosen. A stopped process does not
 * sleep on its bell, so this costs nothing where all is well. */
static bool call(struct weft_turnstile *mine, const struct choice *next)
{
    struct weft_member *member = &mine->lane->members[next->slot];
    if (next->slot == mine->slot)
        return true;
    atomic_fetch_add(&mine->lane->handovers, 1);
    if (ring(&member->bell))
        return true;
    enum weft_life life = weft_life_of_member(mine->lane, member);
    if (life == WEFT_LIVES)
        return true;
    withdraw(member, next->since);
    atomic_fetch_add(&mine->lane->bereaved, life == WEFT_GONE);
    return false;
}

/* A member that is away was chosen: the next one checks whether it comes. */
static void have_watched(struct weft_lane *lane, unsigned slot)
{
    struct choice second = choose(lane, slot);
    if (lane->members[slot].away && second.slot != WEFT_NO_MEMBER && !lane->members[second.slot].away)
        ring(&lane->members[second.slot].bell);
}

/* Offer the turn after `turn` to the next member. False if `turn` is over already, and nothing was done. */
static bool hand_on(struct weft_turnstile *mine, uint64_t turn)
{
    struct weft_lane *lane = mine->lane;
    bool was_ours = false;
    for (unsigned tries = 0; tries < MOST_TRIES; tries++, was_ours = true) {
        struct choice next = choose(lane, WEFT_NO_MEMBER);
        if (was_ours && next.slot == WEFT_NO_MEMBER && weft_slot_of(turn) == WEFT_NO_MEMBER)
            return true; /* no member began to wait before the turn was free: one that begins now sees that */
        uint64_t offered = weft_turn_after(turn, next.slot);
        if (!atomic_compare_exchange_strong(&lane->turn, &turn, offered))
            return was_ours;
        weft_fail_point("turn-offered");
        if (next.slot != WEFT_NO_MEMBER && call(mine, &next)) {
            have_watched(lane, next.slot);
            return true;
        }
        turn = offered;
    }
    return true; /* words that change by themselves: the next waiter looks after the turn */
}

/* ---- looking after the others ---- */

static void say_ended(uint64_t pid, uint64_t grace_ns)
{
    char line[160];
    int length = snprintf(line, sizeof line, "weft: killed process %llu, which was stopped in its turn for %.3g s\n",
                          (unsigned long long)pid, (double)grace_ns / 1e9);
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
        return; /* stderr is not usable */
}

/* The turn is stuck. If its member has died, take it from there. One that is stopped may be passed over, unless it
 * has accepted the turn: then it may be writing, and has to be ended first. One that lives and does not wait came into
 * its slot just when the turn was offered to the one before. One that is away has not come; it waits again then. */
static void look_after(struct weft_turnstile *mine, uint64_t turn, struct weft_watch *watch)
{
    struct weft_lane *lane = mine->lane;
    unsigned slot = weft_slot_of(turn);
    struct weft_member none = {0}, *member = slot < WEFT_LANE_MEMBERS ? &lane->members[slot] : &none;
    uint64_t pid = member->pid, start = member->start, since = member->waits_since;
    enum weft_life life = pid == mine->pid ? WEFT_GONE : weft_life_of_member(lane, member); /* ours is another slot */
    bool stands_too_long = weft_stands_too_long(watch, life, turn, weft_stopped_grace(lane));
    if (lane->turn != turn)
        return;
    if (is_accepted(turn) && stands_too_long && weft_has_our_memory(mine, member) && weft_end_stopped(pid, start))
        say_ended(pid, weft_stopped_grace(lane));
    if (life != WEFT_GONE && is_accepted(turn))
        return;
    if (life == WEFT_LIVES && since && !member->away)
        return;
    if (life == WEFT_LIVES)
        withdraw(member, since);
    weft_fail_point("found-it-dead");
    if (!hand_on(mine, turn) || life != WEFT_GONE)
        return;
    atomic_fetch_add(&lane->bereaved, 1);
    weft_free_slots(mine);
}

/* Members may die while they neither hold nor want the turn; what they needed is not needed any more. */
static void look_round(struct weft_turnstile *mine)
{
    struct weft_lane *lane = mine->lane;
    bool has_died = false;
    for (unsigned slot = 0; slot < WEFT_LANE_MEMBERS && !has_died; slot++)
        has_died = lane->members[slot].pid && slot != mine->slot && !weft_may_live(lane->members[slot].pid);
    if (has_died)
        weft_free_slots(mine);
}

/* ---- turns ---- */

static bool is_member(const struct weft_turnstile *mine)
{
    const struct weft_lane *lane = mine->lane;
    return lane && lane->magic == WEFT_LANE_MAGIC && lane->members[mine->slot].pid == mine->pid &&
           lane->members[mine->slot].start == mine->start;
}

static bool accept_turn(struct weft_turnstile *mine, uint64_t offered)
{
    struct weft_member *me = &mine->lane->members[mine->slot];
    uint64_t turn = offered | 1 << 8;
    weft_fail_point("offer-seen");
    if (!atomic_compare_exchange_strong(&mine->lane->turn, &offered, turn))
        return false;
    weft_fail_point("turn-accepted");
    me->waits_since = 0;
    mine->turn = turn;
    mine->began_ns = weft_now_ns();
    return true;
}

static bool is_of_one_away(const struct weft_lane *lane, uint64_t turn)
{
    unsigned slot = weft_slot_of(turn);
    return !is_accepted(turn) && slot < WEFT_LANE_MEMBERS && lane->members[slot].away;
}

/* True if a signal came that is to be heeded. */
static bool wait_for_change(struct weft_turnstile *mine, uint64_t turn, uint64_t heard, struct weft_watch *watch)
{
    weft_word *bell = &mine->lane->members[mine->slot].bell;
    uint64_t wait_ns = is_of_one_away(mine->lane, turn) ? AWAY_NS : FIRST_LOOK_NS;
    weft_word *since = &mine->lane->members[mine->slot].waits_since; /* 0: we were passed, and have to wait anew */
    while (mine->lane->turn == turn && *bell == heard && *since) {
        uint64_t until = weft_now_ns() + wait_ns;
        weft_fail_point("about-to-sleep");
        while (*bell == heard && weft_now_ns() < until)
            if (sleep_until(bell, heard, until) && mine->heeds_signals)
                return true;
        if (*bell == heard)
            look_after(mine, turn, watch);
        wait_ns = wait_ns * 2 < LAST_LOOK_NS ? wait_ns * 2 : LAST_LOOK_NS;
    }
    return false;
}

uint64_t weft_take_turn(struct weft_turnstile *mine)
{
    struct weft_watch watch = {0};
    uint64_t began = weft_now_ns();
    if (mine->turn)
        return 0;
    if (mine->passed_ns) {
        mine->late = began - mine->passed_ns > AWAY_NS ? mine->late + 1 : 0;
        mine->passed_ns = 0;
    }
    if (mine->lane && began - mine->looked_ns > ROUND_NS) {
        mine->looked_ns = began;
        look_round(mine);
    }
    while (is_member(mine)) {
        struct weft_member *me = &mine->lane->members[mine->slot];
        uint64_t heard = me->bell; /* before all else: what changes after we looked rings it */
        me->away = 0;
        if (me->waits_since == 0)
            me->waits_since = began;
        weft_fail_point("waiting");
        uint64_t turn = mine->lane->turn;
        if (weft_slot_of(turn) == WEFT_NO_MEMBER) {
            hand_on(mine, turn);
        } else if (weft_slot_of(turn) == mine->slot) {
            if (accept_turn(mine, turn))
                return mine->began_ns - began;
        } else if (wait_for_change(mine, turn, heard, &watch)) {
            me->away = 1;
            return weft_now_ns() - began;
        }
    }
    weft_forget_lane(mine);
    return UINT64_MAX;
}

void weft_release_turn(struct weft_turnstile *mine)
{
    uint64_t turn = mine->turn;
    mine->turn = 0;
    if (turn == 0 || !is_member(mine) || mine->lane->turn != turn)
        return;
    struct weft_member *me = &mine->lane->members[mine->slot];
    me->used += weft_now_ns() - mine->began_ns; /* before the others compare keys */
    me->turns++;
    weft_fail_point("turn-accounted");
    hand_on(mine, turn);
}

uint64_t weft_most_needed(const struct weft_turnstile *mine)
{
    uint64_t most = 0;
    for (unsigned slot = 0; mine->lane && slot < WEFT_LANE_MEMBERS; slot++) {
        const struct weft_member *member = &mine->lane->members[slot];
        uint64_t needs = member->pid ? member->needs : 0;
        most = needs > most ? needs : most;
    }
    return most;
}

bool weft_is_wanted(const struct weft_turnstile *mine)
{
    for (unsigned slot = 0; mine->lane && slot < WEFT_LANE_MEMBERS; slot++) {
        const struct weft_member *member = &mine->lane->members[slot];
        if (slot != mine->slot && member->pid && member->waits_since)
            return true;
    }
    return false;
}

void weft_pass_turn(struct weft_turnstile *mine)
{
    if (mine->turn && is_member(mine)) {
        struct weft_member *me = &mine->lane->members[mine->slot];
        mine->passed_ns = weft_now_ns();
        me->away = 1;
        me->waits_since = mine->late < OFTEN_LATE ? mine->passed_ns : 0;
    }
    weft_release_turn(mine);
}

void weft_stand_back(struct weft_turnstile *mine)
{
    weft_release_turn(mine);
    if (!is_member(mine))
        return;
    mine->lane->members[mine->slot].waits_since = 0;
    uint64_t turn = mine->lane->turn;
    if (weft_slot_of(turn) == mine->slot && !is_accepted(turn))
        hand_on(mine, turn);
}
