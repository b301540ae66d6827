/* options.c -- every option is a row of the getopt table and a case; limits are checked last, when
 * all are known. */
#define _GNU_SOURCE
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADERS 32
#define NS_PER_S 1e9

static const char usage[] =
    "usage: load --port N [options]\n"
    "  --host ADDRESS        IPv4, default 127.0.0.1\n"
    "  --connections N       default 64\n"
    "  --depth N             requests in flight per connection, default 1\n"
    "  --close               one request per connection\n"
    "  --rate N              requests per second on a fixed schedule; default: as fast as "
    "answered\n"
    "  --warmup S            seconds before the window, default 1\n"
    "  --seconds S           length of the window, default 2.5\n"
    "  --requests N          stop after N requests instead\n"
    "  --pid N               read this process's CPU time at both ends of the window\n"
    "  --method M --path P --header 'Name: value' (repeatable)\n"
    "  --body-bytes N        a body of a..z over and over; --body TEXT: this one\n"
    "  --expect-status N     default 200\n"
    "  --expect-body TEXT    exact; default: any\n"
    "  --idle                open the connections, ask once on each, hold until stdin ends\n"
    "  --print-request       print the length of a request and leave\n";

typedef struct request_parts {
    const char *method;
    const char *path;
    const char *headers[MAX_HEADERS];
    unsigned header_count;
    size_t body_bytes;
    const char *body; /* NULL: the alphabet */
} request_parts;

enum option_name {
    OPT_HOST = 256,
    OPT_PORT,
    OPT_CONNECTIONS,
    OPT_DEPTH,
    OPT_CLOSE,
    OPT_RATE,
    OPT_WARMUP,
    OPT_SECONDS,
    OPT_REQUESTS,
    OPT_PID,
    OPT_METHOD,
    OPT_PATH,
    OPT_HEADER,
    OPT_BODY_BYTES,
    OPT_BODY,
    OPT_EXPECT_STATUS,
    OPT_EXPECT_BODY,
    OPT_IDLE,
    OPT_PRINT_REQUEST,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"host", required_argument, NULL, OPT_HOST},
    {"port", required_argument, NULL, OPT_PORT},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"close", no_argument, NULL, OPT_CLOSE},
    {"rate", required_argument, NULL, OPT_RATE},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"pid", required_argument, NULL, OPT_PID},
    {"method", required_argument, NULL, OPT_METHOD},
    {"path", required_argument, NULL, OPT_PATH},
    {"header", required_argument, NULL, OPT_HEADER},
    {"body-bytes", required_argument, NULL, OPT_BODY_BYTES},
    {"body", required_argument, NULL, OPT_BODY},
    {"expect-status", required_argument, NULL, OPT_EXPECT_STATUS},
    {"expect-body", required_argument, NULL, OPT_EXPECT_BODY},
    {"idle", no_argument, NULL, OPT_IDLE},
    {"print-request", no_argument, NULL, OPT_PRINT_REQUEST},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void refuse(const char *why) {
    fprintf(stderr, "load: %s\n", why);
    exit(2);
}

static uint64_t whole(const char *text, uint64_t low, uint64_t high) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < low || value > high)
        refuse("a number is malformed or out of range; see --help");
    return value;
}

static double decimal(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 1e9)
        refuse("a number is malformed or out of range; see --help");
    return value;
}

static void add_header(request_parts *parts, const char *line) {
    if (parts->header_count == MAX_HEADERS)
        refuse("too many --header");
    parts->headers[parts->header_count++] = line;
}

static void take_option(mr_options *o, request_parts *parts, int name) {
    switch (name) {
    case OPT_HOST:
        o->host = optarg;
        break;
    case OPT_PORT:
        o->port = (uint16_t)whole(optarg, 1, 65535);
        break;
    case OPT_CONNECTIONS:
        o->connections = (uint32_t)whole(optarg, 1, 60000);
        break;
    case OPT_DEPTH:
        o->depth = (uint32_t)whole(optarg, 1, 1024);
        break;
    case OPT_CLOSE:
        o->closes = true;
        break;
    case OPT_RATE:
        o->rate = decimal(optarg);
        break;
    case OPT_WARMUP:
        o->warmup_ns = (uint64_t)(decimal(optarg) * NS_PER_S);
        break;
    case OPT_SECONDS:
        o->window_ns = (uint64_t)(decimal(optarg) * NS_PER_S);
        break;
    case OPT_REQUESTS:
        o->request_limit = whole(optarg, 1, UINT64_MAX);
        break;
    case OPT_PID:
        o->pid = (pid_t)whole(optarg, 1, INT32_MAX);
        break;
    case OPT_METHOD:
        parts->method = optarg;
        break;
    case OPT_PATH:
        parts->path = optarg;
        break;
    case OPT_HEADER:
        add_header(parts, optarg);
        break;
    case OPT_BODY_BYTES:
        parts->body_bytes = (size_t)whole(optarg, 1, 1u << 20);
        break;
    case OPT_BODY:
        parts->body = optarg;
        parts->body_bytes = strlen(optarg);
        break;
    case OPT_EXPECT_STATUS:
        o->expect_status = (int)whole(optarg, 200, 599);
        break;
    case OPT_EXPECT_BODY:
        o->expect_body = optarg;
        break;
    case OPT_IDLE:
        o->is_idle = true;
        break;
    case OPT_PRINT_REQUEST:
        o->prints_request = true;
        break;
    case OPT_HELP:
        fputs(usage, stdout);
        exit(0);
    default:
        exit(2); /* getopt has said why */
    }
}

/* Host names no port: floor is told the length of a request before its port is known, so the
 * length must not depend on it. */
static void write_head(FILE *out, const mr_options *o, const request_parts *parts) {
    const char *method = parts->method;
    if (method == NULL)
        method = parts->body_bytes > 0 ? "POST" : "GET";
    fprintf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, parts->path, o->host);
    for (unsigned i = 0; i < parts->header_count; i++)
        fprintf(out, "%s\r\n", parts->headers[i]);
    if (o->closes)
        fputs("Connection: close\r\n", out);
    if (parts->body_bytes > 0)
        fprintf(out, "Content-Length: %zu\r\n", parts->body_bytes);
    fputs("\r\n", out);
}

static void build_request(mr_options *o, const request_parts *parts) {
    FILE *out = open_memstream(&o->request, &o->request_bytes);
    if (out == NULL)
        refuse("no memory");
    write_head(out, o, parts);
    for (size_t i = 0; i < parts->body_bytes; i++)
        fputc(parts->body ? parts->body[i] : 'a' + (int)(i % 26), out);
    if (fclose(out) != 0)
        refuse("no memory");
}

static void check_together(const mr_options *o) {
    if (o->closes && o->depth != 1)
        refuse("--close has one request per connection: --depth must be 1");
    if (o->is_idle && (o->closes || o->depth != 1 || o->rate > 0))
        refuse("--idle goes with --connections only");
    if (o->port == 0 && !o->prints_request)
        refuse("--port is missing; see --help");
    if (o->window_ns == 0)
        refuse("--seconds must be above 0");
}

void mr_options_read(mr_options *o, int argc, char **argv) {
    request_parts parts = {.path = "/"};
    int name;
    *o = (mr_options){.host = "127.0.0.1",
                      .connections = 64,
                      .depth = 1,
                      .warmup_ns = (uint64_t)NS_PER_S,
                      .window_ns = (uint64_t)(2.5 * NS_PER_S),
                      .expect_status = 200};
    while ((name = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        take_option(o, &parts, name);
    if (optind < argc)
        refuse("unknown argument; see --help");
    check_together(o);
    build_request(o, &parts);
}
