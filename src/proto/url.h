/* url.h -- text out of a request target, and text into a response body: percent-decoding as
 * JavaScript does it, escaping for HTML and JSON.
 * Owns:    nothing. Inputs are borrowed for the call; outputs are the caller's, with a capacity.
 *          Input and output may not overlap, except where it is said.
 * Thread:  any; no state.
 * Uses:    base/rc.h, base/text.h. */
#ifndef MR_PROTO_URL_H
#define MR_PROTO_URL_H

#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most output octets for one of input: with len times this as capacity, MR_LIMIT cannot be. */
#define MR_QUERY_GROWTH 3u  /* an octet that is not UTF-8 becomes U+FFFD */
#define MR_ESCAPE_GROWTH 6u /* &quot; and \u001f */
#define MR_LATIN1_GROWTH 2u

/* Decodes a path segment exactly as decodeURIComponent. MR_BADPEER (it would throw): a % without
 * two hex digits, or octets that are not UTF-8 once decoded. `out` holds len octets and may be
 * `in`. Octets above 0x7F do not occur in a target that the parser has passed; here they are taken
 * as if they had been escaped. */
mr_rc mr_url_decode_param(const uint8_t *in, size_t len, uint8_t *out,
                          size_t *out_len) MR_MUST_CHECK;
/* Whether mr_url_decode_param would succeed. One memchr when there is no %. */
bool mr_url_param_valid(const uint8_t *in, size_t len);

/* Finds what URLSearchParams.get(name) would: the first pair of that name in `query` (what follows
 * the ?, without it). `name` is plain UTF-8, not escaped; names in the query are decoded to be
 * compared. *value is borrowed from `query` and still encoded: hand it to mr_url_query_decode.
 * false: no such name, nothing is written. A name without = has the empty value. */
bool mr_url_query_get(const uint8_t *query, size_t len, const uint8_t *name, size_t name_len,
                      const uint8_t **value, size_t *value_len);
/* Decodes a query value as URLSearchParams does: + is a space, a % without two hex digits is
 * itself, what is not UTF-8 becomes U+FFFD, once per maximal subpart (WHATWG Encoding), and a byte
 * order mark stays. The output is well-formed UTF-8. MR_LIMIT: does not fit `capacity`. */
mr_rc mr_url_query_decode(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                          size_t *out_len) MR_MUST_CHECK;

/* All three: MR_LIMIT when `capacity` is too small; *out_len is set on MR_OK only. */
/* & < > " ' become &amp; &lt; &gt; &quot; &#39;: safe in text and in quoted attributes. */
mr_rc mr_escape_html(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                     size_t *out_len) MR_MUST_CHECK;
/* The inside of a JSON string, without its quotes, as JSON.stringify writes it. UTF-8 in, UTF-8
 * out: octets above 0x7F pass as they are. */
mr_rc mr_escape_json(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                     size_t *out_len) MR_MUST_CHECK;
/* Every octet is the code point of its number, as node:http reads header fields. */
mr_rc mr_latin1_to_utf8(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                        size_t *out_len) MR_MUST_CHECK;

#endif
