/* wheel_test.c -- the wheel against a plain array of deadlines. */
#include "base/wheel.c"

#define RANGE (UINT64_C(1) << 36) /* what the levels span */
#define TIMERS 300

static uint64_t seed = 1;
static uint64_t roll(uint64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 20) % below;
}

/* Links, bits and the rules at the top of wheel.c. */
static uint32_t check_wheel(const mr_wheel *wheel) {
    uint32_t count = 0;
    for (unsigned level = 0; level < MR_WHEEL_LEVELS; level++) {
        unsigned shift = level * DIGIT_BITS;
        uint64_t now_place = wheel->now_ms >> shift;
        for (unsigned slot = 0; slot < MR_WHEEL_SLOTS; slot++) {
            mr_timer *const *link = &wheel->slots[level][slot];
            MR_ASSERT((*link != NULL) == (wheel->occupied[level] >> slot & 1));
            for (mr_timer *t = *link; t != NULL; link = (mr_timer *const *)&t->next, t = t->next) {
                count++;
                MR_ASSERT(t->link == link);
                uint64_t place = t->expiry_ms >> shift;
                if (level == 0 && slot == (now_place & DIGIT_MASK))
                    MR_ASSERT(t->expiry_ms <= wheel->now_ms);
                else if (level < TOP)
                    MR_ASSERT((place & DIGIT_MASK) == slot && place > now_place &&
                              place >> DIGIT_BITS == now_place >> DIGIT_BITS);
                else
                    MR_ASSERT(slot != (now_place & DIGIT_MASK) && place > now_place);
            }
        }
    }
    mr_timer *const *link = &wheel->due;
    for (mr_timer *t = *link; t != NULL; link = (mr_timer *const *)&t->next, t = t->next, count++)
        MR_ASSERT(t->link == link && t->expiry_ms <= wheel->now_ms);
    MR_ASSERT(wheel->due_tail == link);
    return count;
}

static uint64_t some_delay(void) {
    static const uint64_t edges[] = {0,        1,         2,      62,        63,
                                     64,       65,        4095,   4096,      4097,
                                     262143,   262144,    262145, 16777215,  1u << 24,
                                     1u << 30, RANGE - 1, RANGE,  RANGE + 1, 3 * RANGE};
    uint64_t kind = roll(4);
    if (kind == 0)
        return edges[roll(sizeof edges / sizeof *edges)];
    return roll(kind == 1 ? 100 : kind == 2 ? 10000 : UINT64_C(1) << roll(38));
}

typedef struct model {
    mr_wheel wheel;
    mr_timer timers[TIMERS];
    uint64_t expiry_ms[TIMERS]; /* UINT64_MAX: not set */
    uint64_t now_ms;
} model;

static void model_set(model *m, size_t i, uint64_t expiry_ms) {
    mr_wheel_set(&m->wheel, &m->timers[i], expiry_ms);
    MR_ASSERT(mr_timer_is_set(&m->timers[i]));
    m->expiry_ms[i] = expiry_ms;
}

static void model_clear(model *m, size_t i) {
    mr_wheel_clear(&m->wheel, &m->timers[i]);
    MR_ASSERT(!mr_timer_is_set(&m->timers[i]));
    m->expiry_ms[i] = UINT64_MAX;
}

static uint64_t earliest(const model *m) {
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < TIMERS; i++)
        if (m->expiry_ms[i] < first)
            first = m->expiry_ms[i];
    return first;
}

static void check_next(const model *m) {
    uint64_t first = earliest(m), next = mr_wheel_next_ms(&m->wheel);
    MR_ASSERT((first == UINT64_MAX) == (next == UINT64_MAX));
    if (first == UINT64_MAX)
        return;
    MR_ASSERT(next >= m->now_ms);
    MR_ASSERT(next <= (first > m->now_ms ? first : m->now_ms));
    if (first >> DIGIT_BITS == m->now_ms >> DIGIT_BITS && first > m->now_ms)
        MR_ASSERT(next == first);
    /* Whoever sleeps until `next` must get on: either something is due or next moves. */
    MR_ASSERT(next > m->now_ms || first <= m->now_ms);
}

/* Takes what is due, and sets and clears others in between, due ones among them. */
static void drain(model *m) {
    bool late[TIMERS] = {false};
    size_t left = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        late[i] = m->expiry_ms[i] <= m->now_ms;
        left += late[i];
    }
    for (mr_timer *t; (t = mr_wheel_take_due(&m->wheel)) != NULL;) {
        size_t i = (size_t)(t - m->timers);
        MR_ASSERT(i < TIMERS && late[i] && !mr_timer_is_set(t));
        MR_ASSERT(t->expiry_ms == m->expiry_ms[i]);
        late[i] = false;
        left--;
        m->expiry_ms[i] = UINT64_MAX;
        size_t other = roll(TIMERS);
        uint64_t what = roll(6);
        if (what < 2 && late[other])
            late[other] = false, left--;
        if (what == 0)
            model_clear(m, other);
        else if (what == 1)
            model_set(m, other, m->now_ms + some_delay());
        else if (what == 2) /* due at once must wait for the next advance, or this never ends */
            model_set(m, i, m->now_ms - roll(2));
    }
    MR_ASSERT(left == 0);
}

static void advance(model *m, uint64_t to_ms) {
    mr_wheel_advance(&m->wheel, to_ms);
    if (to_ms > m->now_ms)
        m->now_ms = to_ms;
    MR_ASSERT(m->wheel.now_ms == m->now_ms);
}

static void random_run(uint64_t start_ms, int rounds) {
    static model m;
    m = (model){.now_ms = start_ms};
    for (size_t i = 0; i < TIMERS; i++)
        m.expiry_ms[i] = UINT64_MAX;
    mr_wheel_init(&m.wheel, start_ms);
    for (int round = 0; round < rounds; round++) {
        for (uint64_t n = roll(8); n > 0; n--)
            model_set(&m, roll(TIMERS), m.now_ms + some_delay());
        for (uint64_t n = roll(3); n > 0; n--)
            model_clear(&m, roll(TIMERS));
        check_next(&m);
        uint64_t how = roll(8);
        uint64_t next = mr_wheel_next_ms(&m.wheel);
        if (how == 0)
            advance(&m, m.now_ms - roll(10)); /* backwards is no move */
        else if (how < 4 && next != UINT64_MAX)
            advance(&m, next - (how == 3 && next > m.now_ms));
        else
            advance(&m, m.now_ms + some_delay());
        uint32_t set = 0;
        for (size_t i = 0; i < TIMERS; i++)
            set += m.expiry_ms[i] != UINT64_MAX;
        MR_ASSERT(check_wheel(&m.wheel) == set);
        if (roll(8) != 0) /* now and then what is due is left for later */
            drain(&m);
    }
}

/* Each delay fires in the very millisecond, from starts on all sides of digit borders. */
static void fires_on_the_millisecond(void) {
    static const uint64_t delays[] = {1, 63, 64, 65, 4095, 4096, 4097, 70000};
    for (uint64_t start = 1000 * 4096 - 66; start < 1000 * 4096 + 2; start++) {
        for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
            mr_wheel wheel;
            mr_timer timer = {0};
            mr_wheel_init(&wheel, start);
            mr_wheel_set(&wheel, &timer, start + delays[i]);
            mr_wheel_advance(&wheel, start + delays[i] - 1);
            MR_ASSERT(mr_wheel_take_due(&wheel) == NULL);
            MR_ASSERT(mr_wheel_next_ms(&wheel) == start + delays[i]);
            mr_wheel_advance(&wheel, start + delays[i]);
            MR_ASSERT(mr_wheel_take_due(&wheel) == &timer && !mr_timer_is_set(&timer));
            MR_ASSERT(mr_wheel_take_due(&wheel) == NULL);
            MR_ASSERT(mr_wheel_next_ms(&wheel) == UINT64_MAX);
        }
    }
}

/* Sleeping from next to next reaches any deadline in few steps: one per level, or one per turn of
 * the top ring beyond its range. */
static void few_wake_ups(void) {
    static const uint64_t delays[] = {1, 75000, 10000000, RANGE - 1, RANGE, 5 * RANGE + 12345};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        mr_wheel wheel;
        mr_timer timer = {0};
        int steps = 0;
        mr_wheel_init(&wheel, 123456789);
        mr_wheel_set(&wheel, &timer, 123456789 + delays[i]);
        while (mr_wheel_take_due(&wheel) == NULL) {
            mr_wheel_advance(&wheel, mr_wheel_next_ms(&wheel));
            steps++;
        }
        MR_ASSERT(wheel.now_ms == 123456789 + delays[i] && steps <= 14);
    }
}

static void due_now_and_never(void) {
    mr_wheel wheel;
    mr_timer now = {0}, past = {0}, never = {0};
    mr_wheel_init(&wheel, 5000);
    mr_wheel_clear(&wheel, &now); /* not set */
    mr_wheel_set(&wheel, &now, 5000);
    mr_wheel_set(&wheel, &past, 0);
    mr_wheel_set(&wheel, &never, UINT64_MAX);
    MR_ASSERT(mr_wheel_take_due(&wheel) == NULL && mr_wheel_next_ms(&wheel) == 5000);
    mr_wheel_advance(&wheel, 4000);
    MR_ASSERT(wheel.now_ms == 5000);
    mr_timer *first = mr_wheel_take_due(&wheel);
    mr_timer *second = mr_wheel_take_due(&wheel);
    MR_ASSERT((first == &now && second == &past) || (first == &past && second == &now));
    MR_ASSERT(mr_wheel_take_due(&wheel) == NULL);
    mr_wheel_advance(&wheel, 5000 + 400 * RANGE);
    MR_ASSERT(mr_wheel_take_due(&wheel) == NULL && mr_timer_is_set(&never));
    mr_wheel_clear(&wheel, &never);
    MR_ASSERT(mr_wheel_next_ms(&wheel) == UINT64_MAX && check_wheel(&wheel) == 0);
}

/* The very start of a slot is the tightest bound for all levels: one more would be too late. */
static void next_is_no_later_than_a_slot(void) {
    for (unsigned level = 0; level < MR_WHEEL_LEVELS; level++) {
        for (uint64_t digit = 0; digit < 64; digit++) {
            mr_wheel wheel;
            mr_timer timer = {0};
            uint64_t step = UINT64_C(1) << (level * DIGIT_BITS);
            uint64_t expiry_ms = (64 + digit) * step;
            mr_wheel_init(&wheel, 64 * step - (level == TOP ? 1 : 0));
            mr_wheel_set(&wheel, &timer, expiry_ms);
            /* 64 steps ahead is one more than the top ring holds: it hangs one slot before. */
            bool clamped = level == TOP && digit == 63;
            MR_ASSERT(mr_wheel_next_ms(&wheel) == expiry_ms - (clamped ? step : 0));
        }
    }
}

/* Clearing the last of the due list must leave a list that can be appended to. */
static void clear_in_the_due_list(void) {
    for (int victim = 0; victim < 3; victim++) {
        mr_wheel wheel;
        mr_timer t[3] = {{0}}, later = {0};
        mr_wheel_init(&wheel, 0);
        for (int i = 0; i < 3; i++)
            mr_wheel_set(&wheel, &t[i], 10);
        mr_wheel_advance(&wheel, 10);
        mr_wheel_clear(&wheel, &t[victim]);
        mr_wheel_set(&wheel, &later, 20);
        mr_wheel_advance(&wheel, 20);
        MR_ASSERT(check_wheel(&wheel) == 3);
        int taken = 0;
        for (mr_timer *d; (d = mr_wheel_take_due(&wheel)) != NULL; taken++)
            MR_ASSERT(d != &t[victim]);
        MR_ASSERT(taken == 3);
    }
}

int main(void) {
    fires_on_the_millisecond();
    few_wake_ups();
    due_now_and_never();
    next_is_no_later_than_a_slot();
    clear_in_the_due_list();
    random_run(10, 4000);
    random_run(RANGE - 100, 4000);
    random_run((UINT64_C(1) << 30) - 70, 4000);
    random_run(UINT64_C(1700000000000), 4000);
    return 0;
}
