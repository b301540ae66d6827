/* proxy.c -- see proxy.h. The header is parsed from its first octet at each call: it is short, and
 * nearly always whole in the first piece. */
#include "proto/proxy.h"
#include <arpa/inet.h>
#include <string.h>

static const uint8_t signature[12] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                      '\n', 'Q',  'U',  'I',  'T', '\n'};

static bool begins_like(const uint8_t *bytes, size_t len, const void *start, size_t start_len)
{
    return memcmp(bytes, start, len < start_len ? len : start_len) == 0;
}

static void set_source(mr_proxy *out, uint8_t family, const uint8_t *address, uint16_t port)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_mapped = family == 6 && memcmp(address, mapped, sizeof mapped) == 0;
    out->has_source = true;
    out->family = is_mapped ? 4 : family;
    out->port = port;
    if (family != 0)
        memcpy(out->address, address + (is_mapped ? 12 : 0), out->family == 4 ? 4 : 16);
}

/* ---- version 1 ---- */

/* Cuts the line at its next space; false when there is none. */
static bool next_word(char **rest, char **word)
{
    char *space = strchr(*rest, ' ');
    *word = *rest;
    if (space == NULL)
        return false;
    *space = '\0';
    *rest = space + 1;
    return true;
}

/* Decimal without leading zeros. */
static bool parse_port(const char *text, uint16_t *port)
{
    uint32_t value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5 || (text[0] == '0' && len > 1))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return value <= 65535;
}

/* What stands behind "PROXY ", without its CRLF. */
static mr_rc parse_line(char *line, mr_proxy *out)
{
    char *words[4];
    uint8_t source[16], destination[16];
    uint16_t port, other;
    if (strcmp(line, "UNKNOWN") == 0 || strncmp(line, "UNKNOWN ", 8) == 0)
        return MR_OK; /* the rest is to be ignored */
    bool is_v4 = strncmp(line, "TCP4 ", 5) == 0;
    if (!is_v4 && strncmp(line, "TCP6 ", 5) != 0)
        return MR_BADPEER;
    line += 5;
    for (int i = 0; i < 3; i++)
        if (!next_word(&line, &words[i]))
            return MR_BADPEER;
    words[3] = line;
    if (inet_pton(is_v4 ? AF_INET : AF_INET6, words[0], source) != 1 ||
        inet_pton(is_v4 ? AF_INET : AF_INET6, words[1], destination) != 1 ||
        !parse_port(words[2], &port) || !parse_port(words[3], &other))
        return MR_BADPEER;
    set_source(out, is_v4 ? 4 : 6, source, port);
    return MR_OK;
}

static mr_rc parse_v1(const uint8_t *bytes, size_t len, mr_proxy *out)
{
    char line[MR_PROXY_V1_MAX];
    size_t end = 0;
    while (end < len && end < MR_PROXY_V1_MAX - 1 && bytes[end] != '\r') {
        if (bytes[end] == '\n' || bytes[end] == '\0')
            return MR_BADPEER;
        end++;
    }
    if (end == MR_PROXY_V1_MAX - 1)
        return MR_BADPEER;
    if (end + 1 >= len)
        return MR_AGAIN;
    if (bytes[end + 1] != '\n')
        return MR_BADPEER;
    if (end < 6)
        return MR_BADPEER; /* cannot be: "PROXY " is there */
    memcpy(line, bytes, end);
    line[end] = '\0';
    out->len = end + 2;
    return parse_line(line + 6, out);
}

/* ---- version 2 ---- */

static uint16_t read_u16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

/* Addresses as source, destination, source port, destination port; TLVs may follow. */
static mr_rc parse_v2_addresses(uint8_t kind, const uint8_t *at, size_t len, mr_proxy *out)
{
    static const size_t sizes[] = {0, 4, 16, 108}; /* unspecified, IPv4, IPv6, unix */
    uint8_t family = kind >> 4, protocol = kind & 15;
    if (family > 3 || protocol > 2)
        return MR_BADPEER; /* unassigned */
    size_t size = sizes[family];
    if (len < size * 2 + (family == 1 || family == 2 ? 4 : 0))
        return MR_BADPEER;
    if (family == 0 || protocol != 1)
        return MR_OK; /* not a stream's addresses: the socket's own holds */
    if (family == 3)
        set_source(out, 0, NULL, 0);
    else
        set_source(out, family == 1 ? 4 : 6, at, read_u16(at + size * 2));
    return MR_OK;
}

static mr_rc parse_v2(const uint8_t *bytes, size_t len, mr_proxy *out)
{
    enum { AT_COMMAND = 12, AT_KIND = 13, AT_LENGTH = 14 };
    if (len > AT_COMMAND && bytes[AT_COMMAND] != 0x20 && bytes[AT_COMMAND] != 0x21)
        return MR_BADPEER; /* another version, or another command than LOCAL and PROXY */
    if (len < MR_PROXY_V2_FIXED)
        return MR_AGAIN;
    size_t rest = read_u16(bytes + AT_LENGTH);
    if (rest > MR_PROXY_V2_REST_MAX)
        return MR_BADPEER;
    if (len < MR_PROXY_V2_FIXED + rest)
        return MR_AGAIN;
    out->len = MR_PROXY_V2_FIXED + rest;
    if (bytes[AT_COMMAND] == 0x20)
        return MR_OK; /* LOCAL: the proxy speaks for itself */
    return parse_v2_addresses(bytes[AT_KIND], bytes + MR_PROXY_V2_FIXED, rest, out);
}

mr_rc mr_proxy_parse(const uint8_t *bytes, size_t len, mr_proxy *out)
{
    *out = (mr_proxy){0};
    if (len == 0)
        return MR_AGAIN;
    if (begins_like(bytes, len, "PROXY ", 6))
        return parse_v1(bytes, len, out);
    if (begins_like(bytes, len, signature, sizeof signature))
        return parse_v2(bytes, len, out);
    return MR_BADPEER;
}
