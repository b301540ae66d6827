/* h1_llhttp.c -- see h1_llhttp.h.
 *
 * init:       sizes -> number of "paused" -> slots -> self-test; any surprise ends it
 * parse_head: llhttp runs until the head ends, where a callback pauses it; then its spans are made
 *             offsets and judged by what node:http checks on top of llhttp, and by what the engine
 *             itself cannot do without
 * Invariant: a verdict depends on bytes[0..end) and limits alone, and the verdict on a prefix is
 * MR_AGAIN or that on the whole. llhttp gives a partial span at the end of its input, so nothing is
 * refused for a span that ends there. */
#include "proto/h1_llhttp.h"
#include "base/check.h"
#include "base/text.h"
#include "proto/h1_scan.h"
#include <string.h>

#define TYPE_REQUEST 1 /* llhttp's number; the self-test proves it */

/* How a slot looks to llhttp: spans are given with their octets, events without. */
typedef int (*event_fn)(void *parser);
typedef int (*span_fn)(void *parser, const char *at, size_t len);

typedef struct mr_llhttp_job { /* one call */
    mr_h1_job h1;
    const uint8_t *fed; /* end of the bytes that llhttp was given */
    size_t target, target_end;
    size_t count;    /* fields so far, <= limits->header_count */
    uint16_t status; /* why a callback stopped llhttp; 0: it did not */
    bool has_value;  /* of the latest field, some value was given */
    bool is_head_done;
    bool saw_coding; /* a Transfer-Encoding field */
    bool saw_chunk;
    bool is_done;     /* the whole message */
    bool wants_more;  /* go on behind the head */
    uint8_t *content; /* with wants_more */
    size_t content_len;
} mr_llhttp_job;

static mr_h1_llhttp *owner_of(void *parser) {
    return (mr_h1_llhttp *)((uint8_t *)parser - offsetof(mr_h1_llhttp, parser));
}

static size_t offset_of(const mr_llhttp_job *job, const char *at) {
    return (size_t)((const uint8_t *)at - job->h1.bytes);
}

/* ---- callbacks ---- */

static int on_url(void *parser, const char *at, size_t len) {
    mr_llhttp_job *job = owner_of(parser)->job;
    if (job->target_end == 0)
        job->target = offset_of(job, at);
    job->target_end = offset_of(job, at) + len;
    return 0;
}

/* A name in one piece more than there is room for is certain only when more than its octets came.
 */
static int refuse_field(mr_h1_llhttp *l, const char *end) {
    if ((const uint8_t *)end == l->job->fed)
        return 0;
    l->job->status = 431;
    return l->paused;
}

static int on_field(void *parser, const char *at, size_t len) {
    mr_h1_llhttp *l = owner_of(parser);
    mr_llhttp_job *job = l->job;
    size_t off = offset_of(job, at);
    if (job->is_head_done)
        return 0; /* a trailer */
    if (job->count == job->h1.limits->header_count)
        return refuse_field(l, at + len);
    job->h1.fields[job->count++] = (mr_h1_field){.name_off = (uint16_t)off,
                                                 .name_len = (uint16_t)len,
                                                 .value_off = (uint16_t)(off + len + 1)};
    job->has_value = false;
    return 0;
}

static int on_value(void *parser, const char *at, size_t len) {
    mr_llhttp_job *job = owner_of(parser)->job;
    size_t off = offset_of(job, at);
    if (job->is_head_done)
        return 0;
    mr_h1_field *field = &job->h1.fields[job->count - 1];
    if (!job->has_value)
        field->value_off = (uint16_t)off;
    job->has_value = true;
    field->value_len = (uint16_t)(off + len - field->value_off); /* a fold's line end with it */
    return 0;
}

static int on_headers_complete(void *parser) {
    mr_h1_llhttp *l = owner_of(parser);
    l->job->is_head_done = true;
    return l->job->wants_more ? 0 : l->paused;
}

static int on_chunk_header(void *parser) {
    owner_of(parser)->job->saw_chunk = true;
    return 0;
}

static int on_body(void *parser, const char *at, size_t len) {
    mr_llhttp_job *job = owner_of(parser)->job;
    if (job->wants_more) {
        memcpy(job->content + job->content_len, at, len);
        job->content_len += len;
    }
    return 0;
}

static int on_message_complete(void *parser) {
    mr_h1_llhttp *l = owner_of(parser);
    l->job->is_done = true;
    return l->paused;
}

/* ---- the meaning of what was found ---- */

static mr_rc refuse(mr_llhttp_job *job, uint16_t status) {
    *job->h1.head = (mr_h1_head){.status = status};
    return status == 414 || status == 431 ? MR_LIMIT : MR_BADPEER;
}

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

static bool is_named(const mr_llhttp_job *job, const mr_h1_field *f, const char *name, size_t len) {
    return f->name_len == len && mr_equals_lower(job->h1.bytes + f->name_off, name, len);
}

static uint8_t method_number(const char *name) {
    for (uint8_t i = MR_METHOD_OTHER + 1; i < MR_METHOD_COUNT; i++)
        if (strcmp(mr_method_names[i], name) == 0)
            return i;
    return MR_METHOD_OTHER;
}

static bool set_method(mr_h1_llhttp *l, mr_llhttp_job *job) {
    mr_h1_head *head = job->h1.head;
    const char *name = l->api.method_name(l->api.get_method(l->parser));
    size_t len = strlen(name);
    if (job->target < len + 1 || memcmp(job->h1.bytes + job->target - 1 - len, name, len) != 0)
        return false;
    head->method = method_number(name);
    head->method_off = (uint16_t)(job->target - 1 - len);
    head->method_len = (uint16_t)len;
    return true;
}

/* First octet of [from, end) that is one of the three, or end. */
static size_t find(const uint8_t *bytes, size_t from, size_t end, const char *three) {
    while (from < end && bytes[from] != (uint8_t)three[0] && bytes[from] != (uint8_t)three[1] &&
           bytes[from] != (uint8_t)three[2])
        from++;
    return from;
}

/* Path from `path` up to the query. A fragment, which no target should have, stays in it, as in the
 * url of node:http. */
static void set_path(mr_llhttp_job *job, size_t path) {
    mr_h1_head *head = job->h1.head;
    size_t query = find(job->h1.bytes, path, job->target_end, "???");
    head->path_off = (uint16_t)path;
    head->path_len = (uint16_t)(query - path);
    if (query < job->target_end) {
        head->query_off = (uint16_t)(query + 1);
        head->query_len = (uint16_t)(job->target_end - query - 1);
    }
}

/* llhttp has seen to "scheme://". A scheme that is not ours leaves the whole target as a path,
 * which no route can match. */
static bool set_absolute_form(mr_llhttp_job *job) {
    mr_h1_head *head = job->h1.head;
    const uint8_t *bytes = job->h1.bytes;
    size_t scheme = find(bytes, job->target, job->target_end, ":::");
    size_t host = scheme + 3, len = scheme - job->target;
    if (host > job->target_end)
        return false;
    head->form = MR_FORM_ABSOLUTE;
    if ((len != 4 || !mr_equals_lower(bytes + job->target, "http", 4)) &&
        (len != 5 || !mr_equals_lower(bytes + job->target, "https", 5))) {
        set_path(job, job->target);
        return true;
    }
    size_t end = find(bytes, host, job->target_end, "/??");
    for (size_t at = host; at < end; at++)
        if (bytes[at] == '@')
            host = at + 1; /* user information is no part of the host */
    head->host_off = (uint16_t)host;
    head->host_len = (uint16_t)(end - host);
    set_path(job, end);
    return true;
}

static bool set_target(mr_llhttp_job *job) {
    mr_h1_head *head = job->h1.head;
    size_t len = job->target_end - job->target;
    head->target_off = (uint16_t)job->target;
    head->target_len = (uint16_t)len;
    if (len == 0)
        return false;
    if (head->method == MR_METHOD_CONNECT) {
        head->form = MR_FORM_AUTHORITY;
        return true;
    }
    if (job->h1.bytes[job->target] == '/') {
        set_path(job, job->target);
        return true;
    }
    if (job->h1.bytes[job->target] == '*') {
        head->form = MR_FORM_ASTERISK;
        return head->method == MR_METHOD_OPTIONS && len == 1;
    }
    return set_absolute_form(job);
}

/* llhttp has refused what is no number and what passes 64 bits. */
static bool set_length(mr_llhttp_job *job, const mr_h1_field *field) {
    mr_h1_head *head = job->h1.head;
    uint64_t length = 0;
    if (field->value_len == 0 || (head->flags & MR_H1_HAS_LENGTH) != 0)
        return false;
    for (size_t i = 0; i < field->value_len; i++) {
        unsigned digit = (unsigned)(job->h1.bytes[field->value_off + i] - '0');
        if (digit > 9 || length > (UINT64_MAX - digit) / 10)
            return false;
        length = length * 10 + digit;
    }
    head->flags |= MR_H1_HAS_LENGTH;
    head->content_length = length;
    return true;
}

/* The first Host counts, as in node:http, whatever it says. Shown empty to our own rules, it passes
 * them, and they know that there was one. */
static mr_rc note_host(mr_llhttp_job *job, mr_h1_field field) {
    mr_h1_head *head = job->h1.head;
    if (head->form != MR_FORM_ABSOLUTE) {
        head->host_off = field.value_len != 0 ? field.value_off : 0;
        head->host_len = field.value_len;
    }
    field.value_len = 0;
    return mr_h1_note_field(&job->h1, field);
}

static mr_rc note_field(mr_llhttp_job *job, const mr_h1_field *field, bool *saw_host) {
    if (is_named(job, field, "connection", 10) || is_named(job, field, "expect", 6) ||
        is_named(job, field, "upgrade", 7))
        return mr_h1_note_field(&job->h1, *field);
    if (is_named(job, field, "content-length", 14))
        return set_length(job, field) ? MR_OK : MR_BADPEER;
    if (is_named(job, field, "transfer-encoding", 17)) {
        job->saw_coding = true;
        return MR_OK;
    }
    if (*saw_host || !is_named(job, field, "host", 4))
        return MR_OK;
    *saw_host = true;
    return note_host(job, *field);
}

/* Without the whitespace that llhttp leaves at the end; an empty value where our own parser has it.
 * False for a folded value: it cannot be given as one stretch of octets without its line end, and a
 * server may refuse it (RFC 9112 5.2). */
static bool trim(const uint8_t *bytes, mr_h1_field *field) {
    const uint8_t *value = bytes + field->value_off;
    while (field->value_len > 0 && is_blank(value[field->value_len - 1]))
        field->value_len--;
    if (field->value_len == 0) {
        field->value_off = (uint16_t)(field->name_off + field->name_len + 1);
        while (is_blank(bytes[field->value_off]))
            field->value_off++;
    }
    return memchr(value, '\r', field->value_len) == NULL &&
           memchr(value, '\n', field->value_len) == NULL;
}

static mr_rc note_fields(mr_llhttp_job *job) {
    bool saw_host = false;
    for (size_t i = 0; i < job->count; i++)
        if (!trim(job->h1.bytes, &job->h1.fields[i]) ||
            note_field(job, &job->h1.fields[i], &saw_host) != MR_OK)
            return MR_BADPEER;
    return MR_OK;
}

/* llhttp judges Transfer-Encoding only behind the head and tells nobody: an end of chunks shows it.
 */
static bool set_coding(mr_h1_llhttp *l, mr_llhttp_job *job) {
    static const char no_chunks[] = "0\r\n\r\n";
    l->api.resume(l->parser);
    (void)l->api.execute(l->parser, no_chunks, sizeof no_chunks - 1);
    if (!job->saw_chunk || !job->is_done)
        return false;
    job->h1.head->flags |= MR_H1_CHUNKED;
    return true;
}

static void set_persistence(mr_h1_llhttp *l, mr_h1_head *head) {
    head->flags &= ~(uint32_t)(MR_H1_KEEP_ALIVE | MR_H1_SAID_KEEP_ALIVE);
    if (l->api.should_keep_alive(l->parser))
        head->flags |= MR_H1_KEEP_ALIVE | (head->minor == 0 ? MR_H1_SAID_KEEP_ALIVE : 0u);
}

/* llhttp knows HTTP/0.9 and 2.0 too, and the request lines of RTSP and ICE; the engine does not. */
static bool is_http1(mr_h1_llhttp *l, const mr_llhttp_job *job) {
    const uint8_t *version = job->h1.bytes + job->target_end;
    while (*version == ' ')
        version++;
    return l->api.get_http_major(l->parser) == 1 && memcmp(version, "HTTP/1.", 7) == 0;
}

/* The head is whole and llhttp content with it. */
static mr_rc judge(mr_h1_llhttp *l, mr_llhttp_job *job) {
    mr_h1_head *head = job->h1.head;
    size_t head_len = offset_of(job, l->api.get_error_pos(l->parser));
    if (!is_http1(l, job))
        return refuse(job, 505);
    head->minor = l->api.get_http_minor(l->parser) != 0;
    if (!set_method(l, job) || !set_target(job) || note_fields(job) != MR_OK)
        return refuse(job, 400);
    mr_rc rc = mr_h1_finish(&job->h1, head_len, job->count);
    if (rc != MR_OK)
        return refuse(job, head->status);
    set_persistence(l, head);
    if (job->saw_coding && head->method != MR_METHOD_CONNECT && !set_coding(l, job))
        return refuse(job, 400);
    return MR_OK;
}

/* ---- running llhttp ---- */

static int run(mr_h1_llhttp *l, mr_llhttp_job *job, size_t end) {
    l->job = job;
    job->fed = job->h1.bytes + end;
    l->api.init(l->parser, TYPE_REQUEST, l->settings);
    return l->api.execute(l->parser, (const char *)job->h1.bytes, end);
}

/* Where the target passes its limit, 0 when it does not (yet). */
static size_t overlong_target(const mr_h1_job *h1) {
    size_t at = 0, room = h1->limits->target_bytes;
    while (at < h1->end && (h1->bytes[at] == '\r' || h1->bytes[at] == '\n'))
        at++;
    while (at < h1->end && mr_is_tchar(h1->bytes[at]))
        at++;
    if (h1->end - at <= room + 1 || h1->bytes[at] != ' ')
        return 0;
    size_t last = at + 1 + room;
    return find(h1->bytes, at + 1, last + 1, " \r\n") > last ? last + 1 : 0;
}

static mr_rc parse_head(void *self, const mr_h1_limits *limits, const uint8_t *bytes, size_t len,
                        size_t seen, mr_h1_head *head, mr_h1_field *fields) {
    mr_h1_llhttp *l = self;
    (void)seen; /* llhttp may refuse in the middle of a line */
    MR_ASSERT(l->job == NULL && limits->header_bytes <= UINT16_MAX);
    *head = (mr_h1_head){0};
    mr_llhttp_job job = {.h1 = {.bytes = bytes,
                                .end = len < limits->header_bytes ? len : limits->header_bytes,
                                .limits = limits,
                                .head = head,
                                .fields = fields}};
    size_t overlong = overlong_target(&job.h1);
    int error = run(l, &job, overlong != 0 ? overlong : job.h1.end);
    mr_rc rc;
    if (job.status != 0)
        rc = refuse(&job, job.status);
    else if (error != 0)
        rc = error == l->paused && job.is_head_done ? judge(l, &job) : refuse(&job, 400);
    else if (overlong != 0)
        rc = refuse(&job, 414);
    else
        rc = job.h1.end >= limits->header_bytes ? refuse(&job, 431) : MR_AGAIN;
    l->job = NULL;
    return rc;
}

const mr_h1_parser mr_h1_parser_llhttp = {.name = "llhttp", .parse_head = parse_head};

mr_rc mr_h1_llhttp_read_message(mr_h1_llhttp *l, const uint8_t *bytes, size_t len, uint8_t *content,
                                size_t *content_len, size_t *end) {
    static const mr_h1_limits none = {UINT32_MAX, 0, UINT32_MAX};
    mr_h1_head head = {0};
    mr_llhttp_job job = {.h1 = {.bytes = bytes, .end = len, .limits = &none, .head = &head},
                         .wants_more = true,
                         .is_head_done = true, /* no fields are wanted */
                         .content = content};
    MR_ASSERT(l->job == NULL);
    int error = run(l, &job, len);
    l->job = NULL;
    *content_len = job.content_len;
    if (error != 0 && !(error == l->paused && job.is_done))
        return MR_BADPEER;
    if (!job.is_done)
        return MR_AGAIN;
    *end = offset_of(&job, l->api.get_error_pos(l->parser));
    return MR_OK;
}

/* ---- sizes ---- */

/* Length of what was written over a buffer of `fill`, 0 if there are gaps. Writing the fill itself
 * looks like a gap, so the caller looks twice, with two fills. */
static size_t written(const uint8_t *bytes, const uint8_t *again, uint8_t fill, uint8_t fill_again,
                      size_t room) {
    size_t len = room;
    while (len > 0 && bytes[len - 1] == fill && again[len - 1] == fill_again)
        len--;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] == fill && again[i] == fill_again)
            return 0;
    return len;
}

static size_t settings_size(const mr_llhttp_api *api, uint8_t *bytes) {
    uint8_t zero[MR_LLHTTP_SETTINGS_MAX] = {0};
    memset(bytes, 0xA5, MR_LLHTTP_SETTINGS_MAX);
    api->settings_init(bytes);
    size_t len = written(bytes, bytes, 0xA5, 0xA5, MR_LLHTTP_SETTINGS_MAX);
    return memcmp(bytes, zero, len) == 0 ? len : 0;
}

static size_t parser_size(mr_h1_llhttp *l) {
    _Alignas(16) uint8_t again[MR_LLHTTP_PARSER_MAX];
    memset(l->parser, 0xA5, sizeof l->parser);
    memset(again, 0x5A, sizeof again);
    l->api.init(l->parser, TYPE_REQUEST, l->settings);
    l->api.init(again, TYPE_REQUEST, l->settings);
    return written(l->parser, again, 0xA5, 0x5A, sizeof again);
}

static const char *find_sizes(mr_h1_llhttp *l) {
    l->settings_bytes = settings_size(&l->api, l->settings);
    if (l->settings_bytes == 0 || l->settings_bytes % sizeof(span_fn) != 0)
        return "llhttp_settings_init does not clear a struct of pointers.";
    if (l->settings_bytes / sizeof(span_fn) > MR_LLHTTP_SLOTS_MAX)
        return "llhttp has more callbacks than were ever seen.";
    l->parser_bytes = parser_size(l);
    if (l->parser_bytes == 0 || l->parser_bytes % sizeof(void *) != 0)
        return "llhttp_init does not set up a struct as a whole.";
    if (l->parser_bytes > MR_LLHTTP_PARSER_MAX / 2)
        return "llhttp's parser is larger than was ever seen.";
    return NULL;
}

static const char *find_paused(mr_h1_llhttp *l) {
    l->api.init(l->parser, TYPE_REQUEST, l->settings);
    l->api.pause(l->parser);
    l->paused = l->api.get_errno(l->parser);
    const char *name = l->paused != 0 ? l->api.errno_name(l->paused) : NULL;
    if (name == NULL || strcmp(name, "HPE_PAUSED") != 0)
        return "llhttp_pause does not lead to HPE_PAUSED.";
    return NULL;
}

/* ---- slots ---- */

/* One callback for each slot, which notes that it was called. All slots get these, those for spans
 * too: octets that are passed and not looked at do no harm. */
#define EIGHT(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7)
#define ALL(M) EIGHT(M, 0) EIGHT(M, 01) EIGHT(M, 02) EIGHT(M, 03) EIGHT(M, 04)
#define DEFINE(n)                                                                                  \
    static int fire_##n(void *parser) {                                                            \
        owner_of(parser)->fired |= (uint64_t)1 << (n);                                             \
        return 0;                                                                                  \
    }
#define NAME(n) fire_##n,
ALL(DEFINE)
static const event_fn fire[MR_LLHTTP_SLOTS_MAX] = {ALL(NAME)};
#undef EIGHT
#undef ALL
#undef DEFINE
#undef NAME

/* A message in pieces. A piece with a role is so cut that only that role's slot is called while it
 * is fed; ROLE_NEW asks for the one that was not called before, and ROLE_ANY looks at nothing. */
enum { ROLE_ANY = -1 };
static const struct {
    const char *text;
    int role;
    bool is_new; /* others may be called, but this one for the first time */
} pieces[] = {{"POST ", ROLE_ANY, false},
              {"/", MR_LLHTTP_URL, false},
              {"ab", MR_LLHTTP_URL, false},
              {" HTTP/1.1\r\n", ROLE_ANY, false},
              {"N", MR_LLHTTP_FIELD, false},
              {"ame", MR_LLHTTP_FIELD, false},
              {":", ROLE_ANY, false},
              {" v", MR_LLHTTP_VALUE, false},
              {"alue", MR_LLHTTP_VALUE, false},
              {"\r\nTransfer-Encoding: chunked\r\n", ROLE_ANY, false},
              {"\r", ROLE_ANY, false},
              {"\n", MR_LLHTTP_HEADERS_COMPLETE, false},
              {"3\r", ROLE_ANY, false},
              {"\n", MR_LLHTTP_CHUNK_HEADER, false},
              {"xy", MR_LLHTTP_BODY, false},
              {"z", MR_LLHTTP_BODY, false},
              {"\r\n0\r", ROLE_ANY, false},
              {"\n", MR_LLHTTP_CHUNK_HEADER, false},
              {"T", MR_LLHTTP_FIELD, false},
              {": u\r\n\r", ROLE_ANY, false},
              {"\n", MR_LLHTTP_MESSAGE_COMPLETE, true}};

static bool take_role(mr_h1_llhttp *l, int role, uint64_t fired, uint32_t *known) {
    if (fired == 0 || (fired & (fired - 1)) != 0)
        return false;
    uint8_t slot = (uint8_t)__builtin_ctzll(fired);
    bool is_first = (*known & 1u << role) == 0;
    *known |= 1u << role;
    if (!is_first)
        return l->slots[role] == slot;
    l->slots[role] = slot;
    return true;
}

static bool are_distinct(const mr_h1_llhttp *l) {
    uint64_t taken = 0;
    for (int role = 0; role < MR_LLHTTP_ROLES; role++)
        taken |= (uint64_t)1 << l->slots[role];
    return __builtin_popcountll(taken) == MR_LLHTTP_ROLES;
}

static const char *find_slots(mr_h1_llhttp *l) {
    uint64_t before = 0;
    uint32_t known = 0;
    memcpy(l->settings, fire, l->settings_bytes);
    l->api.init(l->parser, TYPE_REQUEST, l->settings);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        l->fired = 0;
        if (l->api.execute(l->parser, pieces[i].text, strlen(pieces[i].text)) != 0)
            return "llhttp refuses a request that has nothing wrong.";
        uint64_t fired = pieces[i].is_new ? l->fired & ~before : l->fired;
        before |= l->fired;
        if (pieces[i].role != ROLE_ANY && !take_role(l, pieces[i].role, fired, &known))
            return "llhttp's callbacks cannot be told apart.";
    }
    return are_distinct(l) ? NULL : "llhttp's callbacks cannot be told apart.";
}

static void fill_slots(mr_h1_llhttp *l) {
    static const span_fn spans[MR_LLHTTP_ROLES] = {[MR_LLHTTP_URL] = on_url,
                                                   [MR_LLHTTP_FIELD] = on_field,
                                                   [MR_LLHTTP_VALUE] = on_value,
                                                   [MR_LLHTTP_BODY] = on_body};
    static const event_fn events[MR_LLHTTP_ROLES] = {
        [MR_LLHTTP_HEADERS_COMPLETE] = on_headers_complete,
        [MR_LLHTTP_CHUNK_HEADER] = on_chunk_header,
        [MR_LLHTTP_MESSAGE_COMPLETE] = on_message_complete};
    _Static_assert(sizeof(span_fn) == sizeof(event_fn), "a slot holds either");
    memset(l->settings, 0, sizeof l->settings);
    for (int role = 0; role < MR_LLHTTP_ROLES; role++) {
        const void *from = spans[role] != NULL ? (const void *)&spans[role] : &events[role];
        memcpy(l->settings + l->slots[role] * sizeof(span_fn), from, sizeof(span_fn));
    }
}

/* ---- self-test ---- */

#define KEPT MR_H1_KEEP_ALIVE
#define TEST_FIELDS 3u

static const struct self_case {
    const char *bytes;
    mr_rc rc;
    uint8_t method;
    uint16_t rest; /* octets behind the head */
    uint32_t flags;
    uint64_t content_length;
    const char *target;
    const char *fields; /* as name=value; each */
} self_cases[] = {
    {"GET /a?b HTTP/1.1\r\nHost: x:1\r\nNone:\r\nSome: \t a b \t\r\n\r\nmore", MR_OK, MR_METHOD_GET,
     4, KEPT, 0, "/a?b", "Host=x:1;None=;Some=a b;"},
    {"GET /a?b HTTP/1.1\r\nHost: x:1\r\nNone:\r\nSome: \t a b \t\r\n\r", MR_AGAIN, 0, 0, 0, 0, "",
     ""},
    {"PUT http://h/ HTTP/1.0\r\nContent-Length: 23\r\n\r\nx", MR_OK, MR_METHOD_PUT, 1,
     MR_H1_HAS_LENGTH, 23, "http://h/", "Content-Length=23;"},
    {"POST /c HTTP/1.1\r\nHost:\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n", MR_OK,
     MR_METHOD_POST, 0, MR_H1_CHUNKED, 0, "/c",
     "Host=;Transfer-Encoding=Chunked;Connection=close;"},
    {"GET / HTTP/1.1\r\n\r\n", MR_BADPEER, 0, 0, 0, 0, "", ""},
    {"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", MR_BADPEER, 0, 0, 0, 0, "", ""},
    {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", MR_BADPEER, 0, 0, 0, 0, "",
     ""},
    {"GET / HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
     MR_BADPEER, 0, 0, 0, 0, "", ""},
    {"GET / HTTP/1.1\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n", MR_LIMIT, 0, 0, 0, 0, "", ""},
};

static bool is_text(const uint8_t *bytes, size_t len, const char **wanted, char end) {
    if (strncmp(*wanted, (const char *)bytes, len) != 0 || (*wanted)[len] != end)
        return false;
    *wanted += len + (end != 0);
    return true;
}

static bool has_fields(const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields,
                       const char *wanted) {
    for (unsigned i = 0; i < head->field_count; i++)
        if (!is_text(bytes + fields[i].name_off, fields[i].name_len, &wanted, '=') ||
            !is_text(bytes + fields[i].value_off, fields[i].value_len, &wanted, ';'))
            return false;
    return *wanted == 0;
}

static bool passes(mr_h1_llhttp *l, const struct self_case *c) {
    static const mr_h1_limits limits = {1024, TEST_FIELDS, 64};
    const uint8_t *bytes = (const uint8_t *)c->bytes;
    size_t len = strlen(c->bytes);
    const char *target = c->target;
    mr_h1_field fields[TEST_FIELDS];
    mr_h1_head head;
    if (parse_head(l, &limits, bytes, len, 0, &head, fields) != c->rc)
        return false;
    return c->rc != MR_OK || (head.method == c->method && head.head_len == len - c->rest &&
                              head.flags == c->flags && head.content_length == c->content_length &&
                              is_text(bytes + head.target_off, head.target_len, &target, 0) &&
                              has_fields(bytes, &head, fields, c->fields));
}

static const char *test_self(mr_h1_llhttp *l) {
    static const char message[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\nGET ";
    uint8_t content[sizeof message];
    size_t content_len, end = 0;
    for (size_t i = 0; i < sizeof self_cases / sizeof self_cases[0]; i++)
        if (!passes(l, &self_cases[i]))
            return "llhttp does not read a known request head as expected.";
    mr_rc rc = mr_h1_llhttp_read_message(l, (const uint8_t *)message, sizeof message - 1, content,
                                         &content_len, &end);
    if (rc != MR_OK || content_len != 5 || memcmp(content, "abcde", 5) != 0 ||
        end != sizeof message - 1 - 4)
        return "llhttp does not read a known chunked body as expected.";
    return NULL;
}

static bool is_complete(const mr_llhttp_api *a) {
    return a->settings_init && a->init && a->execute && a->pause && a->resume && a->get_errno &&
           a->errno_name && a->get_error_pos && a->get_method && a->method_name &&
           a->get_http_major && a->get_http_minor && a->should_keep_alive;
}

mr_rc mr_h1_llhttp_init(mr_h1_llhttp *l, const mr_llhttp_api *api, const char **reason) {
    *l = (mr_h1_llhttp){.api = *api};
    *reason = NULL;
    if (!is_complete(api))
        *reason = "The host does not export all of llhttp's functions.";
    else if ((*reason = find_sizes(l)) == NULL && (*reason = find_paused(l)) == NULL &&
             (*reason = find_slots(l)) == NULL) {
        fill_slots(l);
        *reason = test_self(l);
    }
    return *reason == NULL ? MR_OK : MR_INVALID;
}
