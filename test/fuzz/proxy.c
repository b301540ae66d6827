/* proxy.c -- fuzzes the PROXY header: fed octet by octet, it is decided once and for all.
 * Input: the octets that a connection begins with. */
#include "proto/proxy.c"
#include "base/check.h"
#include <stdlib.h>
#include "replay.h"

enum { SIZE_MAX_FED = MR_PROXY_MAX + 256 };

/* In a block of its exact size, so that a read behind it shows. */
static mr_rc parse_copy(const uint8_t *bytes, size_t len, mr_proxy *out)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    MR_ASSERT(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    mr_rc rc = mr_proxy_parse(copy, len, out);
    free(copy);
    return rc;
}

static void check(const mr_proxy *p, mr_rc rc, size_t len)
{
    MR_ASSERT(rc == MR_OK || rc == MR_AGAIN || rc == MR_BADPEER);
    MR_ASSERT(rc != MR_AGAIN || len < MR_PROXY_MAX);
    if (rc != MR_OK)
        return;
    MR_ASSERT(p->len <= len && p->len <= MR_PROXY_MAX && p->len >= 15);
    MR_ASSERT(p->family == 0 || p->family == 4 || p->family == 6);
    MR_ASSERT(p->has_source || (p->family == 0 && p->port == 0));
    for (size_t i = p->family == 4 ? 4 : p->family == 0 ? 0 : 16; i < 16; i++)
        MR_ASSERT(p->address[i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    mr_proxy whole, cut;
    mr_rc rc, decided = MR_AGAIN;
    if (size > SIZE_MAX_FED)
        size = SIZE_MAX_FED;
    rc = parse_copy(input, size, &whole);
    check(&whole, rc, size);
    for (size_t n = 0; n <= size; n++) {
        mr_rc now = parse_copy(input, n, &cut);
        check(&cut, now, n);
        MR_ASSERT(decided == MR_AGAIN || now == decided);
        MR_ASSERT(now != MR_OK || rc != MR_OK || memcmp(&cut, &whole, sizeof cut) == 0);
        decided = now;
    }
    MR_ASSERT(decided == rc);
    return 0;
}
