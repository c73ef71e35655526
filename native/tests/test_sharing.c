#include "pieces.h"

#include <semaphore.h>

/* What two members share besides the lane: the turn, and how large the lane is now. */
struct table {
    sem_t turn[2];
    atomic_ulong reserved;
    atomic_ulong ended;
};

static struct table *table;
static int lane_file;
static pid_t members[2];

static void a_lane_for_two(void)
{
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lane_file = memfd_create("weft-lane", MFD_CLOEXEC);
    holds(table != MAP_FAILED && lane_file >= 0);
    sem_init(&table->turn[0], 1, 1);
    sem_init(&table->turn[1], 1, 0);
}

static void wait_for_turn(int self)
{
    while (sem_wait(&table->turn[self]) != 0)
        holds(errno == EINTR);
}

static void go_separate_ways(void (*member)(int))
{
    for (int self = 0; self < 2; self++) {
        members[self] = fork();
        if (members[self] == 0) {
            alarm(STORY_SECONDS * this_story.rounds);
            this_story.state += (uint64_t)(self + 1) * 7919;
            member(self);
            _exit(0);
        }
    }
    int status, worst = 0;
    for (int self = 0; self < 2; self++) {
        pid_t ended = wait(&status);
        worst = status ? status : worst;
        if (status) /* the other waits for a turn that will not come */
            kill(ended == members[0] ? members[1] : members[0], SIGTERM);
    }
    holds(worst == 0, "both members came to a good end");
}

static struct weft_boundary hand_over(int self, size_t capacity, bool poison)
{
    struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, poison);
    atomic_store(&table->reserved, seen.lane_reserved);
    sem_post(&table->turn[!self]);
    wait_for_turn(self);
    weft_memory_turn_begins(atomic_load(&table->reserved), capacity);
    return seen;
}

static void enter_lane(int self, size_t capacity)
{
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, capacity, 0) == 0);
    wait_for_turn(self);
    weft_memory_boundary(NO_LIMIT, false); /* before the first step nothing is in the lane */
    weft_memory_turn_begins(atomic_load(&table->reserved), capacity);
}

static void leave_lane(int self)
{
    struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true);
    atomic_store(&table->reserved, seen.lane_reserved);
    atomic_fetch_add(&table->ended, 1);
    sem_post(&table->turn[!self]);
}

/* Random steps: most of what is taken dies within its step, some lives on for a while. */
static void live_in_the_lane(int self)
{
    enter_lane(self, 16 * MIB);
    struct piece kept[16] = {0};
    uint64_t most_private = 0;
    for (unsigned step = 0; step < 120 * this_story.rounds; step++) {
        struct piece short_lived[12] = {0};
        for (int i = 0; i < 12; i++)
            short_lived[i] = a_young_piece(4096 + chance(step % 7 ? 60000 : 700000));
        for (int i = 0; i < 12; i++) {
            struct piece *place = &kept[chance(16)];
            if (chance(8) == 0 && place->at == NULL)
                *place = short_lived[i];
            else
                give(&short_lived[i]);
        }
        for (int i = 0; i < 16; i++)
            if (kept[i].at && chance(12) == 0)
                give(&kept[i]);
        hand_over(self, 16 * MIB, true);
        for (int i = 0; i < 16; i++)
            holds(kept[i].at == NULL || is_intact(&kept[i]), "a survivor is what it was");
        struct weft_native_state now = state();
        most_private = now.lane_private > most_private ? now.lane_private : most_private;
    }
    holds(most_private > 0 && state().copied_out > 10);
    for (int i = 0; i < 16; i++)
        if (kept[i].at)
            give(&kept[i]);
    leave_lane(self);
}

static void survivors_are_what_they_were_when_the_lane_comes_back(void)
{
    a_lane_for_two();
    go_separate_ways(live_in_the_lane);
}

static void write_to_survivors(int self)
{
    void *(*ways[])(void *) = {count_in_every_page, count_with_signals_blocked, wake_and_count_with_signals_blocked};
    enter_lane(self, 16 * MIB);
    for (unsigned step = 0; step < 15 * this_story.rounds; step++) { /* of another size each time: not foreseen */
        struct piece dies = a_young_piece(MIB), lives = a_young_piece((300 + step * 20) * PAGE + 1000);
        atomic_store(&is_over, false);
        start(ways[step % 3], &lives);
        give(&dies);
        hand_over(self, 16 * MIB, true); /* it writes in our turn, in between, and in no turn */
        join_all();
        weft_memory_give(lives.at);
    }
    holds(state().copied_out >= 10);
    leave_lane(self);
}

static void other_threads_may_write_to_survivors_at_any_time(void)
{
    a_lane_for_two();
    go_separate_ways(write_to_survivors);
}

static void learn_in_the_lane(int self)
{
    enter_lane(self, 16 * MIB);
    struct piece logits = {0};
    uint64_t settled = 0;
    for (int step = 0; step < 60; step++) {
        struct piece one = a_young_piece(200000), other = a_young_piece(50000), next = a_young_piece(50000);
        give(&one);
        give(&other);
        if (logits.at)
            give(&logits);
        logits = next;
        hand_over(self, 16 * MIB, true);
        holds(is_intact(&logits));
        if (step == 4)
            settled = state().copied_out;
    }
    holds(settled > 0 && state().copied_out == settled, "kinds that outlive their step are known by then");
    holds(state().lane_private == 0, "and the pages of the first survivors are shared again");
    leave_lane(self);
}

static void kinds_that_outlive_their_step_are_learnt(void)
{
    a_lane_for_two();
    go_separate_ways(learn_in_the_lane);
}

static void change_habits(int self)
{
    enter_lane(self, 16 * MIB);
    for (int step = 0; step < 4; step++) {
        struct piece lives = a_young_piece(500000);
        hand_over(self, 16 * MIB, true);
        give(&lives);
    }
    holds(state().copied_out == 1);
    for (int step = 0; step < 20; step++) { /* now it dies in its step */
        struct piece dies = a_young_piece(500000);
        if (step == 15)
            holds(state().lane_used >= 500000, "so it is in the lane again");
        give(&dies);
        hand_over(self, 16 * MIB, true);
    }
    leave_lane(self);
}

static void a_kind_that_dies_within_its_step_again_is_in_the_lane_again(void)
{
    a_lane_for_two();
    go_separate_ways(change_habits);
}

static void poisoned_member(int self)
{
    enter_lane(self, 16 * MIB);
    for (int step = 0; step < 10; step++) {
        struct piece dies = a_young_piece(300000), lives = a_young_piece(77777);
        give(&dies);
        struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true);
        for (size_t at = 0; at < seen.lane_reserved; at += PAGE) { /* survivors have left their pages as they were */
            uint8_t byte = 0;
            holds(pread(lane_file, &byte, 1, (off_t)at) == 1);
            holds(byte == 0xff || state().lane_private > 0);
        }
        holds(is_intact(&lives));
        memset(lives.at, 1, lives.bytes); /* the lane does not see it */
        lives.tag = 0x0101;
        fill(&lives);
        for (size_t at = 0; at < seen.lane_reserved; at += PAGE) {
            uint64_t words[PAGE / 8];
            holds(pread(lane_file, words, PAGE, (off_t)at) == (ssize_t)PAGE);
            for (size_t i = 0; i < PAGE / 8; i++)
                holds(words[i] != word_of(lives.tag, 0));
        }
        weft_memory_turn_begins(seen.lane_reserved, 16 * MIB);
        give(&lives);
        hand_over(self, 16 * MIB, true);
    }
    holds(state().lane_private == 0);
    leave_lane(self);
}

static void a_lane_that_is_handed_over_is_full_of_nan(void)
{
    a_lane_for_two();
    go_separate_ways(poisoned_member);
}

static void only_the_stepping_thread_in_its_turn_and_after_a_first_step_uses_the_lane(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece before = a_young_piece(100000);
    holds(state().lane_used == 0, "before the first boundary");
    weft_memory_boundary(NO_LIMIT, false);
    struct piece without = a_young_piece(100000);
    holds(state().lane_used == 0, "not its turn");
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece other = a_piece(100000);
    holds(state().lane_used == 0, "another thread");
    struct piece inside = a_young_piece(100000);
    holds(state().lane_used >= 100000);
    give(&before), give(&without), give(&other), give(&inside);
    holds(state().lane_used == 0 && weft_memory_lane_is_empty());
}

static void the_lane_grows_as_needed_and_no_further_than_it_may(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    size_t capacity = 2 * MIB + 12345;
    holds(weft_memory_use_lane(lane_file, capacity, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    uint64_t reserved = 0;
    for (unsigned step = 0; step < 60 * this_story.rounds; step++) {
        weft_memory_turn_begins(reserved, capacity);
        struct piece pieces[30];
        for (int i = 0; i < 30; i++) {
            pieces[i] = a_young_piece(4096 + chance(200000));
            holds(state().lane_used <= capacity + PAGE);
        }
        for (int i = 0; i < 30; i++)
            if (i != 7 || step % 5)
                give(&pieces[i]);
        struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true);
        holds(seen.lane_reserved <= (capacity > reserved ? capacity : reserved));
        holds(step == 0 || seen.lane_needs > MIB / 2);
        reserved = seen.lane_reserved;
        if (step % 5 == 0) {
            uint64_t smaller = chance(reserved) / PAGE * PAGE; /* another member has made it smaller */
            holds(weft_cpu.share_shrink(lane_file, smaller, reserved) == 0);
            reserved = smaller;
            holds(is_intact(&pieces[7]));
            give(&pieces[7]);
        }
        if (step % 20 == 19)
            capacity = MIB + chance(3 * MIB);
    }
    struct stat lane;
    holds(fstat(lane_file, &lane) == 0);
    holds((uint64_t)lane.st_blocks * 512 <= reserved + PAGE, "no page is there that is not known of");
}

static void a_lane_without_room_falls_back_to_memory_of_our_own(void)
{
    begin(NO_LIMIT);
    int small = a_small_tmpfs("size=1m");
    holds(weft_memory_use_lane(small, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece pieces[20];
    for (int i = 0; i < 20; i++)
        pieces[i] = a_young_piece(150000);
    uint64_t used = state().lane_used;
    holds(used > 0 && used <= MIB);
    for (int i = 0; i < 20; i++)
        holds(is_intact(&pieces[i]));
    weft_memory_boundary(NO_LIMIT, true);
    for (int i = 0; i < 20; i++)
        give(&pieces[i]);
}

static void private_pages_are_shared_again_even_where_the_lane_was_cut(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece low = a_young_piece(4 * MIB), high = a_young_piece(2 * MIB);
    give(&low);
    struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true);
    holds(is_intact(&high) && state().lane_private >= 2 * MIB);
    holds(weft_cpu.share_shrink(lane_file, MIB, seen.lane_reserved) == 0);
    weft_memory_turn_begins(MIB, 16 * MIB);
    give(&high);
    weft_memory_boundary(NO_LIMIT, true);
    holds(state().lane_private == 0);
}

static void who_leaves_the_lane_keeps_what_it_has(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece pieces[6];
    for (int i = 0; i < 6; i++)
        pieces[i] = a_young_piece(100000 + (size_t)i * 5000);
    weft_memory_leave_lane();
    for (off_t at = 0; at < (off_t)MIB; at += 4096)
        holds(pwrite(lane_file, "garbage", 7, at) == 7);
    for (int i = 0; i < 6; i++)
        holds(is_intact(&pieces[i]));
    struct piece later = a_young_piece(100000);
    holds(state().is_member == 0);
    give(&later);
    for (int i = 0; i < 6; i++)
        give(&pieces[i]);
}

static void survivors_of_a_lane_stay_when_another_is_joined(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    int files[2] = {lane_file, memfd_create("weft-lane", MFD_CLOEXEC)};
    struct piece kept[24] = {0};
    uint64_t reserved[2] = {0, 0};
    for (unsigned round = 0; round < 40 * this_story.rounds; round++) {
        int file = files[round % 2];
        holds(weft_memory_use_lane(file, 16 * MIB, reserved[round % 2]) == 0);
        weft_memory_boundary(NO_LIMIT, false);
        weft_memory_turn_begins(reserved[round % 2], 16 * MIB);
        struct piece dies = a_young_piece(400000);
        for (int i = 0; i < 24; i++) {
            if (kept[i].at == NULL)
                kept[i] = a_young_piece(4096 + chance(90000));
            else if (chance(3) == 0)
                give(&kept[i]);
        }
        give(&dies);
        struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true); /* what is the lane's is garbage now */
        reserved[round % 2] = seen.lane_reserved;
        holds(weft_memory_leave_lane());
        for (int i = 0; i < 24; i++) {
            holds(kept[i].at == NULL || is_intact(&kept[i]));
            if (kept[i].at && chance(4) == 0) /* while we are in no lane */
                give(&kept[i]);
        }
    }
    for (int i = 0; i < 24; i++)
        if (kept[i].at)
            give(&kept[i]);
    holds(weft_memory_use_lane(files[0], 16 * MIB, reserved[0]) == 0);
    weft_memory_turn_begins(reserved[0], 16 * MIB);
    weft_memory_boundary(NO_LIMIT, true);
    holds(state().lane_private == 0 && state().device == 0, "nothing of them is left");
}

static void a_turn_may_end_between_steps_when_nothing_is_in_the_lane(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    uint64_t reserved = 0;
    struct piece one = a_young_piece(100000);
    holds(!weft_memory_turn_ends(&reserved, true) && is_intact(&one));
    give(&one);
    holds(weft_memory_turn_ends(&reserved, true) && reserved >= 100000);
    struct piece other = a_young_piece(100000);
    holds(state().lane_used == 0, "it is not our turn any more");
    give(&other);
    weft_memory_turn_begins(reserved, 16 * MIB);
    struct piece kept = a_young_piece(90000);
    weft_memory_boundary(NO_LIMIT, true);
    weft_memory_turn_begins(reserved, 16 * MIB);
    holds(weft_memory_turn_ends(&reserved, true), "a survivor is not in the lane");
    holds(is_intact(&kept));
}

static bool has_room;

static int private_if_there_is_room(int shared, uint8_t *at, size_t offset, size_t bytes)
{
    return has_room ? weft_cpu.make_private(shared, at, offset, bytes) : ENOMEM;
}

static void without_room_for_private_pages_the_turn_is_kept(void)
{
    struct weft_backend tight = weft_cpu;
    tight.make_private = private_if_there_is_room;
    a_lane_for_two();
    begin_with(&tight, a_tier(), NO_LIMIT, false);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece kept = a_young_piece(100000);
    struct weft_boundary seen = weft_memory_boundary(NO_LIMIT, true);
    holds(!seen.is_lane_clear && is_intact(&kept), "it is where it was, and must not be overwritten");
    holds(!weft_memory_leave_lane(), "nor can we leave");
    has_room = true;
    seen = weft_memory_boundary(NO_LIMIT, true);
    holds(seen.is_lane_clear && is_intact(&kept), "next time it is copied out");
    holds(weft_memory_leave_lane() && is_intact(&kept));
}

static void who_leaves_with_what_could_not_be_copied_out_before_loses_nothing_in_the_next_lane(void)
{
    struct weft_backend tight = weft_cpu;
    tight.make_private = private_if_there_is_room;
    a_lane_for_two();
    begin_with(&tight, a_tier(), NO_LIMIT, false);
    has_room = false;
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece first = a_young_piece(100000), second = a_young_piece(100000);
    holds(!weft_memory_boundary(NO_LIMIT, true).is_lane_clear);
    has_room = true;
    holds(weft_memory_leave_lane() && is_intact(&first) && is_intact(&second));
    int other = memfd_create("weft-lane", MFD_CLOEXEC);
    holds(weft_memory_use_lane(other, 16 * MIB, 0) == 0);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece third = a_young_piece(120000);
    give(&second), give(&first);
    weft_memory_boundary(NO_LIMIT, true); /* the lane is garbage now */
    holds(is_intact(&third), "it is known to be young, whichever block died meanwhile");
    give(&third);
}

static void outside_of_lanes_nothing_is_left_of_dead_survivors(void)
{
    a_lane_for_two();
    begin(NO_LIMIT);
    holds(weft_memory_use_lane(lane_file, 16 * MIB, 0) == 0);
    weft_memory_boundary(NO_LIMIT, false);
    weft_memory_turn_begins(0, 16 * MIB);
    struct piece dies = a_young_piece(500000), lives = a_young_piece(500000);
    weft_memory_boundary(NO_LIMIT, true);
    holds(weft_memory_leave_lane() && state().lane_private >= 1000000);
    give(&dies);
    weft_memory_boundary(NO_LIMIT, true);
    holds(state().lane_private < 600000 && is_intact(&lives));
    give(&lives);
    weft_memory_boundary(NO_LIMIT, true);
    holds(state().lane_private == 0);
}

static const struct story stories[] = {
    STORY(survivors_are_what_they_were_when_the_lane_comes_back),
    STORY(other_threads_may_write_to_survivors_at_any_time),
    STORY(kinds_that_outlive_their_step_are_learnt),
    STORY(a_kind_that_dies_within_its_step_again_is_in_the_lane_again),
    STORY(a_lane_that_is_handed_over_is_full_of_nan),
    STORY(only_the_stepping_thread_in_its_turn_and_after_a_first_step_uses_the_lane),
    STORY(the_lane_grows_as_needed_and_no_further_than_it_may),
    STORY(a_lane_without_room_falls_back_to_memory_of_our_own),
    STORY(private_pages_are_shared_again_even_where_the_lane_was_cut),
    STORY(who_leaves_the_lane_keeps_what_it_has),
    STORY(survivors_of_a_lane_stay_when_another_is_joined),
    STORY(without_room_for_private_pages_the_turn_is_kept),
    STORY(who_leaves_with_what_could_not_be_copied_out_before_loses_nothing_in_the_next_lane),
    STORY(outside_of_lanes_nothing_is_left_of_dead_survivors),
    STORY(a_turn_may_end_between_steps_when_nothing_is_in_the_lane),
};

int main(int argc, char **argv)
{
    return tell_stories(argc, argv, stories, sizeof stories / sizeof *stories);
}
