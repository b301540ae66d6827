/* reply.c -- invariant: a reply has parts or a body that is not empty, never both.
 * A placeholder is written in two steps, both inside `out`: its text is decoded behind what is
 * there, then moved out of the way and escaped into its place. So there is no second buffer, and
 * the step that most templates need, plain text without escapes, is one copy. */
#include "engine/reply.h"

#include "base/check.h"
#include "engine/route.h"
#include "proto/url.h"
#include <string.h>

/* ---- making ---- */

/* An exact copy; an empty one is a block too, so NULL always means that memory is short. */
static uint8_t *copy_of(mr_mem *mem, const uint8_t *bytes, size_t len) {
    uint8_t *copy = mr_mem_alloc(mem, len);
    if (copy != NULL && len != 0)
        memcpy(copy, bytes, len);
    return copy;
}

static void dispose_part(mr_mem *mem, mr_part *part) {
    mr_mem_free(mem, part->text, part->text_len);
    mr_mem_free(mem, part->fallback, part->fallback_len);
}

static void destroy(mr_reply *reply) {
    for (uint32_t i = 0; i < reply->part_count; i++)
        dispose_part(reply->mem, &reply->parts[i]);
    mr_mem_free(reply->mem, reply->parts, reply->part_cap * sizeof *reply->parts);
    mr_mem_free(reply->mem, reply->body, reply->body_len);
    mr_mem_free(reply->mem, reply->head, reply->head_len);
    mr_mem_free(reply->mem, reply, sizeof *reply);
}

mr_reply *mr_reply_create(mr_mem *mem, uint16_t status, uint8_t flags, const uint8_t *head,
                          size_t head_len, const uint8_t *body, size_t body_len) {
    mr_reply *reply = mr_mem_alloc(mem, sizeof *reply);
    if (reply == NULL)
        return NULL;
    *reply = (mr_reply){.mem = mem,
                        .references = 1,
                        .status = status,
                        .flags = flags,
                        .head_len = head_len,
                        .body_len = body_len};
    reply->head = copy_of(mem, head, head_len);
    reply->body = body != NULL ? copy_of(mem, body, body_len) : NULL;
    if (reply->head == NULL || (body != NULL && reply->body == NULL)) {
        destroy(reply);
        return NULL;
    }
    return reply;
}

void mr_reply_retain(mr_reply *reply) {
    MR_ASSERT(reply->references != 0 && reply->references != UINT32_MAX);
    reply->references++;
}

void mr_reply_release(mr_reply *reply) {
    if (reply == NULL)
        return;
    MR_ASSERT(reply->references != 0);
    if (--reply->references == 0)
        destroy(reply);
}

/* ---- escaping ---- */

/* The most that `len` octets of text become; JSON adds two quotes. */
static size_t escaped_max(size_t len) { return MR_ESCAPE_GROWTH * len + 2; }

static mr_rc write_escaped(uint8_t escape, const uint8_t *text, size_t len, uint8_t *to,
                           size_t *written) {
    size_t room = escaped_max(len);
    if (escape == MR_ESCAPE_HTML)
        return mr_escape_html(text, len, to, room, written);
    mr_rc rc = mr_escape_json(text, len, to + 1, room - 2, written);
    to[0] = '"';
    if (rc == MR_OK) {
        to[1 + *written] = '"';
        *written += 2;
    }
    return rc;
}

/* Room behind what is in `out` and `written` octets more that are not counted yet (growing keeps
 * only what is counted). Never none, so that the place has an address. */
static mr_rc reserve_behind(mr_mem *mem, mr_buf *out, size_t written, size_t more) {
    out->len += written;
    mr_rc rc = mr_buf_reserve(mem, out, more + 1);
    out->len -= written;
    return rc;
}

/* Takes `len` octets of text that stand behind out->len, not counted yet, into the buffer in their
 * escaped form. */
static mr_rc escape_tail(uint8_t escape, mr_mem *mem, mr_buf *out, size_t len) {
    if (escape != MR_ESCAPE_NONE) {
        size_t room = escaped_max(len);
        mr_rc rc = reserve_behind(mem, out, len, room);
        if (rc != MR_OK)
            return rc;
        uint8_t *to = out->data + out->len;
        memmove(to + room, to, len);
        if ((rc = write_escaped(escape, to + room, len, to, &len)) != MR_OK)
            return rc;
    }
    out->len += len;
    return MR_OK;
}

/* ---- parts ---- */

static mr_rc reserve_part(mr_reply *reply) {
    uint32_t cap = reply->part_cap == 0 ? 4 : reply->part_cap * 2;
    mr_part *parts;
    if (reply->part_count < reply->part_cap)
        return MR_OK;
    parts = mr_mem_resize(reply->mem, reply->parts, reply->part_cap * sizeof *parts,
                          cap * sizeof *parts);
    if (parts == NULL)
        return MR_NOMEM;
    reply->parts = parts;
    reply->part_cap = cap;
    return MR_OK;
}

/* What stands in for a value that is not there, as it goes out. JSON has no empty text: without a
 * fallback its placeholder is an empty string, so that the whole stays JSON. */
static mr_rc make_fallback(const mr_reply *reply, const uint8_t *text, size_t len, mr_part *part) {
    mr_buf escaped = {0};
    mr_rc rc = MR_OK;
    if (text == NULL && reply->escape != MR_ESCAPE_JSON)
        return MR_OK;
    if ((rc = reserve_behind(reply->mem, &escaped, 0, len)) != MR_OK)
        return rc;
    if (len != 0)
        memcpy(escaped.data, text, len);
    rc = escape_tail(reply->escape, reply->mem, &escaped, len);
    if (rc == MR_OK) {
        part->fallback = copy_of(reply->mem, escaped.data, escaped.len);
        part->fallback_len = escaped.len;
        rc = part->fallback != NULL ? MR_OK : MR_NOMEM;
    }
    mr_buf_dispose(reply->mem, &escaped);
    return rc;
}

mr_rc mr_reply_add_part(mr_reply *reply, mr_part_kind kind, uint32_t param_index,
                        const uint8_t *text, size_t text_len, const uint8_t *fallback,
                        size_t fallback_len) {
    mr_part part = {.kind = kind, .param_index = param_index, .text_len = text_len};
    mr_rc rc;
    if (reply->body_len != 0 || reply->part_count == MR_REPLY_PARTS_MAX)
        return MR_INVALID;
    if ((rc = reserve_part(reply)) != MR_OK)
        return rc;
    if ((part.text = copy_of(reply->mem, text, text_len)) == NULL)
        return MR_NOMEM;
    if (kind != MR_PART_LITERAL)
        rc = make_fallback(reply, fallback, fallback == NULL ? 0 : fallback_len, &part);
    if (rc != MR_OK) {
        dispose_part(reply->mem, &part);
        return rc;
    }
    reply->parts[reply->part_count++] = part;
    return MR_OK;
}

/* ---- rendering ---- */

typedef struct render { /* one call's arguments */
    const mr_reply *reply;
    const mr_reply_input *input;
    mr_mem *mem;
    mr_buf *out;
} render;

static mr_rc put_fallback(const render *r, const mr_part *part) {
    return mr_buf_append(r->mem, r->out, part->fallback, part->fallback_len);
}

static mr_rc put_param(const render *r, const mr_part *part) {
    mr_buf *out = r->out;
    size_t len;
    mr_rc rc;
    if (part->param_index >= r->input->param_count)
        return put_fallback(r, part);
    mr_param param = r->input->params[part->param_index];
    if ((rc = reserve_behind(r->mem, out, 0, param.len)) != MR_OK ||
        (rc = mr_url_decode_param(r->input->path + param.off, param.len, out->data + out->len,
                                  &len)) != MR_OK)
        return rc;
    return escape_tail(r->reply->escape, r->mem, out, len);
}

static mr_rc put_query(const render *r, const mr_part *part) {
    const mr_h1_head *head = r->input->head;
    const uint8_t *value;
    mr_buf *out = r->out;
    size_t value_len, len;
    mr_rc rc;
    if (!mr_url_query_get(r->input->bytes + head->query_off, head->query_len, part->text,
                          part->text_len, &value, &value_len))
        return put_fallback(r, part);
    size_t room = MR_QUERY_GROWTH * value_len;
    if ((rc = reserve_behind(r->mem, out, 0, room)) != MR_OK ||
        (rc = mr_url_query_decode(value, value_len, out->data + out->len, room, &len)) != MR_OK)
        return rc;
    return escape_tail(r->reply->escape, r->mem, out, len);
}

/* The fields that node:http keeps single: the first line counts, the others are dropped. All
 * others are lists and are joined. */
static bool is_single(const uint8_t *name, size_t len) {
    static const char *const names[] = {"age",
                                        "authorization",
                                        "content-length",
                                        "content-type",
                                        "etag",
                                        "expires",
                                        "from",
                                        "host",
                                        "if-modified-since",
                                        "if-unmodified-since",
                                        "last-modified",
                                        "location",
                                        "max-forwards",
                                        "proxy-authorization",
                                        "referer",
                                        "retry-after",
                                        "server",
                                        "user-agent"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    }
    return false;
}

static uint16_t find_field(const render *r, const mr_part *part, uint16_t from) {
    return mr_h1_find_field(r->input->bytes, r->input->head, r->input->fields,
                            (const char *)part->text, part->text_len, from);
}

/* Writes one field value behind `*len` octets that are not counted yet. */
static mr_rc add_value(const render *r, const char *separator, const mr_h1_field *field,
                       size_t *len) {
    size_t separator_len = strlen(separator), written;
    size_t room = MR_LATIN1_GROWTH * (size_t)field->value_len;
    mr_rc rc = reserve_behind(r->mem, r->out, *len, separator_len + room);
    if (rc != MR_OK)
        return rc;
    uint8_t *to = r->out->data + r->out->len + *len;
    memcpy(to, separator, separator_len);
    rc = mr_latin1_to_utf8(r->input->bytes + field->value_off, field->value_len, to + separator_len,
                           room, &written);
    if (rc == MR_OK)
        *len += separator_len + written;
    return rc;
}

static mr_rc put_header(const render *r, const mr_part *part) {
    uint16_t count = r->input->head->field_count, at = find_field(r, part, 0);
    const char *separator = "";
    size_t len = 0;
    mr_rc rc;
    if (at >= count)
        return put_fallback(r, part);
    do {
        if ((rc = add_value(r, separator, &r->input->fields[at], &len)) != MR_OK)
            return rc;
        separator = part->text_len == 6 && memcmp(part->text, "cookie", 6) == 0 ? "; " : ", ";
        at = find_field(r, part, (uint16_t)(at + 1));
    } while (at < count && !is_single(part->text, part->text_len));
    return escape_tail(r->reply->escape, r->mem, r->out, len);
}

static mr_rc put_part(const render *r, const mr_part *part) {
    switch (part->kind) {
    case MR_PART_LITERAL:
        return mr_buf_append(r->mem, r->out, part->text, part->text_len);
    case MR_PART_PARAM:
        return put_param(r, part);
    case MR_PART_QUERY:
        return put_query(r, part);
    case MR_PART_HEADER:
        return put_header(r, part);
    }
    return MR_OK;
}

mr_rc mr_reply_render(const mr_reply *reply, const mr_reply_input *input, mr_mem *mem,
                      mr_buf *out) {
    render r = {.reply = reply, .input = input, .mem = mem, .out = out};
    size_t before = out->len;
    for (uint32_t i = 0; i < reply->part_count; i++) {
        mr_rc rc = put_part(&r, &reply->parts[i]);
        if (rc != MR_OK) {
            out->len = before;
            return rc;
        }
    }
    return MR_OK;
}
