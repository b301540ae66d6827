/* series_test.c -- the rules of definitions, limits at the bound and one past it, totals over
 * threads and over their ends, and memory that runs short at every allocation. */
/* link: base/mem.c base/buf.c base/text.c */
#include "engine/metrics_put.c"
#include "engine/series.c"
#include "base/check.h"
#include <math.h>
#include <stdio.h>

static mr_mem mem;
static const char *problem;

#define SPAN(text) ((mr_span){text, strlen(text)})

static mr_series *create(uint32_t count, uint32_t slots, uint32_t text_bytes) {
    mr_series_limits limits = {.series = count, .slots = slots, .text_bytes = text_bytes};
    mr_series *r = mr_series_create(&mem, &limits);
    MR_ASSERT(r != NULL);
    return r;
}

static mr_rc define(mr_series *r, const mr_series_def *def, mr_series_place *place) {
    mr_series_stats before = mr_series_get_stats(r);
    mr_rc rc = mr_series_define(r, def, place, &problem);
    mr_series_stats after = mr_series_get_stats(r);
    MR_ASSERT((problem != NULL) == (rc == MR_INVALID));
    MR_ASSERT(after.refused - before.refused == (rc == MR_LIMIT));
    if (rc != MR_OK) /* as before */
        MR_ASSERT(after.series == before.series && after.slots == before.slots &&
                  after.text_bytes == before.text_bytes);
    return rc;
}

static mr_rc counter(mr_series *r, const char *name, mr_series_place *place) {
    mr_series_def def = {.name = SPAN(name), .help = SPAN("Help.")};
    return define(r, &def, place);
}

static mr_rc labelled(mr_series *r, const char *name, const char *label, const char *value,
                      mr_series_place *place) {
    mr_span label_name = SPAN(label), label_value = SPAN(value);
    mr_series_def def = {.name = SPAN(name),
                         .help = SPAN("Help."),
                         .label_names = &label_name,
                         .label_values = &label_value,
                         .label_count = 1};
    return define(r, &def, place);
}

static const double bounds[] = {0.5, 1, 2.5};

static mr_rc histogram(mr_series *r, const char *name, const double *at, uint32_t count,
                       mr_series_place *place) {
    mr_series_def def = {
        .kind = MR_SERIES_HISTOGRAM, .name = SPAN(name), .bounds = at, .bound_count = count};
    return define(r, &def, place);
}

static mr_rc gauge(mr_series *r, const char *name, mr_series_merge merge, mr_series_place *place) {
    mr_series_def def = {.kind = MR_SERIES_GAUGE, .merge = merge, .name = SPAN(name)};
    return define(r, &def, place);
}

static void names(void) {
    static const char *const good[] = {"a", "_a", ":a", "A9:_", "orders_total"};
    static const char *const bad[] = {"", "9a", "a b", "a-b", "a\n", "caf\xC3\xA9", "millrace_x"};
    mr_series *r = create(0, 0, 0);
    mr_series_place place;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        MR_ASSERT(counter(r, good[i], &place) == MR_OK && place.id == i && place.slot == i);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        MR_ASSERT(counter(r, bad[i], &place) == MR_INVALID);
    char long_name[MR_SERIES_NAME_MAX + 2] = {0};
    memset(long_name, 'n', MR_SERIES_NAME_MAX);
    MR_ASSERT(counter(r, long_name, &place) == MR_OK);
    long_name[MR_SERIES_NAME_MAX] = 'n';
    MR_ASSERT(counter(r, long_name, &place) == MR_INVALID);
    mr_series_destroy(r);
}

static void labels(void) {
    static const char *const bad[] = {"", "1a", "a:b", "__a", "le", "thread"};
    mr_series *r = create(0, 0, 0);
    mr_series_place place;
    MR_ASSERT(labelled(r, "m", "_a", "any \"text\"\n\\", &place) == MR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        MR_ASSERT(labelled(r, "n", bad[i], "x", &place) == MR_INVALID);
    MR_ASSERT(labelled(r, "n", "a", "\xC0\x80", &place) == MR_INVALID);
    char value[MR_SERIES_VALUE_MAX + 2] = {0};
    memset(value, 'v', MR_SERIES_VALUE_MAX);
    MR_ASSERT(labelled(r, "n", "a", value, &place) == MR_OK);
    value[MR_SERIES_VALUE_MAX] = 'v';
    MR_ASSERT(labelled(r, "n", "a", value, &place) == MR_INVALID);
    mr_span nine[] = {SPAN("a"), SPAN("b"), SPAN("c"), SPAN("d"), SPAN("e"),
                      SPAN("f"), SPAN("g"), SPAN("h"), SPAN("i")};
    mr_series_def def = {.name = SPAN("many"), .label_names = nine, .label_values = nine};
    def.label_count = MR_SERIES_LABELS_MAX;
    MR_ASSERT(define(r, &def, &place) == MR_OK);
    def.name = SPAN("more");
    def.label_count++;
    MR_ASSERT(define(r, &def, &place) == MR_INVALID);
    nine[1] = nine[0];
    def.label_count = 2;
    MR_ASSERT(define(r, &def, &place) == MR_INVALID);
    mr_series_destroy(r);
}

static void bounds_of_histograms(void) {
    double many[MR_SERIES_BOUNDS_MAX + 1];
    static const double falling[] = {1, 1}, infinite[] = {1, INFINITY}, none[] = {NAN};
    for (uint32_t i = 0; i <= MR_SERIES_BOUNDS_MAX; i++)
        many[i] = i;
    mr_series *r = create(0, 0, 0);
    mr_series_place place;
    MR_ASSERT(histogram(r, "h", many, MR_SERIES_BOUNDS_MAX, &place) == MR_OK);
    MR_ASSERT(place.slot_count == MR_SERIES_BOUNDS_MAX + 3 && place.bounds != many);
    MR_ASSERT(histogram(r, "i", many, MR_SERIES_BOUNDS_MAX + 1, &place) == MR_INVALID);
    MR_ASSERT(histogram(r, "i", many, 0, &place) == MR_INVALID);
    MR_ASSERT(histogram(r, "i", falling, 2, &place) == MR_INVALID);
    MR_ASSERT(histogram(r, "i", infinite, 2, &place) == MR_INVALID);
    MR_ASSERT(histogram(r, "i", none, 1, &place) == MR_INVALID);
    mr_series_def def = {.name = SPAN("c"), .bounds = many, .bound_count = 1};
    MR_ASSERT(define(r, &def, &place) == MR_INVALID);
    mr_series_destroy(r);
}

static void the_same_again_and_conflicts(void) {
    mr_series *r = create(0, 0, 0);
    mr_series_place first, again;
    MR_ASSERT(labelled(r, "m", "a", "1", &first) == MR_OK);
    MR_ASSERT(labelled(r, "m", "a", "2", &again) == MR_OK && again.slot != first.slot);
    MR_ASSERT(labelled(r, "m", "a", "1", &again) == MR_OK && again.id == first.id &&
              again.slot == first.slot);
    MR_ASSERT(mr_series_get_stats(r).series == 2);
    MR_ASSERT(labelled(r, "m", "b", "1", &again) == MR_INVALID); /* other labels */
    MR_ASSERT(counter(r, "m", &again) == MR_INVALID);
    MR_ASSERT(gauge(r, "m", MR_MERGE_SUM, &again) == MR_INVALID);
    mr_series_def def = {.name = SPAN("c"), .help = SPAN("One.")};
    MR_ASSERT(define(r, &def, &first) == MR_OK);
    def.help = SPAN("Two.");
    MR_ASSERT(define(r, &def, &again) == MR_INVALID);
    def.help = SPAN("");
    MR_ASSERT(define(r, &def, &again) == MR_OK && again.id == first.id);
    MR_ASSERT(gauge(r, "g", MR_MERGE_MAX, &first) == MR_OK);
    MR_ASSERT(gauge(r, "g", MR_MERGE_SUM, &again) == MR_INVALID);
    static const double others[] = {0.5, 1, 3};
    MR_ASSERT(histogram(r, "h", bounds, 3, &first) == MR_OK);
    MR_ASSERT(histogram(r, "h", bounds, 3, &again) == MR_OK && again.bounds == first.bounds);
    MR_ASSERT(histogram(r, "h", bounds, 2, &again) == MR_INVALID);
    MR_ASSERT(histogram(r, "h", others, 3, &again) == MR_INVALID);
    /* The parts of a histogram are names too. */
    MR_ASSERT(counter(r, "h_count", &again) == MR_INVALID);
    MR_ASSERT(counter(r, "h_counts", &again) == MR_OK);
    MR_ASSERT(counter(r, "k_sum", &again) == MR_OK);
    MR_ASSERT(histogram(r, "k", bounds, 3, &again) == MR_INVALID);
    mr_series_destroy(r);
}

static void limits(void) {
    mr_series_place place;
    mr_series *r = create(2, 0, 0);
    MR_ASSERT(labelled(r, "m", "a", "1", &place) == MR_OK);
    MR_ASSERT(labelled(r, "m", "a", "2", &place) == MR_OK);
    MR_ASSERT(labelled(r, "m", "a", "3", &place) == MR_LIMIT);
    MR_ASSERT(counter(r, "n", &place) == MR_LIMIT);
    MR_ASSERT(labelled(r, "m", "a", "2", &place) == MR_OK); /* what is there is still found */
    MR_ASSERT(mr_series_get_stats(r).refused == 2);
    mr_series_destroy(r);

    r = create(0, 7, 0);
    MR_ASSERT(counter(r, "a", &place) == MR_OK);
    MR_ASSERT(histogram(r, "h", bounds, 3, &place) == MR_OK && place.slot == 1); /* 7 of 7 */
    MR_ASSERT(counter(r, "b", &place) == MR_LIMIT);
    mr_series_destroy(r);
    r = create(0, 6, 0);
    MR_ASSERT(counter(r, "a", &place) == MR_OK);
    MR_ASSERT(histogram(r, "h", bounds, 3, &place) == MR_LIMIT);
    MR_ASSERT(counter(r, "b", &place) == MR_OK); /* the name h is free again */
    mr_series_destroy(r);

    uint32_t exact = 1 + 5 + 2 + 5; /* m and Help. and a, and a="1" */
    r = create(0, 0, exact);
    MR_ASSERT(labelled(r, "m", "a", "1", &place) == MR_OK);
    MR_ASSERT(mr_series_get_stats(r).text_bytes == exact);
    MR_ASSERT(labelled(r, "m", "a", "1", &place) == MR_OK);
    MR_ASSERT(labelled(r, "m", "a", "2", &place) == MR_LIMIT);
    mr_series_destroy(r);
    r = create(0, 0, exact - 1);
    MR_ASSERT(labelled(r, "m", "a", "1", &place) == MR_LIMIT);
    mr_series_destroy(r);
}

static void the_default_limit(void) {
    mr_series *r = create(0, 0, 0);
    mr_series_place place;
    char value[16];
    for (unsigned i = 0; i < MR_SERIES_COUNT_MAX; i++) {
        snprintf(value, sizeof value, "%u", i);
        MR_ASSERT(labelled(r, "m", "a", value, &place) == MR_OK && place.slot == i);
    }
    MR_ASSERT(labelled(r, "m", "a", "one more", &place) == MR_LIMIT);
    mr_series_destroy(r);
}

/* ---- values ---- */

enum { SEATS = 3 };
static mr_values values[SEATS];
static mr_series_seat seats[SEATS];

static mr_series *with_values(void) {
    mr_series *r = create(0, 0, 0);
    for (uint32_t i = 0; i < SEATS; i++) {
        MR_ASSERT(mr_values_init(r, &values[i]) == MR_OK);
        MR_ASSERT((uintptr_t)values[i].slots % CACHE_LINE == 0);
        seats[i] = (mr_series_seat){i, &values[i]};
    }
    return r;
}

static void end_values(mr_series *r) {
    for (uint32_t i = 0; i < SEATS; i++)
        mr_values_dispose(r, &values[i]);
    mr_series_destroy(r);
}

/* All text of the registry, up to the next call. */
static const char *shown(mr_series *r) {
    static mr_buf buf;
    buf.len = 0;
    mr_text t = {&mem, &buf, SIZE_MAX, MR_OK};
    if (r == NULL) {
        mr_buf_dispose(&mem, &buf);
        return NULL;
    }
    mr_series_text(r, seats, SEATS, &t);
    mr_text_put(&t, "", 1);
    MR_ASSERT(t.rc == MR_OK);
    return (const char *)buf.data;
}

static void expect(mr_series *r, const char *text) {
    const char *is = shown(r);
    if (strcmp(is, text) != 0)
        fprintf(stderr, "shown:\n%sexpected:\n%s", is, text);
    MR_ASSERT(strcmp(is, text) == 0);
}

static void counters(void) {
    mr_series *r = with_values();
    mr_series_place place;
    MR_ASSERT(labelled(r, "m_total", "a", "x\"y\\z\nw", &place) == MR_OK);
    MR_ASSERT(mr_series_add(&values[0], &place, 1) && mr_series_add(&values[1], &place, 0.5));
    MR_ASSERT(!mr_series_add(&values[0], &place, -1) && !mr_series_add(&values[0], &place, NAN));
    MR_ASSERT(!mr_series_add(&values[0], &place, INFINITY) && mr_series_add(&values[0], &place, 0));
    expect(r, "# HELP m_total Help.\n# TYPE m_total counter\nm_total{a=\"x\\\"y\\\\z\\nw\"} 1.5\n");
    mr_series_retire(r, &values[0]);
    MR_ASSERT(mr_value_get(&values[0].slots[place.slot]) == 0);
    MR_ASSERT(mr_series_total(r, seats, SEATS, place.slot) == 1.5);
    MR_ASSERT(mr_series_add(&values[0], &place, 2)); /* the next tenant */
    MR_ASSERT(mr_series_total(r, seats, SEATS, place.slot) == 3.5);
    mr_values none = {0};
    mr_series_retire(r, &none);
    seats[2].values = &none;
    MR_ASSERT(mr_series_total(r, seats, SEATS, place.slot) == 3.5);
    end_values(r);
}

static void gauges(void) {
    mr_series *r = with_values();
    mr_series_place sum, max, each;
    MR_ASSERT(gauge(r, "s", MR_MERGE_SUM, &sum) == MR_OK);
    MR_ASSERT(gauge(r, "m", MR_MERGE_MAX, &max) == MR_OK);
    MR_ASSERT(gauge(r, "t", MR_MERGE_THREAD, &each) == MR_OK);
    expect(r, "# TYPE s gauge\n# TYPE m gauge\n# TYPE t gauge\n");
    for (int i = 0; i < 2; i++) { /* the third thread never sets them: it is no 0 */
        mr_series_set(&values[i], &sum, -2 - i);
        mr_series_set(&values[i], &max, -2 - i);
        mr_series_set(&values[i], &each, -2 - i);
    }
    seats[1].thread = UINT32_MAX;
    expect(r, "# TYPE s gauge\ns -5\n# TYPE m gauge\nm -2\n"
              "# TYPE t gauge\nt{thread=\"0\"} -2\nt{thread=\"main\"} -3\n");
    seats[1].thread = 0; /* it takes the place of the first, which is still there */
    mr_series_set(&values[1], &sum, INFINITY);
    expect(r, "# TYPE s gauge\ns +Inf\n# TYPE m gauge\nm -2\n# TYPE t gauge\nt{thread=\"0\"} -3\n");
    mr_series_retire(r, &values[1]); /* gauges are dropped */
    expect(r, "# TYPE s gauge\ns -2\n# TYPE m gauge\nm -2\n# TYPE t gauge\nt{thread=\"0\"} -2\n");
    end_values(r);
}

static void histograms(void) {
    mr_series *r = with_values();
    mr_series_place place;
    MR_ASSERT(histogram(r, "h", bounds, 3, &place) == MR_OK);
    static const double seen[] = {-1, 0.5, 0.75, 1, 2.5, 3};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        MR_ASSERT(mr_series_observe(&values[i % SEATS], &place, seen[i]));
    MR_ASSERT(!mr_series_observe(&values[0], &place, NAN));
    MR_ASSERT(!mr_series_observe(&values[0], &place, INFINITY));
    const char *text = "# TYPE h histogram\nh_bucket{le=\"0.5\"} 2\nh_bucket{le=\"1\"} 4\n"
                       "h_bucket{le=\"2.5\"} 5\nh_bucket{le=\"+Inf\"} 6\nh_sum 6.75\nh_count 6\n";
    expect(r, text);
    mr_series_retire(r, &values[2]);
    mr_series_retire(r, &values[0]);
    expect(r, text);
    end_values(r);
}

/* Fractions add up to other last digits in another order: what was shown must stay the least. */
static void rounding_takes_nothing_back(void) {
    uint64_t state = 1;
    unsigned lower = 0;
    for (int run = 0; run < 200; run++) {
        mr_series *r = with_values();
        mr_series_place place;
        MR_ASSERT(counter(r, "c", &place) == MR_OK);
        for (int i = 0; i < SEATS; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            MR_ASSERT(mr_series_add(&values[i], &place, (double)(state >> 40) / 1000));
        }
        double before = mr_series_total(r, seats, SEATS, place.slot);
        mr_series_retire(r, &values[2]);
        MR_ASSERT(mr_series_total(r, seats, SEATS, place.slot) >= before);
        r->shown[place.slot] = 0; /* what it would be otherwise */
        lower += mr_series_total(r, seats, SEATS, place.slot) < before;
        end_values(r);
    }
    MR_ASSERT(lower > 0); /* else this shows nothing */
}

static void numbers(void) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {1, "1"},
                 {0.1, "0.1"},
                 {-2.5, "-2.5"},
                 {9007199254740991.0, "9007199254740991"},
                 {1e21, "1e+21"},
                 {5e-324, "4.94065645841247e-324"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {NAN, "NaN"},
                 {-INFINITY, "-Inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mr_buf buf = {0};
        mr_text t = {&mem, &buf, SIZE_MAX, MR_OK};
        mr_text_double(&t, cases[i].value);
        MR_ASSERT(buf.len == strlen(cases[i].text));
        MR_ASSERT(memcmp(buf.data, cases[i].text, buf.len) == 0);
        mr_buf_dispose(&mem, &buf);
    }
}

static void a_foreign_decimal_sign(void) {
    /* Arabic, two octets; the function sees what printf has made of it. */
    char number[] = "-1\xD9\xAB"
                    "5e-07";
    MR_ASSERT(without_locale(number) == 8 && memcmp(number, "-1.5e-07", 8) == 0);
}

static void memory_runs_short(void) {
    for (int64_t n = 1;; n++) {
        mem = (mr_mem){0};
        mem.fail_after = n;
        mr_series_limits none = {0};
        mr_series_place place;
        mr_values v = {0};
        mr_series *r = mr_series_create(&mem, &none);
        mr_rc rc = r == NULL ? MR_NOMEM : histogram(r, "h", bounds, 3, &place);
        for (char name[] = "A"; rc == MR_OK && name[0] <= 'K'; name[0]++)
            if ((rc = labelled(r, name, "label", "some value that is long", &place)) == MR_OK)
                rc = labelled(r, name, "label", "other", &place);
        if (rc == MR_OK)
            rc = mr_values_init(r, &v);
        bool is_through = rc == MR_OK;
        MR_ASSERT(rc == MR_OK || rc == MR_NOMEM);
        mem.fail_after = 0;
        if (r != NULL) { /* and it goes on afterwards */
            MR_ASSERT(histogram(r, "h", bounds, 3, &place) == MR_OK);
            MR_ASSERT(labelled(r, "K", "label", "third", &place) == MR_OK);
            mr_values_dispose(r, &v);
        }
        mr_series_destroy(r);
        MR_ASSERT(mem.used_bytes == 0);
        if (is_through)
            break;
    }
}

int main(void) {
    names();
    labels();
    bounds_of_histograms();
    the_same_again_and_conflicts();
    limits();
    the_default_limit();
    counters();
    gauges();
    histograms();
    rounding_takes_nothing_back();
    numbers();
    a_foreign_decimal_sign();
    shown(NULL);
    MR_ASSERT(mem.used_bytes == 0);
    memory_runs_short();
    return 0;
}
