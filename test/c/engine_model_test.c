/* engine_model_test.c -- random lives of many connections against a model: whatever the split, the
 * order of answers and of their pieces, what is asked of the content, the room in the ring and in
 * the kernel, a client gets the responses to its requests in order, whole, and nothing else; and a
 * handler gets the content, whole and once. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine_rig.h"

enum { LINES = 12, STEPS = 900, ROUNDS = 60, RESPONSES = 256 };

typedef enum ending { STAYS, SAYS_CLOSE, SAYS_KEEP_ALIVE } ending;
typedef enum body_form { IS_WHOLE, IN_CHUNKS, HAS_LENGTH } body_form;

typedef struct expected { /* one response */
    const char *status;   /* of a refusal; NULL: a handler's 200 */
    size_t body_len;
    bool is_head;
    body_form form;
    ending ending;
} expected;

#define HINTS "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

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
        "POST /bad HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    model *m = &models[line];
    char text[512], content[1200], path[64];
    expected want = {.body_len = body_size(), .form = (body_form)rnd(3)};
    uint32_t kind = rnd(100);
    if (m->is_over || m->count == RESPONSES)
        return;
    bool is_closing = rnd(40) == 0;
    if (kind >= 90 && want.form == IN_CHUNKS)
        want.form = HAS_LENGTH; /* to HTTP/1.0 it would end with the connection */
    if (is_closing)
        want.ending = SAYS_CLOSE;
    memset(content, 'c', sizeof content);
    size_t size = 1 + rnd(1000);
    snprintf(path, sizeof path, "/%u/%zu/%d/%d/%zu", m->count, want.body_len, is_closing, want.form,
             kind >= 55 && kind < 90 ? size : 0);
    if (kind < 55) {
        want.is_head = kind < 5;
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: h\r\n\r\n",
                 want.is_head ? "HEAD" : "GET", path);
        rig_send(line, text);
    } else if (kind < 75) {
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n%s\r\n",
                 path, size, rnd(3) ? "" : "Expect: 100-continue\r\n");
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
    } else if (kind < 99 && rnd(2)) {
        rig_send(line,
                 "POST /bad HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n258\r\n");
        rig_send_bytes(line, content, 600);
        rig_send(line, "\r\n191\r\n");
        rig_send_bytes(line, content, 401);
        rig_send(line, "\r\n0\r\n\r\n");
        want = (expected){.status = "413 Content Too Large", .ending = SAYS_CLOSE};
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

/* ---- what the handlers do ---- */

static struct { /* of each request's stream */
    bool has_begun;
    size_t done; /* octets written */
} streams[RIG_REQUESTS];

static rig_lease loans[4096];
static uint32_t loan_count;

static mr_rc write_part(uint32_t index, const uint8_t *body, size_t len) {
    const rig_request *q = &rig.requests[index];
    if (rnd(3) == 0 || loan_count == sizeof loans / sizeof loans[0] || len == 0)
        return mr_engine_write(rig.engine, q->connection, q->seq, body, len, NULL);
    rig_lease *l = &loans[loan_count++];
    rig_lend(l, len);
    memcpy(l->bytes, body, len);
    mr_rc rc = mr_engine_write(rig.engine, q->connection, q->seq, l->bytes, len, &l->lease);
    mr_lease_return(&l->lease);
    return rc;
}

static void begin_stream(uint32_t index, body_form form, size_t len, uint16_t flags) {
    const rig_request *q = &rig.requests[index];
    char head[128];
    int head_len = form == HAS_LENGTH ? snprintf(head, sizeof head,
                                                 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n", len)
                                      : snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\n");
    mr_response r = {.head = (const uint8_t *)head,
                     .head_len = (size_t)head_len,
                     .status = 200,
                     .flags = flags | MR_RESPONSE_STREAM};
    if (form == HAS_LENGTH)
        r.flags |= MR_RESPONSE_HAS_LENGTH;
    rig_ignore(mr_engine_respond(rig.engine, q->connection, q->seq, &r));
    streams[index].has_begun = true;
}

/* The next step of a stream. */
static void go_on(uint32_t index, body_form form, const uint8_t *body, size_t len, uint16_t flags) {
    rig_request *q = &rig.requests[index];
    size_t *done = &streams[index].done;
    if (!streams[index].has_begun) {
        begin_stream(index, form, len, flags);
        return;
    }
    if (rnd(4) == 0)
        rig_ignore(mr_engine_watch_drain(rig.engine, q->connection, q->seq));
    if (*done < len) {
        size_t part = 1 + rnd(rnd(3) == 0 ? 60000 : 900);
        if (part > len - *done)
            part = len - *done;
        (void)write_part(index, body + *done, part);
        *done += part;
        return;
    }
    rig_ignore(mr_engine_finish(rig.engine, q->connection, q->seq, NULL, 0));
    q->is_answered = true;
    if (rnd(10) == 0)
        CHECK(mr_engine_finish(rig.engine, q->connection, q->seq, NULL, 0) == MR_GONE);
}

static void answer_one(uint32_t index) {
    static uint8_t body[70000];
    rig_request *q = &rig.requests[index];
    unsigned number, is_closing, form_number;
    size_t len, content_len;
    if (q->is_answered || strcmp(q->path, "/bad") == 0)
        return;
    if (sscanf(q->path, "/%u/%zu/%u/%u/%zu", &number, &len, &is_closing, &form_number,
               &content_len) != 5) {
        CHECK(strcmp(q->path, "/a") == 0); /* behind one whose answer will close: never seen */
        (void)rig_answer(index, "nobody's");
        q->is_answered = true;
        return;
    }
    CHECK(q->body_len <= content_len && (!q->is_complete || q->body_len == content_len));
    for (size_t i = 0; i < q->body_len; i++)
        CHECK(q->body[i] == 'c');
    if (rnd(8) == 0)
        rig_ignore(mr_engine_inform(rig.engine, q->connection, q->seq, 103,
                                    (const uint8_t *)"Link: </a>\r\n", 12));
    /* A stream may begin and go on before the content has come, but not end. */
    bool is_end = form_number == IS_WHOLE || streams[index].done == len;
    if (is_end && !q->is_complete)
        return;
    for (size_t i = 0; i < len; i++)
        body[i] = octet_at(q->handler, number, i);
    CHECK(number == q->seq);
    uint16_t flags = is_closing ? MR_RESPONSE_CLOSE : 0;
    if (form_number != IS_WHOLE) {
        go_on(index, (body_form)form_number, body, len, flags);
        return;
    }
    q->is_answered = true;
    (void)rig_answer_with(index, body, len, flags);
    if (rnd(10) == 0)
        CHECK(rig_answer(index, "twice") == MR_GONE);
}

static void ask_one(uint32_t index) {
    if (rig.requests[index].is_streamed && !rig.requests[index].is_complete)
        (void)rig_ask(index, 1 + rnd(rnd(2) ? 2000 : 20));
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

static void skip_interim(reader *r) {
    static const char *const texts[] = {HINTS, CONTINUE};
    for (uint32_t i = 0; i < 2; i++) {
        size_t len = strlen(texts[i]), have = (size_t)(r->end - r->at);
        if (have > 9 && memcmp(r->at, texts[i], have < len ? have : len) == 0) {
            r->at += have < len ? have : len;
            i = UINT32_MAX; /* from the start */
        }
    }
}

/* Content in chunks of any size. */
static bool read_chunks(reader *r, uint32_t line, uint32_t number, size_t len) {
    for (size_t i = 0;;) {
        size_t size = 0;
        bool is_whole;
        while (r->at < r->end && *r->at != '\r') {
            CHECK(strchr("0123456789abcdef", *r->at) != NULL);
            size = size * 16 + (size_t)(*r->at <= '9' ? *r->at - '0' : *r->at - 'a' + 10);
            r->at++;
        }
        CHECK(read_text(r, "\r\n", &is_whole));
        if (!is_whole)
            return false;
        CHECK(i + size <= len && (size > 0 || i == len));
        for (size_t end = i + size; i < end; i++) {
            if (r->at == r->end)
                return false;
            CHECK(*r->at++ == octet_at(line, number, i));
        }
        CHECK(read_text(r, "\r\n", &is_whole));
        if (size == 0 || !is_whole)
            return is_whole;
    }
}

/* True when the response came whole. */
static bool read_response(reader *r, uint32_t line, uint32_t number, const expected *want) {
    char head[256];
    bool is_whole;
    skip_interim(r);
    if (want->status != NULL) {
        CHECK(read_text(r, rig_plain(want->status, true), &is_whole));
        return is_whole;
    }
    if (want->form == IN_CHUNKS)
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" RIG_DATE);
    else
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
    if (want->form == IN_CHUNKS && !want->is_head)
        return is_whole && read_chunks(r, line, number, want->body_len);
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
    skip_interim(&r);
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
        rig.content_room = rnd(2) ? rnd(6) : UINT32_MAX;
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
            ask_one(*known - 1 - rnd(*known < 20 ? *known : 20));
        for (uint32_t n = rnd(12); n > 0 && *known > 0; n--)
            answer_one(rnd(2) ? rnd(*known) : *known - 1 - rnd(*known < 20 ? *known : 20));
        break;
    }
    note_lines(known);
}

static void finish(uint32_t *known) {
    rig.request_room = rig.content_room = UINT32_MAX;
    rig.piece = SIZE_MAX;
    rig.asks_at_once = true;
    for (int i = 0; i < 60; i++) {
        for (uint32_t line = 0; line < LINES; line++)
            rig.lines[line].room = SIZE_MAX;
        note_lines(known);
        for (uint32_t k = *known; k-- > 0;)
            for (int n = 0; n < 4; n++)
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
    memset(streams, 0, sizeof streams);
    loan_count = 0;
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
    for (uint32_t i = 0; i < loan_count; i++)
        CHECK(loans[i].is_returned);
    rig.at_case = "between";
}

int main(void) {
    for (uint64_t seed = 1; seed <= ROUNDS; seed++)
        life(seed);
    return 0;
}
