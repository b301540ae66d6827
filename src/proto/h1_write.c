/* h1_write.c -- see h1_write.h. */
#include "proto/h1_write.h"
#include "base/text.h"
#include <string.h>

static const struct {
    uint16_t status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

const char *mr_h1_reason(unsigned status) {
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static uint8_t *put(uint8_t *out, const char *text, size_t len) {
    memcpy(out, text, len);
    return out + len;
}

#define PUT(out, text) put((out), (text), sizeof(text) - 1)

size_t mr_h1_put_tail(uint8_t *out, unsigned tail, uint64_t content_length, const mr_clock *clock) {
    uint8_t *at = out;
    if (tail & MR_TAIL_LENGTH) {
        at = PUT(at, "Content-Length: ");
        at += mr_put_decimal(at, content_length);
        at = PUT(at, "\r\n");
    } else if (tail & MR_TAIL_CHUNKED) {
        at = PUT(at, "Transfer-Encoding: chunked\r\n");
    }
    if (tail & MR_TAIL_DATE)
        at = put(at, clock->date_field, MR_DATE_FIELD_BYTES);
    if (tail & MR_TAIL_CLOSE)
        at = PUT(at, "Connection: close\r\n");
    else if (tail & MR_TAIL_KEEP_ALIVE)
        at = PUT(at, "Connection: keep-alive\r\n");
    at = PUT(at, "\r\n");
    return (size_t)(at - out);
}

bool mr_h1_fields_are_sound(const uint8_t *fields, size_t len)
{
    size_t line_start = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = fields[i];
        if (i == line_start && (c == ' ' || c == '\t'))
            return false;
        if (c == '\r') {
            if (i + 1 >= len || fields[i + 1] != '\n' || i == line_start)
                return false;
            line_start = i + 2;
            i++;
        } else if (c == '\n' || c == 0) {
            return false;
        }
    }
    return line_start == len;
}

bool mr_h1_head_is_sound(const uint8_t *head, size_t len)
{
    return len >= 17 && memcmp(head, "HTTP/1.1 ", 9) == 0 && mr_h1_fields_are_sound(head, len);
}
