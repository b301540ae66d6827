/* rings.c -- see rings.h. */
#include "binding/rings.h"
#include <string.h>

/* Content handed up in ArrayBuffers before the collector is made to look for dead ones, and the size
 * that makes it look (28 MiB does not, Node 20 to 24; soak: upload). */
#define BODY_BYTES_PER_NUDGE (4u * 1024u * 1024u)
#define COLLECTION_NUDGE_BYTES (32u * 1024u * 1024u)
#define BLOCK_WORDS 24u /* u16 before params and fields */

static uint64_t id_of(uint32_t slot, uint32_t generation)
{
    return (uint64_t)slot | (uint64_t)generation << 32;
}

/* ---- set-up ---- */

static napi_status make_shared(mr_rings *r, napi_value holder, const char *name, size_t bytes,
                               void **data)
{
    napi_value buffer;
    napi_status status = napi_create_arraybuffer(r->env, bytes, data, &buffer);
    if (status == napi_ok)
        status = napi_set_named_property(r->env, holder, name, buffer);
    return status;
}

static napi_status make_list(mr_rings *r, napi_value holder, const char *name)
{
    napi_value list;
    napi_status status = napi_create_array(r->env, &list);
    if (status == napi_ok)
        status = napi_set_named_property(r->env, holder, name, list);
    return status;
}

napi_status mr_rings_init(mr_rings *r, napi_env env, napi_value holder)
{
    napi_status status;
    *r = (mr_rings){.env = env};
    status = make_shared(r, holder, "requests", MR_REQUESTS_MAX * MR_RECORD_WORDS * 4,
                         (void **)&r->requests);
    if (status == napi_ok)
        status = make_shared(r, holder, "responses", MR_RESPONSES_MAX * MR_RECORD_WORDS * 4,
                             (void **)&r->responses);
    if (status == napi_ok)
        status = make_shared(r, holder, "output", MR_OUTPUT_BYTES, (void **)&r->output);
    if (status == napi_ok)
        status = make_shared(r, holder, "control", 64, (void **)&r->control);
    if (status == napi_ok)
        status = make_list(r, holder, "chunks");
    if (status == napi_ok)
        status = make_list(r, holder, "bodies");
    if (status == napi_ok)
        status = napi_create_reference(env, holder, 1, &r->holder);
    return status;
}

void mr_rings_free_replies(mr_rings *r)
{
    for (uint32_t i = 0; i < r->reply_count; i++)
        mr_reply_release(r->replies[i]);
    r->reply_count = r->free_replies = 0;
}

void mr_rings_dispose(mr_rings *r, bool is_env_ending)
{
    mr_rings_free_replies(r);
    mr_mem_free(&r->mem, r->replies, r->reply_cap * sizeof *r->replies);
    mr_buf_dispose(&r->mem, &r->notes);
    if (!is_env_ending) {
        if (r->chunk_ref != NULL)
            napi_delete_reference(r->env, r->chunk_ref);
        if (r->holder != NULL)
            napi_delete_reference(r->env, r->holder);
    }
    *r = (mr_rings){.env = r->env};
}

static uint32_t reuse_number(mr_rings *r)
{
    uint32_t number = 0;
    while (r->replies[number] != NULL)
        number++;
    r->free_replies--;
    return number;
}

mr_rc mr_rings_add_reply(mr_rings *r, mr_reply *reply, uint32_t *number)
{
    if (r->free_replies > 0) {
        *number = reuse_number(r);
        r->replies[*number] = reply;
        return MR_OK;
    }
    if (r->reply_count == r->reply_cap) {
        uint32_t cap = r->reply_cap ? r->reply_cap * 2 : 16;
        mr_reply **grown = NULL;
        if (r->reply_count < MR_REPLIES_MAX)
            grown = mr_mem_resize(&r->mem, r->replies, r->reply_cap * sizeof *grown,
                                  cap * sizeof *grown);
        if (grown == NULL) {
            mr_reply_release(reply);
            return r->reply_count < MR_REPLIES_MAX ? MR_NOMEM : MR_LIMIT;
        }
        r->replies = grown;
        r->reply_cap = cap;
    }
    *number = r->reply_count;
    r->replies[r->reply_count++] = reply;
    return MR_OK;
}

void mr_rings_drop_reply(mr_rings *r, uint32_t number)
{
    if (number >= r->reply_count || r->replies[number] == NULL)
        return;
    mr_reply_release(r->replies[number]);
    r->replies[number] = NULL;
    r->free_replies++;
}

/* ---- requests up ---- */

static napi_status list_named(mr_rings *r, const char *name, napi_value *list)
{
    napi_value holder;
    napi_status status = napi_get_reference_value(r->env, r->holder, &holder);
    if (status == napi_ok)
        status = napi_get_named_property(r->env, holder, name, list);
    return status;
}

static mr_rc replace_chunk(mr_rings *r, size_t bytes, uint32_t serial)
{
    napi_value list, buffer;
    napi_ref ref;
    void *data;
    if (list_named(r, "chunks", &list) != napi_ok ||
        napi_create_arraybuffer(r->env, bytes, &data, &buffer) != napi_ok ||
        napi_set_element(r->env, list, serial % MR_CHUNKS_PER_BATCH, buffer) != napi_ok ||
        napi_create_reference(r->env, buffer, 1, &ref) != napi_ok)
        return MR_NOMEM;
    if (r->chunk_ref != NULL)
        napi_delete_reference(r->env, r->chunk_ref);
    r->chunk_ref = ref;
    r->chunk = data;
    r->chunk_bytes = bytes;
    r->chunk_used = 0;
    r->chunk_serial = serial;
    return MR_OK;
}

/* Replaces the chunk: the old one belongs to the request objects that point into it. With a scope of
 * its own: a transport on libuv streams delivers outside of any. */
static mr_rc new_chunk(mr_rings *r, size_t least_bytes)
{
    size_t bytes = least_bytes > MR_CHUNK_BYTES ? least_bytes : MR_CHUNK_BYTES;
    uint32_t serial = r->chunk_serial + 1;
    napi_handle_scope scope;
    if (serial - r->batch_serial >= MR_CHUNKS_PER_BATCH)
        return MR_AGAIN;
    if (napi_open_handle_scope(r->env, &scope) != napi_ok)
        return MR_NOMEM;
    mr_rc rc = replace_chunk(r, bytes, serial);
    (void)napi_close_handle_scope(r->env, scope);
    return rc;
}

static void write_block_head(uint16_t *block, const mr_request *q, uint16_t octets_at)
{
    const mr_h1_head *h = q->head;
    block[0] = h->field_count;
    block[1] = octets_at;
    block[2] = h->method_off;
    block[3] = h->method_len;
    block[4] = h->target_off;
    block[5] = h->target_len;
    block[6] = h->path_off;
    block[7] = h->path_len;
    block[8] = h->query_off;
    block[9] = h->query_len;
    block[10] = h->host_off;
    block[11] = h->host_len;
    block[12] = q->peer->port;
    block[13] = q->peer->family;
    block[14] = (uint16_t)h->head_len;
    block[15] = (uint16_t)q->param_count;
    memcpy(block + 16, q->peer->address, 16);
}

/* Copies the head (and small content) into the chunk; *offset is where. */
static mr_rc write_block(mr_rings *r, const mr_request *q, size_t inline_body, size_t *offset)
{
    size_t params_bytes = q->param_count * sizeof(mr_param);
    size_t fields_bytes = q->head->field_count * sizeof(mr_h1_field);
    size_t octets_at = BLOCK_WORDS * 2 + params_bytes + fields_bytes;
    size_t bytes = (octets_at + q->head->head_len + inline_body + 7) & ~(size_t)7;
    if (r->chunk == NULL || r->chunk_bytes - r->chunk_used < bytes) {
        mr_rc rc = new_chunk(r, bytes);
        if (rc != MR_OK)
            return rc;
    }
    uint8_t *at = r->chunk + r->chunk_used;
    *offset = r->chunk_used;
    r->chunk_used += bytes;
    write_block_head((uint16_t *)(void *)at, q, (uint16_t)octets_at);
    at += BLOCK_WORDS * 2;
    if (params_bytes > 0)
        memcpy(at, q->params, params_bytes);
    memcpy(at + params_bytes, q->fields, fields_bytes);
    at += params_bytes + fields_bytes;
    memcpy(at, q->bytes, q->head->head_len);
    if (inline_body > 0)
        memcpy(at + q->head->head_len, q->body, inline_body);
    return MR_OK;
}

/* V8 lets the memory of dead ArrayBuffers lie until some 30 MiB of it have gathered, as only then its
 * young generation is looked through. An allocation that would go over that makes it look at once;
 * nobody touches its pages, so it costs address space for a moment, and the collection. */
static void make_collector_look(mr_rings *r)
{
    napi_value buffer;
    void *data;
    r->body_bytes = 0;
    (void)napi_create_arraybuffer(r->env, COLLECTION_NUDGE_BYTES, &data, &buffer);
}

/* Large content gets an ArrayBuffer of its own; a scope as above. */
static mr_rc write_body(mr_rings *r, const uint8_t *body, size_t len)
{
    napi_handle_scope scope;
    napi_value list, buffer;
    void *data;
    if (napi_open_handle_scope(r->env, &scope) != napi_ok)
        return MR_NOMEM;
    bool is_made = list_named(r, "bodies", &list) == napi_ok &&
                   napi_create_arraybuffer(r->env, len, &data, &buffer) == napi_ok &&
                   napi_set_element(r->env, list, r->request_count, buffer) == napi_ok;
    if (is_made)
        memcpy(data, body, len);
    if ((r->body_bytes += len) >= BODY_BYTES_PER_NUDGE)
        make_collector_look(r);
    (void)napi_close_handle_scope(r->env, scope);
    return is_made ? MR_OK : MR_NOMEM;
}

mr_rc mr_rings_on_request(void *owner, const mr_request *q)
{
    mr_rings *r = owner;
    bool is_lean = (q->action_flags & MR_ACTION_LEAN) != 0;
    bool is_inline = q->body_len <= MR_BODY_INLINE_MAX;
    size_t offset = 0;
    mr_rc rc = MR_OK;
    if (r->request_count == MR_REQUESTS_MAX)
        return MR_AGAIN;
    if (!is_lean) {
        rc = write_block(r, q, is_inline ? q->body_len : 0, &offset);
        if (rc == MR_OK && !is_inline)
            rc = write_body(r, q->body, q->body_len);
        if (rc != MR_OK)
            return rc;
    }
    uint32_t *record = r->requests + r->request_count * MR_RECORD_WORDS;
    record[0] = (uint32_t)q->connection;
    record[1] = (uint32_t)(q->connection >> 32);
    record[2] = q->seq;
    record[3] = q->handler;
    record[4] = (uint32_t)q->head->method | (uint32_t)q->head->minor << 8 |
                (q->body_len > 0 && !is_lean ? (is_inline ? 1u << 9 : 1u << 10) : 0) |
                (q->is_streamed ? 1u << 11 : 0) |
                (q->is_streamed && (q->head->flags & MR_H1_EXPECT_100) ? 1u << 14 : 0);
    record[5] = is_lean ? MR_NO_CHUNK : r->chunk_serial;
    record[6] = (uint32_t)offset;
    record[7] = (uint32_t)q->body_len;
    r->request_count++;
    return MR_OK;
}

/* Small content goes into the chunk, which JavaScript copies it out of. */
static mr_rc write_inline(mr_rings *r, const uint8_t *bytes, size_t len, size_t *offset)
{
    size_t room = (len + 7) & ~(size_t)7;
    if (r->chunk == NULL || r->chunk_bytes - r->chunk_used < room) {
        mr_rc rc = new_chunk(r, room);
        if (rc != MR_OK)
            return rc;
    }
    *offset = r->chunk_used;
    if (len > 0)
        memcpy(r->chunk + r->chunk_used, bytes, len);
    r->chunk_used += room;
    return MR_OK;
}

static mr_rc write_piece(mr_rings *r, const mr_content *content, const uint8_t *bytes, size_t len,
                         uint32_t flags)
{
    bool is_inline = len <= MR_BODY_INLINE_MAX || (flags & 1u << 13);
    size_t offset = 0;
    mr_rc rc = is_inline ? write_inline(r, bytes, len, &offset) : write_body(r, bytes, len);
    if (rc != MR_OK)
        return rc;
    uint32_t *record = r->requests + r->request_count * MR_RECORD_WORDS;
    record[0] = (uint32_t)content->connection;
    record[1] = (uint32_t)(content->connection >> 32);
    record[2] = content->seq;
    record[3] = MR_RECORD_CONTENT;
    record[4] = (is_inline ? 1u << 9 : 1u << 10) | flags;
    record[5] = r->chunk_serial;
    record[6] = (uint32_t)offset;
    record[7] = (uint32_t)len;
    r->request_count++;
    return MR_OK;
}

mr_rc mr_rings_on_content(void *owner, const mr_content *content)
{
    mr_rings *r = owner;
    if (r->request_count + 2 > MR_REQUESTS_MAX)
        return MR_AGAIN;
    if (content->trailers_len > 0) {
        mr_rc rc = write_piece(r, content, content->trailers, content->trailers_len, 1u << 13);
        if (rc != MR_OK)
            return rc;
    }
    /* When this one fails, the trailers go up again: JavaScript takes the last. */
    return write_piece(r, content, content->bytes, content->len, content->is_end ? 1u << 12 : 0);
}

void mr_rings_on_note(void *owner, uint64_t connection, uint32_t seq, mr_note note)
{
    mr_rings *r = owner;
    uint32_t words[4] = {(uint32_t)connection, (uint32_t)(connection >> 32), seq, note};
    /* Memory short: the watcher is not told; req.aborted still tells the truth when asked. */
    if (mr_buf_append(&r->mem, &r->notes, words, sizeof words) != MR_OK)
        r->bad_records++;
}

/* ---- answers down ---- */

static void answer_500(mr_rings *r, uint64_t connection, uint32_t seq)
{
    static const char head[] = "HTTP/1.1 500 Internal Server Error\r\n";
    mr_response response = {
        .head = (const uint8_t *)head, .head_len = sizeof head - 1, .status = 500};
    r->bad_records++;
    mr_rc rc = mr_engine_respond(r->engine, connection, seq, &response);
    (void)rc; /* stale: nothing to do */
}

static uint16_t response_flags(uint32_t flags)
{
    return (uint16_t)(((flags & MR_RECORD_HAS_DATE) ? MR_RESPONSE_HAS_DATE : 0) |
                      ((flags & MR_RECORD_HAS_LENGTH) ? MR_RESPONSE_HAS_LENGTH : 0) |
                      ((flags & MR_RECORD_CLOSE) ? MR_RESPONSE_CLOSE : 0) |
                      ((flags & MR_RECORD_STREAM) ? MR_RESPONSE_STREAM : 0));
}

static void respond(mr_rings *r, const uint32_t *record, uint32_t flags, mr_response *response)
{
    uint64_t connection = id_of(record[0], record[1]);
    response->status = (uint16_t)(record[3] & 0xFFFF);
    response->flags = response_flags(flags);
    if (flags & MR_RECORD_HEAD_INLINE) {
        response->flags |= MR_RESPONSE_IS_UNCHECKED;
    } else {
        const mr_reply *reply = record[4] < r->reply_count ? r->replies[record[4]] : NULL;
        if (reply == NULL) {
            answer_500(r, connection, record[2]);
            return;
        }
        response->head = reply->head;
        response->head_len = reply->head_len;
        response->status = reply->status;
        response->flags |= (reply->flags & MR_REPLY_HAS_DATE) ? MR_RESPONSE_HAS_DATE : 0;
    }
    if (flags & MR_RECORD_STREAM) {
        response->body = NULL;
        response->body_len = 0;
    }
    if (mr_engine_respond(r->engine, connection, record[2], response) == MR_INVALID)
        answer_500(r, connection, record[2]);
}

void mr_rings_carry_out(mr_rings *r, const uint32_t *record, const uint8_t *head, size_t head_len,
                        const uint8_t *body, size_t body_len, mr_lease *lease)
{
    uint64_t connection = id_of(record[0], record[1]);
    uint32_t seq = record[2], flags = record[3] >> 16 & 0xFFF;
    mr_response response = {
        .head = head, .head_len = head_len, .body = body, .body_len = body_len, .lease = lease};
    mr_rc rc = MR_OK;
    switch (record[3] >> 28) {
    case MR_RECORD_RESPOND:
        respond(r, record, flags, &response);
        break;
    case MR_RECORD_WRITE:
        rc = mr_engine_write(r->engine, connection, seq, body, body_len, lease);
        break;
    case MR_RECORD_FINISH:
        rc = mr_engine_finish(r->engine, connection, seq, body, body_len);
        if (rc == MR_INVALID) /* it would wait for its end for ever */
            (void)!mr_engine_abort(r->engine, connection, seq);
        break;
    case MR_RECORD_ABORT:
        rc = mr_engine_abort(r->engine, connection, seq);
        break;
    case MR_RECORD_INFORM:
        rc = mr_engine_inform(r->engine, connection, seq, record[3] & 0xFFFF, body, body_len);
        break;
    case MR_RECORD_ASK:
        rc = mr_engine_ask(r->engine, connection, seq, record[7]);
        break;
    default:
        rc = MR_INVALID;
    }
    if (rc == MR_INVALID) /* stale ones are no-ops */
        r->bad_records++;
}

static void drain_record(mr_rings *r, const uint32_t *record)
{
    bool has_octets = record[3] >> 28 != MR_RECORD_ASK;
    uint32_t offset = record[5], head_len = record[6], body_len = has_octets ? record[7] : 0;
    bool is_inside = offset <= MR_OUTPUT_BYTES && head_len <= MR_OUTPUT_BYTES - offset &&
                     body_len <= MR_OUTPUT_BYTES - offset - head_len;
    if (!is_inside) {
        answer_500(r, id_of(record[0], record[1]), record[2]);
        return;
    }
    mr_rings_carry_out(r, record, r->output + offset, head_len, r->output + offset + head_len,
                       body_len, NULL);
}

void mr_rings_drain(mr_rings *r)
{
    uint32_t count = r->control[0];
    if (count == 0)
        return;
    if (count > MR_RESPONSES_MAX) {
        r->bad_records++;
        count = MR_RESPONSES_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t record[MR_RECORD_WORDS]; /* a copy: what was checked is what is used */
        memcpy(record, r->responses + i * MR_RECORD_WORDS, sizeof record);
        drain_record(r, record);
    }
    r->control[0] = 0;
    r->control[1] = 0;
}
