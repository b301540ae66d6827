/* series.c -- families (a name, its kind, its labels' names) hold series (the labels' values).
 *
 * Invariants: all octets of names and labels lie in `text`, named by offsets, and text.len never
 * passes its limit. The slots of all series are side by side, from 0 to slot_count. For a slot of a
 * counter or histogram, shown[slot] is the highest total that was given out. Nothing is ever
 * removed. */
#include "engine/series.h"
#include "base/text.h"

#define NONE UINT32_MAX
#define SLOTS_LIMIT (1u << 20)
#define CACHE_LINE 64u

typedef struct range {
    uint32_t off, len; /* in registry->text */
} range;

typedef struct family {
    mr_series_kind kind;
    mr_series_merge merge;
    range name, help,
        label_names; /* help as it is shown; label names each with a comma behind it */
    double *bounds;  /* owned; NULL unless a histogram */
    uint32_t bound_count;
    range le[MR_SERIES_BOUNDS_MAX]; /* bounds as text */
    uint32_t first, last;           /* of its series */
} family;

typedef struct series {
    uint32_t family, slot, next; /* next of the same family, or NONE */
    uint32_t hash;               /* of labels */
    range labels;                /* as shown: a="x",b="y" */
} series;

struct mr_series {
    mr_mem *mem; /* borrowed */
    mr_series_limits limits;
    mr_buf text;
    family *families;
    uint32_t family_count, family_cap;
    series *series;
    uint32_t series_count, series_cap;
    uint32_t slot_count;
    double *retired, *shown; /* limits.slots each */
    uint64_t refused;
};

/* ---- the registry ---- */

mr_series *mr_series_create(mr_mem *mem, const mr_series_limits *limits) {
    mr_series *r = mr_mem_zalloc(mem, sizeof *r);
    if (r == NULL)
        return NULL;
    r->mem = mem;
    r->limits = *limits;
    if (r->limits.series == 0)
        r->limits.series = MR_SERIES_COUNT_MAX;
    if (r->limits.slots == 0 || r->limits.slots > SLOTS_LIMIT)
        r->limits.slots = r->limits.slots == 0 ? MR_SERIES_SLOTS_MAX : SLOTS_LIMIT;
    if (r->limits.text_bytes == 0)
        r->limits.text_bytes = MR_SERIES_TEXT_MAX;
    r->retired = mr_mem_zalloc(mem, r->limits.slots * sizeof *r->retired);
    r->shown = mr_mem_zalloc(mem, r->limits.slots * sizeof *r->shown);
    if (r->retired != NULL && r->shown != NULL)
        return r;
    mr_series_destroy(r);
    return NULL;
}

void mr_series_destroy(mr_series *r) {
    if (r == NULL)
        return;
    mr_mem *mem = r->mem;
    for (uint32_t i = 0; i < r->family_count; i++)
        mr_mem_free(mem, r->families[i].bounds, r->families[i].bound_count * sizeof(double));
    mr_mem_free(mem, r->families, r->family_cap * sizeof *r->families);
    mr_mem_free(mem, r->series, r->series_cap * sizeof *r->series);
    mr_mem_free(mem, r->retired, r->limits.slots * sizeof *r->retired);
    mr_mem_free(mem, r->shown, r->limits.slots * sizeof *r->shown);
    mr_buf_dispose(mem, &r->text);
    mr_mem_free(mem, r, sizeof *r);
}

mr_series_stats mr_series_get_stats(const mr_series *r) {
    return (mr_series_stats){.series = r->series_count,
                             .slots = r->slot_count,
                             .text_bytes = (uint32_t)r->text.len,
                             .refused = r->refused};
}

static mr_span span_of(const mr_series *r, range at) {
    return (mr_span){(const char *)r->text.data + at.off, at.len};
}

static bool is_same(mr_span a, mr_span b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

static bool begins_with(mr_span s, const char *start) {
    size_t len = strlen(start);
    return s.len >= len && memcmp(s.bytes, start, len) == 0;
}

static bool is_word(mr_span s, const char *word) {
    return s.len == strlen(word) && begins_with(s, word);
}

/* ---- rules ---- */

static bool is_name(mr_span s, bool may_have_colon) {
    if (s.len == 0 || s.len > MR_SERIES_NAME_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.bytes[i], low = (char)(c | 0x20);
        bool is_first_too = (low >= 'a' && low <= 'z') || c == '_' || (may_have_colon && c == ':');
        if (!is_first_too && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return true;
}

static bool is_text(mr_span s, size_t max_len) {
    return s.len <= max_len && mr_utf8_valid((const uint8_t *)s.bytes, s.len);
}

static const char *label_problem(const mr_series_def *def) {
    if (def->label_count > MR_SERIES_LABELS_MAX)
        return "has too many labels";
    for (uint32_t i = 0; i < def->label_count; i++) {
        mr_span name = def->label_names[i];
        if (!is_name(name, false) || begins_with(name, "__"))
            return "has a label whose name is not allowed";
        /* Both are ours, and a metric would have them twice. */
        if (is_word(name, "le") || is_word(name, "thread"))
            return "has a label whose name is reserved (le, thread)";
        for (uint32_t j = 0; j < i; j++)
            if (is_same(name, def->label_names[j]))
                return "has two labels of the same name";
        if (!is_text(def->label_values[i], MR_SERIES_VALUE_MAX))
            return "has a label whose value is too long or not well-formed";
    }
    return NULL;
}

static const char *bound_problem(const mr_series_def *def) {
    if (def->kind != MR_SERIES_HISTOGRAM)
        return def->bound_count == 0 ? NULL : "has bounds but is not a histogram";
    if (def->bound_count == 0 || def->bound_count > MR_SERIES_BOUNDS_MAX)
        return "has no bounds or too many";
    for (uint32_t i = 0; i < def->bound_count; i++)
        if (!mr_value_is_finite(def->bounds[i]) || (i != 0 && def->bounds[i] <= def->bounds[i - 1]))
            return "has bounds that are not finite and ascending";
    return NULL;
}

static const char *rule_problem(const mr_series_def *def) {
    if (!is_name(def->name, true))
        return "has a name that is not allowed";
    if (begins_with(def->name, "millrace_"))
        return "has a name that begins with millrace_";
    if (!is_text(def->help, MR_SERIES_HELP_MAX))
        return "has a help text that is too long or not well-formed";
    if ((unsigned)def->kind > MR_SERIES_HISTOGRAM || (unsigned)def->merge > MR_MERGE_THREAD)
        return "is of no known kind";
    const char *problem = label_problem(def);
    return problem != NULL ? problem : bound_problem(def);
}

/* Whether `longer` is what histogram `name` shows its parts as. */
static bool is_part_of(mr_span longer, mr_span name) {
    if (longer.len <= name.len || memcmp(longer.bytes, name.bytes, name.len) != 0)
        return false;
    mr_span rest = {longer.bytes + name.len, longer.len - name.len};
    return is_word(rest, "_bucket") || is_word(rest, "_sum") || is_word(rest, "_count");
}

static const char *clash_problem(const mr_series *r, const mr_series_def *def) {
    for (uint32_t i = 0; i < r->family_count; i++) {
        const family *f = &r->families[i];
        mr_span other = span_of(r, f->name);
        if ((f->kind == MR_SERIES_HISTOGRAM && is_part_of(def->name, other)) ||
            (def->kind == MR_SERIES_HISTOGRAM && is_part_of(other, def->name)))
            return "has a name that a histogram uses for its _bucket, _sum or _count";
    }
    return NULL;
}

/* ---- definitions ---- */

static uint32_t find_family(const mr_series *r, mr_span name) {
    for (uint32_t i = 0; i < r->family_count; i++)
        if (is_same(span_of(r, r->families[i].name), name))
            return i;
    return NONE;
}

static mr_text text_of(mr_series *r) {
    return (mr_text){r->mem, &r->text, r->limits.text_bytes, MR_OK};
}

/* What has been put since the text was `from` octets long. */
static range since(const mr_series *r, size_t from) {
    return (range){(uint32_t)from, (uint32_t)(r->text.len - from)};
}

static range put_help(mr_series *r, mr_text *t, mr_span help) {
    size_t from = r->text.len;
    mr_text_escaped(t, help, false);
    return since(r, from);
}

static range put_label_names(mr_series *r, mr_text *t, const mr_series_def *def) {
    size_t from = r->text.len;
    for (uint32_t i = 0; i < def->label_count; i++) {
        mr_text_put(t, def->label_names[i].bytes, def->label_names[i].len);
        mr_text_string(t, ",");
    }
    return since(r, from);
}

static range put_labels(mr_series *r, mr_text *t, const mr_series_def *def) {
    size_t from = r->text.len;
    for (uint32_t i = 0; i < def->label_count; i++) {
        mr_text_string(t, i == 0 ? "" : ",");
        mr_text_put(t, def->label_names[i].bytes, def->label_names[i].len);
        mr_text_string(t, "=\"");
        mr_text_escaped(t, def->label_values[i], true);
        mr_text_string(t, "\"");
    }
    return since(r, from);
}

/* The text that is compared is put behind the rest for the comparison, and taken away again. It may
 * pass the limit for that long, by what the limits on single texts allow. */
static const char *conflict(mr_series *r, const family *f, const mr_series_def *def, mr_rc *rc) {
    if (f->kind != def->kind || (f->kind == MR_SERIES_GAUGE && f->merge != def->merge))
        return "is defined already, as another kind";
    if (f->bound_count != def->bound_count ||
        (f->bounds != NULL && memcmp(f->bounds, def->bounds, f->bound_count * sizeof(double)) != 0))
        return "is defined already, with other bounds";
    size_t before = r->text.len;
    mr_text t = {r->mem, &r->text, SIZE_MAX, MR_OK};
    range names = put_label_names(r, &t, def), help = put_help(r, &t, def->help);
    const char *problem = NULL;
    if (!is_same(span_of(r, names), span_of(r, f->label_names)))
        problem = "is defined already, with other labels";
    else if (def->help.len != 0 && !is_same(span_of(r, help), span_of(r, f->help)))
        problem = "is defined already, with another help text";
    r->text.len = before;
    *rc = t.rc;
    return t.rc == MR_OK ? problem : NULL;
}

/* Room for one more at the end of an array. */
static mr_rc make_room(mr_mem *mem, void **array, uint32_t count, uint32_t *cap, size_t each) {
    if (count < *cap)
        return MR_OK;
    uint32_t wanted = *cap == 0 ? 8 : *cap * 2;
    void *grown = mr_mem_resize(mem, *array, *cap * each, wanted * each);
    if (grown == NULL)
        return MR_NOMEM;
    *array = grown;
    *cap = wanted;
    return MR_OK;
}

/* Fills families[family_count] without counting it yet. */
static mr_rc prepare_family(mr_series *r, const mr_series_def *def) {
    void *array = r->families;
    mr_rc rc = make_room(r->mem, &array, r->family_count, &r->family_cap, sizeof *r->families);
    r->families = array;
    if (rc != MR_OK)
        return rc;
    family *f = &r->families[r->family_count];
    *f = (family){.kind = def->kind, .merge = def->merge, .first = NONE, .last = NONE};
    mr_text t = text_of(r);
    size_t from = r->text.len;
    mr_text_put(&t, def->name.bytes, def->name.len);
    f->name = since(r, from);
    f->help = put_help(r, &t, def->help);
    f->label_names = put_label_names(r, &t, def);
    for (uint32_t i = 0; i < def->bound_count; i++) {
        from = r->text.len;
        mr_text_double(&t, def->bounds[i]);
        f->le[i] = since(r, from);
    }
    if (t.rc != MR_OK || def->bound_count == 0)
        return t.rc;
    f->bound_count = def->bound_count;
    f->bounds = mr_mem_alloc(r->mem, f->bound_count * sizeof(double));
    if (f->bounds == NULL)
        return MR_NOMEM;
    memcpy(f->bounds, def->bounds, f->bound_count * sizeof(double));
    return MR_OK;
}

static uint32_t hash_of(mr_span s) { /* FNV-1a: only to skip most comparisons */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ (uint8_t)s.bytes[i]) * 16777619u;
    return hash;
}

static uint32_t find_series(const mr_series *r, const family *f, mr_span labels, uint32_t hash) {
    uint32_t at = f->first;
    while (at != NONE &&
           (r->series[at].hash != hash || !is_same(span_of(r, r->series[at].labels), labels)))
        at = r->series[at].next;
    return at;
}

static uint32_t slots_of(const family *f) {
    switch (f->kind) {
    case MR_SERIES_COUNTER:
        return 1;
    case MR_SERIES_GAUGE:
        return 2;
    default:
        return f->bound_count + 3;
    }
}

static void place_of(const mr_series *r, uint32_t id, mr_series_place *place) {
    const series *s = &r->series[id];
    const family *f = &r->families[s->family];
    *place = (mr_series_place){.id = id,
                               .slot = s->slot,
                               .slot_count = slots_of(f),
                               .kind = f->kind,
                               .bounds = f->bounds,
                               .bound_count = f->bound_count};
}

/* Cannot fail: there is room for it everywhere. */
static void link_series(mr_series *r, uint32_t family_at, range labels, uint32_t hash) {
    family *f = &r->families[family_at];
    uint32_t id = r->series_count++;
    r->series[id] = (series){
        .family = family_at, .slot = r->slot_count, .next = NONE, .hash = hash, .labels = labels};
    r->slot_count += slots_of(f);
    if (f->first == NONE)
        f->first = id;
    else
        r->series[f->last].next = id;
    f->last = id;
}

/* A series of the family at `at`, which may not be counted yet. */
static mr_rc find_or_add(mr_series *r, uint32_t at, const mr_series_def *def, uint32_t *id) {
    /* Without the limit first: what is there already must be found when the registry is full. */
    size_t before = r->text.len;
    mr_text t = {r->mem, &r->text, SIZE_MAX, MR_OK};
    range labels = put_labels(r, &t, def);
    if (t.rc != MR_OK)
        return t.rc;
    uint32_t hash = hash_of(span_of(r, labels));
    *id = find_series(r, &r->families[at], span_of(r, labels), hash);
    if (*id != NONE) {
        r->text.len = before;
        return MR_OK;
    }
    if (r->series_count >= r->limits.series || r->text.len > r->limits.text_bytes ||
        slots_of(&r->families[at]) > r->limits.slots - r->slot_count)
        return MR_LIMIT;
    void *array = r->series;
    mr_rc rc = make_room(r->mem, &array, r->series_count, &r->series_cap, sizeof *r->series);
    r->series = array;
    if (rc != MR_OK)
        return rc;
    *id = r->series_count;
    link_series(r, at, labels, hash);
    return MR_OK;
}

static void drop_prepared(mr_series *r) {
    family *f = &r->families[r->family_count];
    mr_mem_free(r->mem, f->bounds, f->bound_count * sizeof(double));
    *f = (family){0};
}

static mr_rc define_new(mr_series *r, const mr_series_def *def, uint32_t *id) {
    mr_rc rc = r->series_count < r->limits.series ? prepare_family(r, def) : MR_LIMIT;
    if (rc != MR_OK)
        return rc;
    if ((rc = find_or_add(r, r->family_count, def, id)) == MR_OK)
        r->family_count++;
    else
        drop_prepared(r);
    return rc;
}

mr_rc mr_series_define(mr_series *r, const mr_series_def *def, mr_series_place *place,
                       const char **problem) {
    if ((*problem = rule_problem(def)) != NULL)
        return MR_INVALID;
    mr_rc rc = MR_OK;
    uint32_t id, at = find_family(r, def->name);
    *problem = at == NONE ? clash_problem(r, def) : conflict(r, &r->families[at], def, &rc);
    if (*problem != NULL)
        return MR_INVALID;
    size_t before = r->text.len;
    if (rc == MR_OK)
        rc = at == NONE ? define_new(r, def, &id) : find_or_add(r, at, def, &id);
    if (rc == MR_OK) {
        place_of(r, id, place);
        return MR_OK;
    }
    r->text.len = before;
    r->refused += rc == MR_LIMIT;
    return rc;
}

/* ---- values ---- */

mr_rc mr_values_init(const mr_series *r, mr_values *v) {
    size_t bytes = r->limits.slots * sizeof(mr_value) + CACHE_LINE;
    void *block = mr_mem_zalloc(r->mem, bytes);
    if (block == NULL)
        return MR_NOMEM;
    uintptr_t start = ((uintptr_t)block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
    *v = (mr_values){.slots = (mr_value *)start, .block = block, .block_bytes = bytes};
    return MR_OK;
}

void mr_values_dispose(const mr_series *r, mr_values *v) {
    mr_mem_free(r->mem, v->block, v->block_bytes);
    *v = (mr_values){0};
}

void mr_series_retire(mr_series *r, mr_values *v) {
    if (v->slots == NULL)
        return;
    for (uint32_t id = 0; id < r->series_count; id++) {
        mr_series_place place;
        place_of(r, id, &place);
        for (uint32_t i = place.slot; i < place.slot + place.slot_count; i++) {
            if (place.kind != MR_SERIES_GAUGE)
                r->retired[i] += mr_value_get(&v->slots[i]);
            mr_value_set(&v->slots[i], 0);
        }
    }
}

double mr_series_total(mr_series *r, const mr_series_seat *seats, size_t seat_count,
                       uint32_t slot) {
    double total = r->retired[slot];
    for (size_t i = 0; i < seat_count; i++)
        if (seats[i].values->slots != NULL)
            total += mr_value_get(&seats[i].values->slots[slot]);
    /* (a + b) + c may round to less than (a + c) + b did. */
    if (total > r->shown[slot])
        r->shown[slot] = total;
    return r->shown[slot];
}

/* ---- showing ---- */

typedef struct view {
    mr_series *r;
    const mr_series_seat *seats;
    size_t seat_count;
    mr_text *t;
} view;

static void put_span(const view *v, range at) {
    mr_span s = span_of(v->r, at);
    mr_text_put(v->t, s.bytes, s.len);
}

/* name suffix { labels , extra="value" } and a space; `extra` may be NULL. */
static void put_start(const view *v, const series *s, const char *suffix, const char *extra,
                      mr_span value) {
    put_span(v, v->r->families[s->family].name);
    mr_text_string(v->t, suffix);
    if (s->labels.len != 0 || extra != NULL) {
        mr_text_string(v->t, "{");
        put_span(v, s->labels);
        if (extra != NULL) {
            mr_text_string(v->t, s->labels.len != 0 ? "," : "");
            mr_text_string(v->t, extra);
            mr_text_string(v->t, "=\"");
            mr_text_put(v->t, value.bytes, value.len);
            mr_text_string(v->t, "\"");
        }
        mr_text_string(v->t, "}");
    }
    mr_text_string(v->t, " ");
}

static void put_line(const view *v, const series *s, const char *suffix, double value) {
    put_start(v, s, suffix, NULL, (mr_span){0});
    mr_text_double(v->t, value);
    mr_text_string(v->t, "\n");
}

static double total(const view *v, uint32_t slot) {
    return mr_series_total(v->r, v->seats, v->seat_count, slot);
}

static void show_histogram(const view *v, const series *s) {
    const family *f = &v->r->families[s->family];
    double count = 0;
    for (uint32_t i = 0; i <= f->bound_count; i++) {
        mr_span le = {"+Inf", 4};
        if (i < f->bound_count)
            le = span_of(v->r, f->le[i]);
        count += total(v, s->slot + i);
        put_start(v, s, "_bucket", "le", le);
        mr_text_double(v->t, count);
        mr_text_string(v->t, "\n");
    }
    uint32_t sum = s->slot + f->bound_count + 1;
    put_line(v, s, "_sum", total(v, sum) - total(v, sum + 1));
    put_line(v, s, "_count", count);
}

/* Whether this seat has set the gauge; then *value is it. */
static bool read_gauge(const mr_series_seat *seat, uint32_t slot, double *value) {
    const mr_value *at = seat->values->slots;
    if (at == NULL || atomic_load_explicit(&at[slot + 1], memory_order_acquire) == 0)
        return false;
    *value = mr_value_get(&at[slot]);
    return true;
}

static void show_merged(const view *v, const series *s, bool is_sum) {
    double merged = 0, value;
    bool is_set = false;
    for (size_t i = 0; i < v->seat_count; i++) {
        if (!read_gauge(&v->seats[i], s->slot, &value))
            continue;
        if (is_sum || !is_set)
            merged += value;
        else if (value > merged)
            merged = value;
        is_set = true;
    }
    if (is_set)
        put_line(v, s, "", merged);
}

static bool is_set_later(const view *v, size_t at, uint32_t slot) {
    double value;
    for (size_t i = at + 1; i < v->seat_count; i++)
        if (v->seats[i].thread == v->seats[at].thread && read_gauge(&v->seats[i], slot, &value))
            return true;
    return false;
}

static void show_threads(const view *v, const series *s) {
    double value;
    for (size_t i = 0; i < v->seat_count; i++) {
        if (!read_gauge(&v->seats[i], s->slot, &value) || is_set_later(v, i, s->slot))
            continue;
        uint8_t digits[MR_DECIMAL_BYTES];
        mr_span thread = {"main", 4};
        if (v->seats[i].thread != UINT32_MAX)
            thread = (mr_span){(char *)digits, mr_put_decimal(digits, v->seats[i].thread)};
        put_start(v, s, "", "thread", thread);
        mr_text_double(v->t, value);
        mr_text_string(v->t, "\n");
    }
}

static void show_series(const view *v, const series *s) {
    const family *f = &v->r->families[s->family];
    if (f->kind == MR_SERIES_HISTOGRAM)
        show_histogram(v, s);
    else if (f->kind == MR_SERIES_COUNTER)
        put_line(v, s, "", total(v, s->slot));
    else if (f->merge == MR_MERGE_THREAD)
        show_threads(v, s);
    else
        show_merged(v, s, f->merge == MR_MERGE_SUM);
}

static void show_head(const view *v, const family *f) {
    static const char *const kinds[] = {" counter\n", " gauge\n", " histogram\n"};
    if (f->help.len != 0) {
        mr_text_string(v->t, "# HELP ");
        put_span(v, f->name);
        mr_text_string(v->t, " ");
        put_span(v, f->help);
        mr_text_string(v->t, "\n");
    }
    mr_text_string(v->t, "# TYPE ");
    put_span(v, f->name);
    mr_text_string(v->t, kinds[f->kind]);
}

void mr_series_text(mr_series *r, const mr_series_seat *seats, size_t seat_count, mr_text *text) {
    view v = {r, seats, seat_count, text};
    for (uint32_t i = 0; i < r->family_count && text->rc == MR_OK; i++) {
        show_head(&v, &r->families[i]);
        for (uint32_t id = r->families[i].first; id != NONE && text->rc == MR_OK;
             id = r->series[id].next)
            show_series(&v, &r->series[id]);
    }
}
