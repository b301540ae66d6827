/* url_test.c -- decoding and escaping, by examples worked out from the rules. */
/* link: base/text.c */
#include "proto/url.c"
#include "base/check.h"
#include <stdio.h>
#include <stdlib.h>

#define FFFD "\xEF\xBF\xBD"
/* Text with its length, so that it may hold NUL. */
#define TEXT(s) s, sizeof(s) - 1

typedef struct example {
    const char *in;
    size_t in_len;
    const char *out; /* NULL: refused */
    size_t out_len;
} example;

static const uint8_t *octets(const char *text) { return (const uint8_t *)text; }

/* The input moves to a heap block of its very size: reading past it is seen by the sanitizer. */
static uint8_t *exact(const char *text, size_t len) {
    uint8_t *copy = malloc(len > 0 ? len : 1);
    MR_ASSERT(copy != NULL);
    if (len > 0)
        memcpy(copy, text, len);
    return copy;
}

static void expect(const example *e, bool ok, const uint8_t *got, size_t got_len) {
    bool same = ok ? e->out != NULL && got_len == e->out_len && memcmp(got, e->out, got_len) == 0
                   : e->out == NULL;
    if (!same)
        fprintf(stderr, "input \"%.*s\" gave %s \"%.*s\"\n", (int)e->in_len, e->in,
                ok ? "ok" : "refused", ok ? (int)got_len : 0, (const char *)got);
    MR_ASSERT(same);
}

static const example params[] = {
    {TEXT(""), TEXT("")},
    {TEXT("plain"), TEXT("plain")},
    {TEXT("a+b"), TEXT("a+b")}, /* + is no space in a path */
    {TEXT("%41%2f%2F"), TEXT("A//")},
    {TEXT("a%20b"), TEXT("a b")},
    {TEXT("%00"), TEXT("\0")},
    {TEXT("%25"), TEXT("%")},
    {TEXT("%2525"), TEXT("%25")}, /* once */
    {TEXT("%c3%A9"), TEXT("\xC3\xA9")},
    {TEXT("x%E2%82%ACy"), TEXT("x\xE2\x82\xACy")},
    {TEXT("%F0%9F%98%80"), TEXT("\xF0\x9F\x98\x80")},
    {TEXT("%F4%8F%BF%BF"), TEXT("\xF4\x8F\xBF\xBF")},
    {TEXT("%EF%BB%BF"), TEXT("\xEF\xBB\xBF")},
    {TEXT("%EF%BF%BF"), TEXT("\xEF\xBF\xBF")}, /* a noncharacter is a character here */
    {TEXT("%"), NULL, 0},
    {TEXT("%4"), NULL, 0},
    {TEXT("a%"), NULL, 0},
    {TEXT("%4g"), NULL, 0},
    {TEXT("%g4"), NULL, 0},
    {TEXT("%%41"), NULL, 0},
    {TEXT("%u0041"), NULL, 0},
    {TEXT("%80"), NULL, 0},
    {TEXT("%BF"), NULL, 0},
    {TEXT("%C0%80"), NULL, 0},
    {TEXT("%C1%BF"), NULL, 0},
    {TEXT("%C3"), NULL, 0},
    {TEXT("%C3a"), NULL, 0},
    {TEXT("%C3%41"), NULL, 0},
    {TEXT("%C3%C3%A9"), NULL, 0},
    {TEXT("%E0%9F%BF"), NULL, 0},
    {TEXT("%E2%82"), NULL, 0},
    {TEXT("%ED%A0%80"), NULL, 0},
    {TEXT("%F0%8F%BF%BF"), NULL, 0},
    {TEXT("%F4%90%80%80"), NULL, 0},
    {TEXT("%F5%80%80%80"), NULL, 0},
    {TEXT("%FF"), NULL, 0},
};

static void decodes_params(void) {
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        const example *e = &params[i];
        uint8_t *in = exact(e->in, e->in_len), *out = exact(e->in, e->in_len);
        size_t len = 0;
        mr_rc rc = mr_url_decode_param(in, e->in_len, out, &len);
        MR_ASSERT(rc == MR_OK || rc == MR_BADPEER);
        expect(e, rc == MR_OK, out, len);
        MR_ASSERT(mr_url_param_valid(in, e->in_len) == (e->out != NULL));
        rc = mr_url_decode_param(in, e->in_len, in, &len); /* in place */
        expect(e, rc == MR_OK, in, len);
        free(in);
        free(out);
    }
}

static const example values[] = {
    {TEXT(""), TEXT("")},
    {TEXT("a+b%2Bc"), TEXT("a b+c")},
    {TEXT("%"), TEXT("%")},
    {TEXT("%4"), TEXT("%4")},
    {TEXT("%zz%41"), TEXT("%zzA")},
    {TEXT("%%41"), TEXT("%A")},
    {TEXT("%2"), TEXT("%2")},
    {TEXT("%2+"), TEXT("%2 ")},
    {TEXT("%E2%82%AC"), TEXT("\xE2\x82\xAC")},
    {TEXT("%EF%BB%BFx"), TEXT("\xEF\xBB\xBFx")},
    {TEXT("%00"), TEXT("\0")},
    {TEXT("%80"), TEXT(FFFD)},
    {TEXT("%80%80"), TEXT(FFFD FFFD)},
    {TEXT("%C3"), TEXT(FFFD)},
    {TEXT("%C3+"), TEXT(FFFD " ")},
    {TEXT("%C3%"), TEXT(FFFD "%")},
    {TEXT("%C3%C3%A9"), TEXT(FFFD "\xC3\xA9")},
    {TEXT("%C0%80"), TEXT(FFFD FFFD)},
    {TEXT("%E0%80%80"), TEXT(FFFD FFFD FFFD)},
    {TEXT("%E0%A0"), TEXT(FFFD)},
    {TEXT("%E2%82x"), TEXT(FFFD "x")},
    {TEXT("%ED%A0%80"), TEXT(FFFD FFFD FFFD)},
    {TEXT("%F0%9F%98"), TEXT(FFFD)},
    {TEXT("%F0%9F%98%41"), TEXT(FFFD "A")},
    {TEXT("%F0%80%80%80"), TEXT(FFFD FFFD FFFD FFFD)},
    {TEXT("%F4%90%80%80"), TEXT(FFFD FFFD FFFD FFFD)},
    {TEXT("%F1%80%E2%82%AC"), TEXT(FFFD "\xE2\x82\xAC")},
    {TEXT("%FF%FE"), TEXT(FFFD FFFD)},
    {TEXT("\xFF"), TEXT(FFFD)}, /* raw octets: three times the input */
    {TEXT("\xC3%A9"), TEXT("\xC3\xA9")},
};

typedef mr_rc (*convert)(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                         size_t *out_len);

/* Exactly as much room as is needed will do, one octet less will not. */
static void converts(const example *examples, size_t count, convert with, size_t growth) {
    for (size_t i = 0; i < count; i++) {
        const example *e = &examples[i];
        uint8_t *in = exact(e->in, e->in_len), *out = exact(e->out, e->out_len);
        size_t len = 77;
        MR_ASSERT(e->out_len <= growth * e->in_len);
        mr_rc rc = with(in, e->in_len, out, e->out_len, &len);
        expect(e, rc == MR_OK, out, len);
        if (e->out_len > 0)
            MR_ASSERT(with(in, e->in_len, out, e->out_len - 1, &len) == MR_LIMIT);
        free(in);
        free(out);
    }
    size_t len = 77;
    MR_ASSERT(with(NULL, 0, NULL, 0, &len) == MR_OK && len == 0);
}

typedef struct lookup {
    const char *query;
    const char *name;
    const char *value; /* still encoded; NULL: not there */
} lookup;

static const lookup lookups[] = {
    {"", "a", NULL},
    {"", "", NULL},
    {"a=1", "a", "1"},
    {"a=1", "b", NULL},
    {"a=1", "", NULL},
    {"aa=1", "a", NULL},
    {"a=1", "aa", NULL},
    {"a=1&a=2", "a", "1"},
    {"b=1&a=2", "a", "2"},
    {"a", "a", ""},
    {"a=", "a", ""},
    {"a&a=1", "a", ""},
    {"a=b=c", "a", "b=c"},
    {"&&a=1&&", "a", "1"},
    {"&&", "", NULL},
    {"=x", "", "x"},
    {"a=1&=", "", ""},
    {"%61=1", "a", "1"},
    {"a%3Db=1", "a=b", "1"},
    {"a+b=1", "a b", "1"},
    {"a%20b=%2B+", "a b", "%2B+"},
    {"a%26=1", "a&", "1"},
    {"%E2%82%AC=5", "\xE2\x82\xAC", "5"},
    {"%E2%82=5", FFFD, "5"},
    {"%E2%82=5", "\xE2\x82", NULL},
    {"%=5", "%", "5"},
    {"A=1&a=2", "a", "2"},
    {"?a=1", "a", NULL}, /* the ? before the query is not part of it */
    {"a;b=1", "a;b", "1"},
    {"x=%26a=1&a=2", "a", "2"},
};

static void looks_up(void) {
    for (size_t i = 0; i < sizeof lookups / sizeof *lookups; i++) {
        const lookup *l = &lookups[i];
        size_t len = strlen(l->query), value_len = 0;
        uint8_t *query = exact(l->query, len);
        uint8_t *name = exact(l->name, strlen(l->name));
        const uint8_t *value = NULL;
        bool found = mr_url_query_get(query, len, name, strlen(l->name), &value, &value_len);
        const example e = {l->query, len, l->value, l->value != NULL ? strlen(l->value) : 0};
        expect(&e, found, value, value_len);
        MR_ASSERT(!found || (value >= query && value + value_len <= query + len));
        free(query);
        free(name);
    }
    const uint8_t *value;
    size_t value_len;
    MR_ASSERT(!mr_url_query_get(NULL, 0, octets("a"), 1, &value, &value_len));
    MR_ASSERT(mr_url_query_get(octets("a%00=1"), 6, octets("a\0"), 2, &value, &value_len));
}

static const example html[] = {
    {TEXT(""), TEXT("")},
    {TEXT("plain"), TEXT("plain")},
    {TEXT("\""), TEXT("&quot;")},
    {TEXT("<a href='x'>"), TEXT("&lt;a href=&#39;x&#39;&gt;")},
    {TEXT("a&b"), TEXT("a&amp;b")},
    {TEXT("&amp;"), TEXT("&amp;amp;")},
    {TEXT("\xC3\xA9\0/"), TEXT("\xC3\xA9\0/")},
    {TEXT("<>"), TEXT("&lt;&gt;")},
};

static const example json[] = {
    {TEXT(""), TEXT("")},
    {TEXT("plain / text"), TEXT("plain / text")},
    {TEXT("\b\t\n\f\r"), TEXT("\\b\\t\\n\\f\\r")},
    {TEXT("\"\\"), TEXT("\\\"\\\\")},
    {TEXT("\0\1\7\x0B\x0E\x1A\x1F"), TEXT("\\u0000\\u0001\\u0007\\u000b\\u000e\\u001a\\u001f")},
    {TEXT(" \x7F"), TEXT(" \x7F")},
    {TEXT("\xE2\x80\xA8\xF0\x9F\x98\x80"), TEXT("\xE2\x80\xA8\xF0\x9F\x98\x80")},
    {TEXT("a\nb"), TEXT("a\\nb")},
};

static const example latin1[] = {
    {TEXT(""), TEXT("")},
    {TEXT("plain\0\x7F"), TEXT("plain\0\x7F")},
    {TEXT("\x80"), TEXT("\xC2\x80")},
    {TEXT("caf\xE9!"), TEXT("caf\xC3\xA9!")},
    {TEXT("\xBF\xC0\xFF"), TEXT("\xC2\xBF\xC3\x80\xC3\xBF")},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

int main(void) {
    decodes_params();
    looks_up();
    converts(values, COUNT(values), mr_url_query_decode, MR_QUERY_GROWTH);
    converts(html, COUNT(html), mr_escape_html, MR_ESCAPE_GROWTH);
    converts(json, COUNT(json), mr_escape_json, MR_ESCAPE_GROWTH);
    converts(latin1, COUNT(latin1), mr_latin1_to_utf8, MR_LATIN1_GROWTH);
    return 0;
}
