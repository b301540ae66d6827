/* engine_model_test.c -- random lives of many connections against a model: whatever the split, the
 * order of answers, the room in the ring and in the kernel, a client gets the responses to its
 * requests in order, whole, and nothing else. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: net/sock.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
#include "engine_rig.h"

enum { LINES = 12, STEPS = 900, ROUNDS = 60, RESPONSES = 256 };

typedef enum ending { STAYS, SAYS_CLOSE, SAYS_KEEP_ALIVE } ending;

typedef struct expected { /* one response */
    const char *status;   /* of a refusal; NULL: a handler's 200 */
    size_t body_len;
    bool is_head;
    ending ending;
} expected;

typedef struct model { /* one client */
    expected responses[RESPONSES];
    uint32_t count;
    bool is_over;  /* its last request is sent */
    bool is_reset; /* then any prefix will do */
} model;

static model models[LINES];
static uint64_t random_state;

static uint32_t rnd(uint32_t below) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 33) % below;
}

static uint8_t octet_at(uint32_t line, uint32_t number, size_t i) {
    return (uint8_t)('!' + (line * 31 + number * 7 + i) % 90);
}

static size_t body_size(void) {
    static const size_t most[] = {1, 20, 20, 300, 300, 5000, 33000, 70000};
    return rnd((uint32_t)most[rnd(8)]);
}

/* The path tells the handler's double what to answer. */
static void send_request(uint32_t line) {
    static const char *const bads[] = {
        "GET /x HTTP/1.1\r\n\r\n", "G@T / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    model *m = &models[line];
    char text[512], content[1200], path[64];
    expected want = {.body_len = body_size()};
    uint32_t kind = rnd(100);
    if (m->is_over || m->count == RESPONSES)
        return;
    bool is_closing = rnd(40) == 0;
    snprintf(path, sizeof path, "/%u/%zu/%d", m->count, want.body_len, is_closing);
    if (is_closing)
        want.ending = SAYS_CLOSE;
    memset(content, 'c', sizeof content);
    size_t size = 1 + rnd(1000);
    if (kind < 55) {
        want.is_head = kind < 5;
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: h\r\n\r\n",
                 want.is_head ? "HEAD" : "GET", path);
        rig_send(line, text);
    } else if (kind < 75) {
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                 path, size);
        rig_send(line, text);
        rig_send_bytes(line, content, size);
    } else if (kind < 90) {
        size_t first = rnd((uint32_t)size) + 1;
        snprintf(text, sizeof text,
                 "POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%zx;a\r\n", path,
                 first);
        rig_send(line, text);
        rig_send_bytes(line, content, first);
        rig_send(line, "\r\n");
        if (size > first) {
            snprintf(text, sizeof text, "%zX\r\n", size - first);
            rig_send(line, text);
            rig_send_bytes(line, content, size - first);
            rig_send(line, "\r\n");
        }
        rig_send(line, rnd(2) ? "0\r\n\r\n" : "0\r\nT: x\r\n\r\n");
    } else if (kind < 94) {
        snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", path);
        rig_send(line, text);
        if (!is_closing)
            want.ending = SAYS_KEEP_ALIVE;
    } else if (kind < 96) {
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                 path);
        rig_send(line, text);
        want.ending = SAYS_CLOSE;
    } else if (kind < 98) {
        rig_send(line, bads[rnd(3)]);
        want = (expected){.status = "400 Bad Request", .ending = SAYS_CLOSE};
    } else if (kind < 99) {
        rig_send(line, "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
        want = (expected){.status = "413 Content Too Large", .ending = SAYS_CLOSE};
    } else {
        return;
    }
    m->responses[m->count++] = want;
    m->is_over = want.ending == SAYS_CLOSE;
    if (m->is_over && rnd(2))
        rig_send(line, RIG_GET RIG_GET); /* nobody's requests */
}

static void answer_one(uint32_t index) {
    static uint8_t body[70000];
    rig_request *q = &rig.requests[index];
    unsigned number, is_closing;
    size_t len;
    if (q->is_answered)
        return;
    q->is_answered = true;
    if (sscanf(q->path, "/%u/%zu/%u", &number, &len, &is_closing) != 3) {
        CHECK(strcmp(q->path, "/a") == 0); /* behind one whose answer will close: never seen */
        (void)rig_answer(index, "nobody's");
        return;
    }
    for (size_t i = 0; i < len; i++)
        body[i] = octet_at(q->handler, number, i);
    CHECK(number == q->seq);
    (void)rig_answer_with(index, body, len, is_closing ? MR_RESPONSE_CLOSE : 0);
    if (rnd(10) == 0)
        CHECK(rig_answer(index, "twice") == MR_GONE);
}

/* ---- what a client got ---- */

typedef struct reader {
    const uint8_t *at, *end;
} reader;

/* Whether the text, or what has come of it, is next; is_whole says which. */
static bool read_text(reader *r, const char *text, bool *is_whole) {
    size_t len = strlen(text), have = (size_t)(r->end - r->at), part = have < len ? have : len;
    *is_whole = have >= len;
    if (part != 0 && memcmp(r->at, text, part) != 0)
        return false;
    r->at += part;
    return true;
}

/* True when the response came whole. */
static bool read_response(reader *r, uint32_t line, uint32_t number, const expected *want) {
    char head[256];
    bool is_whole;
    if (want->status != NULL) {
        CHECK(read_text(r, rig_plain(want->status, true), &is_whole));
        return is_whole;
    }
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n" RIG_DATE,
             want->body_len);
    CHECK(read_text(r, head, &is_whole));
    if (want->ending == SAYS_KEEP_ALIVE && is_whole && r->end > r->at && *r->at == 'C' &&
        (r->end - r->at < 13 || r->at[12] == 'k'))
        CHECK(read_text(r, "Connection: keep-alive\r\n", &is_whole));
    else if (want->ending == SAYS_CLOSE ||
             (rig.lines[line].is_ended && r->end > r->at && *r->at == 'C'))
        CHECK(read_text(r, RIG_CLOSE, &is_whole)); /* may also say so when the client has ended */
    CHECK(read_text(r, "\r\n", &is_whole));
    for (size_t i = 0; !want->is_head && i < want->body_len; i++) {
        if (r->at == r->end)
            return false;
        CHECK(*r->at++ == octet_at(line, number, i));
    }
    return is_whole;
}

static void check_line(uint32_t line, bool is_final) {
    const rig_line *l = &rig.lines[line];
    const model *m = &models[line];
    const uint8_t *got = l->got.len != 0 ? l->got.data : (const uint8_t *)"";
    reader r = {got, got + l->got.len};
    uint32_t i = 0;
    while (i < m->count && read_response(&r, line, i, &m->responses[i]))
        i++;
    CHECK(r.at == r.end);
    if (is_final && !m->is_reset)
        CHECK(i == m->count && (!(m->is_over || l->is_ended) || l->has_fin || l->link == NULL));
}

/* ---- a life ---- */

static uint32_t handler_of(const rig_request *q) {
    for (uint32_t i = 0; i < LINES; i++)
        if (rig.lines[i].link != NULL && ((mr_conn *)rig.lines[i].link)->id == q->connection)
            return i;
    return 0; /* gone: its answers are stale */
}

/* The handler's number stands for the line from here on. */
static void note_lines(uint32_t *known) {
    for (; *known < rig.request_count; ++*known)
        rig.requests[*known].handler = handler_of(&rig.requests[*known]);
}

static void reset_line(uint32_t line) {
    models[line].is_reset = true;
    models[line].is_over = true;
    if (rnd(2))
        rig.lines[line].is_broken = true;
    else if (rig.lines[line].link != NULL)
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[line].link);
}

static void step(uint32_t *known) {
    uint32_t line = rnd(LINES);
    rig_line *l = &rig.lines[line];
    switch (rnd(16)) {
    case 0:
    case 1:
    case 2:
        for (uint32_t n = 1 + rnd(rnd(8) == 0 ? 90 : 4); n > 0; n--)
            send_request(line);
        break;
    case 3:
        rig.piece = rnd(3) ? 1 + rnd(60) : SIZE_MAX;
        break;
    case 4:
        l->room = rnd(3) ? rnd(20000) : SIZE_MAX;
        break;
    case 5:
        rig.request_room = rnd(2) ? rnd(6) : UINT32_MAX;
        break;
    case 6:
        if (rnd(60) == 0)
            reset_line(line);
        break;
    case 7:
        if (rnd(40) == 0) {
            if (!models[line].is_over && rnd(2))
                rig_send(line, "GET /cut HTTP/1.1\r\nHo");
            models[line].is_over = true;
            rig_end_input(line);
        }
        break;
    case 8:
        rig_poll();
        break;
    case 9:
        mr_engine_flush(rig.engine);
        break;
    case 10:
        rig_pass(rnd(3));
        break;
    default:
        for (uint32_t n = rnd(12); n > 0 && *known > 0; n--)
            answer_one(rnd(2) ? rnd(*known) : *known - 1 - rnd(*known < 20 ? *known : 20));
        break;
    }
    note_lines(known);
}

static void finish(uint32_t *known) {
    rig.request_room = UINT32_MAX;
    rig.piece = SIZE_MAX;
    for (int i = 0; i < 30; i++) {
        for (uint32_t line = 0; line < LINES; line++)
            rig.lines[line].room = SIZE_MAX;
        note_lines(known);
        for (uint32_t k = *known; k-- > 0;)
            answer_one(k);
        rig_turn();
    }
}

static void life(uint64_t seed) {
    mr_engine_options o = rig_options();
    uint32_t known = 0;
    char name[64];
    o.limits.held_bytes = 1u << 30; /* so that no connection is closed for it */
    random_state = seed;
    rig_open("model", &o);
    snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
    rig.at_case = name;
    memset(models, 0, sizeof models);
    for (uint32_t i = 0; i < LINES; i++)
        (void)rig_connect();
    for (int i = 0; i < STEPS; i++) {
        step(&known);
        if (rnd(3) == 0)
            rig_turn();
        note_lines(&known);
        if (i % 64 == 0)
            for (uint32_t line = 0; line < LINES; line++)
                check_line(line, false);
    }
    finish(&known);
    for (uint32_t line = 0; line < LINES; line++)
        check_line(line, true);
    rig_close();
    rig.at_case = "between";
}

int main(void) {
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        life(seed);
    return 0;
}
