/// <reference types="node" />

// The API reference. Times are in milliseconds and sizes in bytes unless said otherwise.

import type { Readable, Writable } from 'node:stream'

/** The version of this package. */
export const version: string

// ---------------------------------------------------------------------------------------------
// serve

/**
 * Starts a server and resolves once it listens.
 *
 * Requests are answered by the native engine, or by node:http where the native module cannot be
 * loaded: the same API and the same answers, but for what is listed below, many times slower, with
 * one warning of the process (code `MILLRACE_NODE_HTTP`) that says why. `MILLRACE_ENGINE=node` asks
 * for node:http without the warning; `MILLRACE_ENGINE=native` makes a missing native module an error.
 * The option `engine` does the same and goes before the environment. A file that `MILLRACE_BINARY`
 * names and that cannot be used is an error as well when the native engine is asked for so; else
 * there is a warning (code `MILLRACE_BINARY`) when another one takes its place.
 *
 * What node:http does otherwise than the native engine:
 * - methods that Node's own parser does not know are 400;
 * - CONNECT is a request without a route, so 404 unless `handler` answers it; natively it is 501;
 * - OPTIONS with the target `*` is answered with an `Allow` of the common methods, natively without one;
 * - HTTP/1.2 to 1.9 are 400, natively read as HTTP/1.1;
 * - a connection that says nothing gets a 408 at `timeouts.header`; natively it is closed without a word;
 * - its own refusals come from Node's parser, which is less strict, and are 400 where the native
 *   engine also says 501 and 505;
 * - `limits.headerBytes` counts a head as if it had one space behind each colon;
 * - `limits.targetBytes` is answered by 431 instead of 414 when the target also passes the sum of
 *   the limits of the head and comes in several packets;
 * - `timeouts.send` is not watched;
 * - requests pipelined behind one that asks for an upgrade are not read;
 * - fixed replies and templates are answered by JavaScript;
 * - the async context (AsyncLocalStorage) is that of the connection;
 * - `proxyProtocol` is refused, and so is `reusePort` before Node 22.12 and 23.1
 *   (`ERR_MILLRACE_UNSUPPORTED`);
 * - a unix socket gets its `mode` a moment after it listens.
 *
 * Rejects with a MillraceError:
 * - `ERR_MILLRACE_OPTION` unknown option, or one of the wrong type;
 * - `ERR_MILLRACE_OPTION_RANGE` a number out of its bounds; also `instanceof RangeError`;
 * - `ERR_MILLRACE_UNSUPPORTED` an option that this version does not have yet;
 * - `ERR_MILLRACE_ROUTE` a bad route table;
 * - `ERR_MILLRACE_PORT_IN_USE`, `ERR_MILLRACE_PORT_DENIED`, `ERR_MILLRACE_SOCKET_IN_USE`,
 *   `ERR_MILLRACE_SOCKET_DENIED`, `ERR_MILLRACE_LISTEN` it cannot listen, and then listens nowhere;
 *   `cause` is the system's error;
 * - `ERR_MILLRACE_NO_NATIVE` the native engine is asked for and cannot be used.
 */
export function serve<Keys extends string = string> (options?: ServeOptions<Keys>): Promise<Server>
/**
 * With more threads than one the program's entry file is run again in each of them; this thread gets the
 * fleet, the others their own server. Where there is no native engine, one thread serves: this one.
 */
export function serve<Keys extends string = string> (options: ServeOptions<Keys, number | 'auto'>): Promise<Server | Fleet>

/**
 * Runs a program in several threads that behave as one server: one port, one limit of connections, one
 * rate limit, one drain, one scrape. Resolves when the program's `serve()` listens in every thread.
 * For the main thread. The program may call `serve()` with any options; its `threads` do not count.
 *
 * Rejects with what `serve()` rejects with, with the error that a thread ended with, and with
 * - `ERR_MILLRACE_LAUNCH` a thread does not listen within `launchTimeout`;
 * - `ERR_MILLRACE_THREAD_EXITED` a thread ended before it listened;
 * - `ERR_MILLRACE_COPIES` two copies of the native module are loaded.
 */
export function launch (entry: string | URL, options?: LaunchOptions): Promise<Fleet>

/** How to listen. */
export interface ListenManner {
  /**
   * Connections that may wait in the kernel to be accepted, 1 to 65535; the system may hold fewer.
   * @default 1024
   */
  backlog?: number | undefined

  /** Whether a socket on an IPv6 address, '::' included, refuses IPv4. @default false */
  ipv6Only?: boolean | undefined

  /**
   * Lets several processes listen on one port, each with a queue of its own among which the kernel
   * spreads connections (SO_REUSEPORT); all of them must ask for it.
   * @default false
   */
  reusePort?: boolean | undefined
}

/** Where to listen: a port (with or without a host), a path, or a descriptor. docs/listening.md says more. */
export interface ListenPlace {
  /**
   * TCP port, an integer from 0 to 65535 or its decimal text (as in `process.env.PORT`); 0 takes a
   * free one.
   * @default 3000
   */
  port?: number | string | undefined

  /**
   * Name or address to listen on. The default takes IPv6 and IPv4 on all interfaces, or IPv4 alone
   * where there is no IPv6.
   * @default '::'
   */
  host?: string | undefined

  /** The same as `host`. Giving both with different values is an error. */
  hostname?: string | undefined

  /**
   * Path of a unix socket, at most 107 bytes. A socket's file that nobody answers on is replaced;
   * anything else that is there is left alone, and an error. The file is removed by `close()`.
   *
   * With `'\0'` in front, a name without a file (Linux).
   */
  path?: string | undefined

  /** Permissions of the socket's file, 0 to 0o777, such as 0o660. By default those that the umask leaves. */
  mode?: number | undefined

  /**
   * A socket that listens already (TCP or unix), by its descriptor. The server owns it from then on:
   * it is closed with the server, also when `serve()` rejects; one that does not listen is left alone.
   *
   * `'systemd'` stands for all sockets that systemd passed to this process (LISTEN_FDS), and
   * `'systemd:NAME'` for those of that FileDescriptorName.
   */
  fd?: number | 'systemd' | `systemd:${string}` | undefined
}

/** An address or a CIDR; 127.0.0.0/8 and ::1; the link-local ones; those of private networks; clients of unix sockets. */
export type AddressRange = 'loopback' | 'linklocal' | 'uniquelocal' | 'unix' | (string & {})

export interface TrustProxy {
  /** Whose fields are believed; up to 256 ranges. */
  from: AddressRange | readonly AddressRange[]
  /** Which fields are believed. @default all four */
  headers?: readonly ('forwarded' | 'x-forwarded-for' | 'x-forwarded-proto' | 'x-forwarded-host')[] | undefined
}

export interface ServeOptions<Keys extends string = string, Threads = 1> extends Answers<Keys>, ListenPlace, ListenManner {
  /**
   * Several places at once, 1 to 16; `backlog`, `ipv6Only` and `reusePort` beside the list hold for
   * those that have none of their own, `port`, `host`, `path`, `mode` and `fd` belong into it. If one
   * of them fails, none is listened on.
   */
  listen?: readonly (ListenPlace & ListenManner)[] | undefined

  /**
   * Connections from these addresses must begin with a header of the PROXY protocol, version 1 or 2,
   * within `timeouts.header`; `ip` and `port` of their requests are those that it names. Without a
   * sound header such a connection is closed, without a word. Other connections are plain.
   * `ERR_MILLRACE_UNSUPPORTED` on node:http.
   */
  proxyProtocol?: { from: AddressRange | readonly AddressRange[] } | null | undefined

  /**
   * The proxies whose Forwarded (RFC 7239), X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host
   * are believed: `req.ip`, `port`, `protocol`, `secure` and `host` are then the client's. Lists are
   * read from the right, for as long as the one who wrote an element is among these addresses; an
   * element that is malformed ends it. Where there is any X-Forwarded-*, Forwarded is ignored.
   *
   * A proxy passes on as they came those of these fields that it does not set itself: name the ones
   * that it sets, `{ from: 'loopback', headers: ['x-forwarded-for', 'x-forwarded-proto'] }`.
   * `true` is refused, since it would let every client choose its address.
   */
  trustProxy?: AddressRange | readonly AddressRange[] | TrustProxy | false | null | undefined

  /**
   * Threads that answer, 1 to 64; 'auto' is one for each CPU that this process may use, by its affinity
   * mask and the quota of its control group. 1 is this thread.
   * @default 1
   */
  threads?: Threads | undefined

  /** How several threads work together. */
  fleet?: FleetOptions | undefined

  /** A path where GET is answered with all metrics of the fleet, for Prometheus (text format 0.0.4); by the core, also while JavaScript is busy. */
  metrics?: string | false | null | undefined
  /** A path for the health of the threads, as `health()` has it; 503 when none of them is up. */
  health?: string | false | null | undefined
  /** Likewise, and 503 from when the fleet begins to close. */
  ready?: string | false | null | undefined

  /**
   * While JavaScript is later than `lag` (1 to 2147483647 ms), requests for handlers get 503 with
   * Retry-After: 1. Texts, replies, metrics and health go on. Lateness is for how long the thread was
   * busy since it last looked at its sockets: what comes then may have waited as long.
   */
  overload?: { /** @default 1000 */ lag?: number | undefined } | null | undefined

  /**
   * One line for each answered request, of all threads, written by a thread of its own: a path, which is
   * appended to, or a descriptor. A line for which the thread's ring (256 KiB) has no room is dropped and
   * counted. SIGHUP, or `reopenAccessLog()`, opens the path anew.
   */
  accessLog?: string | { path?: string | undefined, fd?: number | undefined, /** @default 'combined' */ format?: 'common' | 'combined' | 'json' | undefined } | false | null | undefined

  /** The engine to use; without it, the native one if it can be loaded, else node:http. */
  engine?: 'native' | 'node' | undefined

  /**
   * What reads request heads on the native engine: its own parser, strict by RFC 9112, or the llhttp of
   * this Node, which takes and refuses what node:http does (docs/parsers.md lists where the two differ,
   * and what stays strict). Rejects with `ERR_MILLRACE_UNSUPPORTED` where `probe()` says that llhttp
   * cannot be used. node:http has llhttp whatever stands here.
   * @default 'millrace'
   */
  parser?: 'millrace' | 'llhttp' | undefined

  limits?: Limits | undefined
  timeouts?: Timeouts | undefined
}

/** How the threads of a fleet work together. */
export interface FleetOptions {
  /**
   * Who gets a new connection. 'reuseport': the kernel chooses, by a hash of the addresses. 'rotate',
   * 'least', 'select': the supervisor accepts and hands over, in turn, to the thread with the fewest
   * connections, or as `select` says. 'auto': 'select' with a select function, 'rotate' with admit, else
   * 'reuseport' where the kernel spreads (Linux), else 'rotate'. `fleet.balance` says which and why.
   * @default 'auto'
   */
  balance?: 'auto' | 'reuseport' | 'rotate' | 'least' | 'select' | undefined
  /**
   * Runs in the main thread; names the thread by its number. Anything else, or a thread that is not there
   * or stuck: the next in turn. If it throws, the connection is refused.
   */
  select?: ((peer: { ip: string, port: number }) => number | undefined | void) | null | undefined
  /** Runs in the main thread; false refuses the connection, and so does a throw. Not with 'reuseport'. */
  admit?: ((peer: { ip: string, port: number }) => boolean | undefined | void) | null | undefined
  /** With 'reuseport': a connection goes to the thread of the CPU that it came in on, by number, modulo the threads. @default false */
  keepCpu?: boolean | undefined
  /** A thread whose loop has not turned for so long gets no new connections, those that wait for it go to others, and health names it; 50 to 2147483647 ms. @default 1000 */
  stuckAfter?: number | undefined
  /** How long all threads together may take until they listen, ms. @default 30000 */
  launchTimeout?: number | undefined
  /** Failures in a row of one thread that are borne; a thread that ran for 10 s has not failed. One more ends the fleet. @default 5 */
  restarts?: number | undefined
  /** For `close()` on a signal and `reload()`, ms. @default 10000 */
  deadline?: number | undefined
  /** Close on SIGTERM and SIGINT and end the process (a second one at once), reopen the access log on SIGHUP. @default true */
  signals?: boolean | undefined
  /** Tie each thread to one of the CPUs that the process may use. @default false */
  pin?: boolean | undefined
  /** A server of the main thread's own with metrics, health and readiness, whatever becomes of the others. */
  admin?: (ListenPlace & { /** @default '/metrics' */ metrics?: string | false | undefined, /** @default '/healthz' */ health?: string | false | undefined, /** @default '/readyz' */ ready?: string | false | undefined }) | null | undefined
  /** As `Worker` of node:worker_threads has them. */
  argv?: string[] | undefined
  env?: Record<string, string | undefined> | undefined
  execArgv?: string[] | undefined
  workerData?: unknown
  resourceLimits?: object | undefined
}

export interface LaunchOptions extends FleetOptions {
  /** 1 to 64, or 'auto'. @default 'auto' */
  threads?: number | 'auto' | undefined
}

/** What requests are answered by; `server.reload()` changes these. */
export interface Answers<Keys extends string = string> {
  /**
   * Answers by path. A key is a pattern, optionally behind a method: `'/a/:b/c'`, `'/files/*'`,
   * `'POST /things'`.
   *
   * - A param `:name` takes one segment that is not empty; its name is a letter or `_`, then
   *   letters, digits and `_`; names differ within a pattern. `*` is possible as the last segment
   *   and takes the rest, which may be empty. At most 16 params (`*` included), 64 segments and
   *   2048 characters; printable ASCII without `?`, `#` and spaces.
   * - Static segments go before params, params before `*`, whatever the order of the keys. A
   *   pattern without the request's method gives way to a less specific one that has it.
   * - Paths are compared octet by octet as they were sent; `/a` and `/a/` are different. Params are
   *   percent-decoded; a bad escape is 400.
   * - HEAD is answered by GET where it has no answer of its own. A path that only matches with other
   *   methods gets 405 with `Allow`, before `handler`; OPTIONS gets 204 with `Allow`.
   * - A text or a reply answers GET (and HEAD), unless the key or a table names the method. A
   *   function answers every method.
   * - Two answers for the same pattern and method are an error, and so is a function for every
   *   method beside one for a single method of the same pattern.
   */
  routes?: { [Key in Keys]: Route<Key> } | null | undefined

  /**
   * Answers what no route matches. Without it that is 404.
   */
  handler?: Handler | null | undefined

  /**
   * Called when a handler throws, rejects, or returns what cannot be sent. It answers like a handler:
   * `res` has been reset, with status 500, or for errors of the client with the status that is
   * theirs (`err.status`, see MillraceError): leave it as it is unless you mean another one. When it
   * does not answer (before its promise settles, if it returns one), that status goes out, plain;
   * when it throws or rejects, a plain 500. When the request was answered before the error, nothing
   * it does changes that.
   *
   * Without it: one entry on the console by console.error, and a plain 500. Errors of the client
   * are answered by their status and not logged.
   */
  error?: ErrorHandler | null | undefined
}

/**
 * One entry of `routes`: an answer, answers by method in upper case, or one answer as `handler` for
 * the sake of `limits`.
 */
export type Route<Key extends string = string> =
  | Answer<Key>
  | { readonly [Name in Method]?: Answer<Key> } & { readonly limits?: RouteLimits | undefined, readonly handler?: never }
  | { readonly handler: Answer<Key>, readonly limits?: RouteLimits | undefined }

/** Limits of one route, in place of the server's. */
export interface RouteLimits {
  /** A request's body, 1 to 2147483647; over it 413. Without it, the server's `limits.bodyBytes`. */
  bodyBytes?: number | undefined
  /** Requests that may be with its handlers at one time, over all threads of a fleet, 1 to 1000000. */
  concurrency?: number | undefined
  /** Requests that wait for that in each thread; more are 503 with Retry-After. @default 0 */
  queue?: number | undefined
}

/**
 * A text (sent as text/plain; charset=utf-8), a reply, or a handler. On the native engine, texts and
 * replies are answered without entering JavaScript.
 */
export type Answer<Key extends string = string> = string | Reply | Handler<ParamsOf<Key>>

/** The methods that routes can name. CONNECT has no path, so no route can have it. */
export type Method =
  | 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'OPTIONS' | 'TRACE' | 'QUERY'
  | 'PROPFIND' | 'PROPPATCH' | 'MKCOL' | 'COPY' | 'MOVE' | 'LOCK' | 'UNLOCK' | 'REPORT' | 'SEARCH'
  | 'PURGE' | 'LINK' | 'UNLINK'

type ParamOfSegment<Segment extends string> = Segment extends `:${infer Name}` ? Name : Segment extends '*' ? '*' : never
type ParamNames<Pattern extends string> = Pattern extends `${infer Segment}/${infer Rest}`
  ? ParamOfSegment<Segment> | ParamNames<Rest>
  : ParamOfSegment<Pattern>

/** The params of a pattern: `{ id: string }` for `'/user/:id'`; `'*'` is the rest of a wildcard. */
export type ParamsOf<Key extends string> = string extends Key ? Record<string, string> : { [Name in ParamNames<Key>]: string }

/**
 * Answers a request by returning, or by `res`:
 *
 * | returned | sent |
 * |---|---|
 * | string | as it is; text/plain; charset=utf-8 |
 * | Buffer, typed array, DataView, ArrayBuffer | as it is; application/octet-stream |
 * | object, array, anything with `toJSON` | its JSON; application/json |
 * | `null` | nothing: 204, or the status that was set |
 * | a web `Response` | its status, headers and body |
 * | Readable, ReadableStream, async iterable of strings and bytes | streamed with back-pressure, or sent whole when it ends at once; application/octet-stream |
 * | a reply | that reply |
 * | a promise of one of these | the same, later |
 * | `undefined`, `res` | `res` is or will be used |
 *
 * A Content-Type that was set goes before these. A boolean counts as `undefined` once the request is
 * answered, so that `return res.send(x)` is fine. A number, bigint, symbol, function, Map, Error or
 * the like is an error, `ERR_MILLRACE_RETURN`. Bytes are sent without a copy: do not change them
 * afterwards.
 *
 * Throwing and rejecting are answered by the error hook, never end the process and disturb no other
 * request. A handler that never answers keeps its client waiting.
 */
export type Handler<Params = Record<string, string>> = (req: MillraceRequest<Params>, res: MillraceResponse) => HandlerResult | PromiseLike<HandlerResult>

export type ErrorHandler = (err: unknown, req: MillraceRequest, res: MillraceResponse) => HandlerResult | PromiseLike<HandlerResult>

/** `object` stands for bytes, JSON, Response, streams and replies; see Handler. */
export type HandlerResult = string | object | boolean | null | undefined | void

/** All integers. A value out of its bounds is `ERR_MILLRACE_OPTION_RANGE`, a RangeError. */
export interface Limits {
  /** A request's head, request line and empty line included, 1024 to 65535; over it 431. @default 16384 */
  headerBytes?: number | undefined
  /** Header fields of a request, 1 to 1000; over it 431. @default 100 */
  headerCount?: number | undefined
  /** The request target, 16 to 65535; over it 414. @default 8192 */
  targetBytes?: number | undefined
  /** A request's body, 0 to 2147483647; over it 413, and the handler is not called. @default 16777216 */
  bodyBytes?: number | undefined

  /**
   * The least throughput of a body, averaged over 10 s: 408 below it. Time in which the server makes
   * the client wait is not counted. 0 for any.
   * @default 1024
   */
  bodyBytesPerSecond?: number | undefined
  /** Open connections, up to 2147483647; over it 503 and close. 0: any number. @default 0 */
  connections?: number | undefined
  /** Requests of one connection, up to 2147483647; the last one is answered with `Connection: close`. 0: any number. @default 0 */
  requestsPerConnection?: number | undefined
  /** Bytes of answers that may wait for one slow client, 4096 to 536870911; at four times as many it is given up. @default 16777216 */
  outgoingBytes?: number | undefined
  /**
   * Requests per second of each key, over all threads; more get 429 with Retry-After, from the core. `burst`
   * of them may come at once (1 to 1000000). The key is the client's address (of IPv6 its /64), or the value of
   * a field. The table has a fixed number of entries (a power of two, 64 to 16777216, of 8 bytes): keys that
   * find their part of it full share one budget. A fleet has one rate limit, that of the first server.
   */
  rate?: {
    /** 0.000001 to 1000000. */
    perSecond: number
    /** @default perSecond, rounded up */
    burst?: number | undefined
    /** @default 'address' */
    key?: 'address' | `header:${string}` | undefined
    /** @default 65536 */
    entries?: number | undefined
  } | null | undefined
}

/** All integers in milliseconds, up to 2147483647; 0 means no time-out, except for `linger`. Never early, and up to a second late. */
export interface Timeouts {
  /** To receive a head; over it 408 and close; a connection that has said nothing is closed without a word. @default 10000 */
  header?: number | undefined
  /** To receive a body; over it 408 and close. @default 300000 */
  body?: number | undefined
  /** Idle between requests; over it the connection is closed. @default 75000 */
  keepAlive?: number | undefined
  /** Without progress of bytes that wait to be sent; over it the connection is closed. @default 300000 */
  send?: number | undefined
  /** How long a closed connection still reads what the client sends, so that the client gets to see the last answer; up to 60000, 0 closes at once. @default 2000 */
  linger?: number | undefined
}

/** Where a server listens. */
export interface ListenAddress {
  /**
   * Where it can be reached from this machine, without a slash at the end: 127.0.0.1 for wildcard
   * addresses, [::1] for those with `ipv6Only`; `unix:/path` (`unix:@name` without a file) of a unix
   * socket.
   */
  readonly url: string
  /** The port, also when 0 was asked for; 0 of a unix socket. */
  readonly port: number
  /** The host as it was given, '::' by default; the address of a descriptor; '' of a unix socket. */
  readonly host: string
  /** The path of a unix socket, null of a port. */
  readonly path: string | null
}

/** A running server. Its url, port, host and path are those of the first place that it listens on. */
export interface Server extends ListenAddress {
  /** All places, in the order of `listen`. */
  readonly addresses: readonly ListenAddress[]
  /** The engine that runs. */
  readonly engine: 'native' | 'node'

  /**
   * Replaces routes, handler or error hook at once, between two requests; what is not given stays,
   * `null` takes away. Requests under way finish by the table that they started with. A bad table
   * throws (`ERR_MILLRACE_ROUTE`, `ERR_MILLRACE_OPTION`) and changes nothing; so does a server that
   * is closed (`ERR_MILLRACE_CLOSED`).
   */
  reload<Keys extends string = string> (answers: Answers<Keys>): void

  /** All metrics as text for Prometheus. `ERR_MILLRACE_UNSUPPORTED` unless one of metrics, health, ready, overload, accessLog or limits.rate is given, or this is a thread of a fleet. */
  metrics (): string
  /** Likewise, the health. */
  health (): Health
  /** Opens the path of the access log anew. */
  reopenAccessLog (): void

  /**
   * Accepts no more connections, closes idle ones, lets requests under way finish and closes behind
   * them; what is left after `deadline` (0 to 2147483647 ms) is ended. Resolves when nothing is
   * left. May be called again: it waits for the same end, and an earlier deadline counts.
   */
  close (options?: {
    /** @default 10000 */
    deadline?: number | undefined
    /** How long idle connections stay open, for requests that are on their way already, ms. @default 250 */
    grace?: number | undefined
  }): Promise<void>
}

/** Several threads as one server. Its url, port, host and path are those of the first place that they listen on. */
export interface Fleet extends ListenAddress {
  readonly addresses: readonly ListenAddress[]
  readonly engine: 'native' | 'node'
  readonly threads: number
  readonly balance: { readonly mode: 'reuseport' | 'rotate' | 'least' | 'select' | 'none', readonly reason: string }
  /** Resolves when it has ended as asked, rejects with the reason (`ERR_MILLRACE_THREAD_FAILED`) when it ended by itself. */
  readonly done: Promise<void>
  /** The server of the option `admin`. */
  readonly admin?: Server
  /** All metrics as text for Prometheus: a scrape asks no thread. Totals never go down. */
  metrics (): string
  health (): Health
  reopenAccessLog (): void
  /**
   * Replaces all threads, one after the other, by new ones that run the program as it is now; each
   * connection goes on in the new thread as soon as it is idle, and none is closed for it. What is still
   * under way after `deadline` ms is cut. Rejects, with the old threads in place, when a new one does not
   * come up.
   */
  reload (options?: { deadline?: number | undefined }): Promise<void>
  /** As `Server.close()`, for all threads. */
  close (options?: { deadline?: number | undefined, grace?: number | undefined }): Promise<void>
  /** A thread listens. */
  on (event: 'up', listener: (thread: number) => void): this
  /** A thread has ended; null: as asked. */
  on (event: 'down', listener: (thread: number, reason: unknown) => void): this
  /** The fleet ends by itself. Without a listener the process ends with this error. */
  on (event: 'error', listener: (err: MillraceError) => void): this
}

export interface Health {
  /** 'ok': all threads are well; 'degraded': at least one is up; 'down': none is. */
  status: 'ok' | 'degraded' | 'down'
  threads: Array<{
    thread: number
    state: 'starting' | 'up' | 'stuck' | 'draining' | 'down'
    /** For how long it has not answered the supervisor, ms. */
    heartbeatAge: number
    /** How late its loop was lately, ms. */
    lag: number
    /** The busy share of the last seconds, 0 to 1. */
    utilisation: number
    /** Messages that wait for it. */
    mailboxDepth: number
    connections: number
  }>
}

// ---------------------------------------------------------------------------------------------
// messages between threads

/** A thread's number, or the main thread. */
export type Thread = number | 'main'
/** Runs in the thread that gets the message. What it returns, or a promise of it, is the answer to a call. */
export type MessageHandler = (data: any, sender: { from: Thread }) => unknown

/**
 * Messages between the threads of a fleet, the main thread included; without a fleet, within thread 0.
 * First in, first out between two threads. A string is sent as it is, bytes arrive as a Buffer that is the
 * receiver's to keep, anything else as structuredClone() copies it, up to 64 MiB.
 */
export const bus: {
  /** One handler for a name (1 to 256 bytes; 4,096 names). `ERR_MILLRACE_MESSAGE` when there is one already. */
  on (name: string, handler: MessageHandler): typeof bus
  /** Whether there was one. */
  off (name: string): boolean
  /** 'all': every thread but the main one, this one included. False: it found no room (64 KiB for each pair of threads), or nobody; counted in `lost`. */
  post (thread: Thread | 'all', name: string, data?: unknown): boolean
  /**
   * Resolves to what the handler returns, rejects with what it throws, and with `ERR_MILLRACE_NO_HANDLER`,
   * `ERR_MILLRACE_CALL_TIMEOUT`, `ERR_MILLRACE_THREAD_EXITED`, `ERR_MILLRACE_MAILBOX_FULL` (also when 65,536
   * calls of this thread wait).
   */
  call (thread: Thread, name: string, data?: unknown, options?: { /** ms, or Infinity. @default 5000 */ timeout?: number | undefined }): Promise<any>
  /** Messages of this thread that found no room, nobody, or no handler. */
  readonly lost: number
}

/** Who this thread is. */
export const self: {
  /** Its number from 0; -1: the main thread of a fleet. */
  readonly index: number
  readonly threads: number
  /** Called, and awaited, before a thread of a fleet ends because it was asked to. */
  onExit (hook: () => unknown): void
}

// ---------------------------------------------------------------------------------------------
// metrics of the program's own

export interface Counter { /** By a number from 0. @default 1 */ inc (more?: number): void }
export interface Gauge { set (value: number): void, inc (more?: number): void, dec (less?: number): void }
export interface Histogram { /** A finite number. */ observe (value: number): void }
/** With labels: the series of these values, made at first use; a label that is not given is ''. */
export interface Labelled<Series> { labels (values: Record<string, string | number>): Series }

export interface MetricOptions { /** At most 8 names. */ labels?: readonly string[] | undefined }

/**
 * Counted in this thread, shown with those of all threads where the fleet's metrics are shown; kept aside
 * until there is a fleet. The same definition again is the same metric. Names begin with a letter and not
 * with millrace_; at most 1,000 series. `ERR_MILLRACE_METRIC`.
 */
export const metrics: {
  counter (name: string, help?: string, options?: MetricOptions): Counter & Labelled<Counter>
  /** merge: what is shown of several threads' values: their sum, the highest, or each with thread="n". */
  gauge (name: string, help?: string, options?: MetricOptions & { /** @default 'sum' */ merge?: 'sum' | 'max' | 'thread' | undefined }): Gauge & Labelled<Gauge>
  /** bounds: 1 to 32 rising numbers. */
  histogram (name: string, help?: string, options?: MetricOptions & { bounds?: readonly number[] | undefined }): Histogram & Labelled<Histogram>
}

// ---------------------------------------------------------------------------------------------
// request and response

/**
 * A request. Everything is computed when it is first read, and stays readable for as long as the
 * object is held: after `await`, after the answer, after the client has gone.
 */
export interface MillraceRequest<Params = Record<string, string>> extends AsyncIterable<Buffer> {
  /** As sent, in its case. */
  readonly method: string
  /** The request target as sent: usually path and query, a whole URL from clients of proxies. */
  readonly url: string
  /** The target's path as sent, percent-encoding untouched; '/' when it is empty. */
  readonly path: string
  /** The target's query with its '?', or '' when there is none. */
  readonly search: string
  readonly query: URLSearchParams
  /** The route's params, percent-decoded; `'*'` is what a wildcard took. Empty in `handler`. */
  readonly params: Params
  /**
   * By lower-case name. Of repeated fields, those that node:http keeps single (content-type,
   * user-agent, …) have their first value, `cookie` is joined by '; ', `set-cookie` is an array, all
   * others are joined by ', '. Values are latin1, as in node:http.
   */
  readonly headers: Record<string, string | undefined> & { 'set-cookie'?: string[] }
  /** One header by name in any case, repeated ones joined as above; undefined when it was not sent. */
  header (name: string): string | undefined
  /** Names and values in turn, as sent. */
  readonly rawHeaders: string[]
  readonly httpVersion: '1.0' | '1.1'
  /**
   * The client's address; IPv4 addresses in their own form on a dual-stack server too. Of a proxy that
   * `trustProxy` or `proxyProtocol` name, the address that it tells. '' for a unix socket.
   */
  readonly ip: string
  /** The client's port; 0 where a proxy does not tell, and for a unix socket. */
  readonly port: number
  /** What the client speaks, as far as a trusted proxy tells. */
  readonly protocol: 'http' | 'https'
  /** What a trusted proxy tells, else the authority of a target that is a whole URL, else the Host header; '' without one. */
  readonly host: string
  /** Whether `protocol` is https. */
  readonly secure: boolean
  /**
   * Fires when the client closes the connection, or its side of it, before the answer is complete.
   * A client that only shut down its sending side still gets the answer.
   */
  readonly signal: AbortSignal
  /** Whether the client has closed, as for `signal`. */
  readonly aborted: boolean

  /**
   * Whether the client waits for a 100 (Continue) before it sends the body. It is sent when the body
   * is first asked for; a handler that answers without asking (401, 413, 417, …) refuses it unsent.
   */
  readonly expectsContinue: boolean

  // A handler runs when the head is there; a small body has usually come with it. One that is still
  // coming is read no further ahead than some 128 KiB of what was taken, so a slow handler slows the
  // client. The whole-body methods may be used together and more than once; a body that was read
  // piece by piece is spent (ERR_MILLRACE_BODY_USED), unless it was there as a whole.
  //
  // All of them reject when the rest will not come: ERR_MILLRACE_ABORTED (the client went),
  // ERR_MILLRACE_BODY_TOO_LARGE (limits.bodyBytes; the client gets 413), ERR_MILLRACE_BAD_BODY (400),
  // ERR_MILLRACE_BODY_TIMEOUT (408), ERR_MILLRACE_BODY_UNREAD (the answer was complete first).

  /** The body as UTF-8, without a byte order mark. */
  text (): Promise<string>
  /** Rejects with `ERR_MILLRACE_BAD_JSON` (400 by default) when the body is not JSON. */
  json<T = any> (): Promise<T>
  /** The body, yours to keep and to change. */
  bytes (): Promise<Buffer>
  /** A copy of the body. */
  arrayBuffer (): Promise<ArrayBuffer>
  /** multipart/form-data or application/x-www-form-urlencoded; `ERR_MILLRACE_BAD_FORM` (400 by default) otherwise. */
  formData (): Promise<FormData>
  /** A stream of the body, with back-pressure. */
  stream (): Readable
  /** A new web Request; its body streams. Throws a TypeError for the methods that it forbids (TRACE, CONNECT). */
  web (): Request
  /** The fields behind a chunked body, as `headers`; empty before the body's end. */
  readonly trailers: Record<string, string | undefined>
}

/** An object of name and value, or pairs (an array of them, a Map, web Headers). In an object, an array makes one line of each item. */
export type HeadersInit = Readonly<Record<string, HeaderValue | readonly HeaderValue[]>> | Iterable<readonly [string, HeaderValue]>

/** Latin1 without control characters other than tab. */
export type HeaderValue = string | number

/** What `send()` takes: text, bytes, or an object for its JSON. `null` and `undefined`: no body. */
export type Body = string | object | null | undefined

/**
 * The answer to one request. Setters can be chained; the methods that answer return true, or false
 * when the client has gone and nothing was sent. A second answer, and setting anything after the
 * first, throw `ERR_MILLRACE_ALREADY_ANSWERED`.
 *
 * On the wire: status line, Content-Type if it was not set, headers in the order in which they were
 * set, Content-Length, Date, Connection.
 */
export interface MillraceResponse {
  /** An integer from 200 to 599, else `ERR_MILLRACE_STATUS`. 200 until set. 204, 205 and 304 send no body. */
  status (status: number): this
  /**
   * Sets a header, replacing earlier values; an array makes one line of each item, an empty one
   * takes the header away. A bad name or value is `ERR_MILLRACE_HEADER`.
   *
   * Content-Length may be set when it is right (else `ERR_MILLRACE_LENGTH`; for HEAD it may stand
   * without a body). `Connection: close` closes after this answer, other values of Connection are
   * dropped. Transfer-Encoding is refused. A Date that is set replaces the server's.
   */
  header (name: string, value: HeaderValue | readonly HeaderValue[]): this
  headers (headers: HeadersInit): this
  /** Sets Content-Type: a full one, or text, html, json, css, js, csv, xml, svg, form, bytes. */
  type (type: string): this

  /** Answers. What cannot be sent is `ERR_MILLRACE_BODY_TYPE`. Bytes are not copied: do not change them afterwards. */
  send (body?: Body): boolean
  /** Ends a streamed answer, with a last piece if one is given; without one begun, the same as `send()`. */
  end (body?: Body): boolean

  /**
   * Sends a piece of a streamed answer; the first one sends the head. In the chunked coding, by
   * Content-Length when that was set (`ERR_MILLRACE_LENGTH` past it; ending short of it closes the
   * connection), to HTTP/1.0 up to the close. Returns false once 1 MiB (or `limits.outgoingBytes`, if
   * that is less) waits for the client, or the client has gone: wait for `drained()`. At four times
   * `limits.outgoingBytes` the connection is given up. Large pieces are not copied.
   */
  write (chunk: string | ArrayBufferView | ArrayBufferLike): boolean
  /** Resolves to true when what was written has left, at once when the client keeps up; to false when the client went. */
  drained (): Promise<boolean>
  /** A Writable that writes and ends this answer; destroying it cuts the answer short. */
  stream (): Writable
  /** Sends 103 Early Hints before the answer; nothing to HTTP/1.0. */
  hints (headers: HeadersInit): boolean
  /** Sends an interim answer, 102 to 199, before the answer; nothing to HTTP/1.0. */
  inform (status: number, headers?: HeadersInit): boolean
  /**
   * Fields behind the content, sent in the chunked coding only, so not to HTTP/1.0 clients. Fields
   * that frame, route or authorise (RFC 9110 6.5.1) are `ERR_MILLRACE_HEADER`.
   */
  trailers (headers: HeadersInit): this
  /** Begins a stream of server-sent events: `text/event-stream`, not to be cached. */
  sse (options?: EventStreamOptions): EventStream
  /** Answers with the JSON of any value, strings and null included. */
  json (value: unknown): boolean
  /** Answers with Location; 300 to 399 without 304. Characters beyond ASCII and spaces are percent-encoded. */
  redirect (url: string | URL, status?: number): boolean
  /** Answers by a template and a body. Headers set on `res` come on top; the status is the template's. */
  reply (template: Template, body?: Body): boolean
  /** Answers by a reply. */
  reply (reply: Reply): boolean

  /** Whether an answer was given. */
  readonly sent: boolean
  /** Resolves to true once the last byte was given to the system, to false when the client went first. Never rejects. */
  readonly finished: Promise<boolean>
}

export interface EventStreamOptions {
  /** A comment is sent when nothing else was for this long, so that proxies keep the connection. ms, 0 for none. @default 15000 */
  keepAlive?: number | undefined
  /** How long the client is to wait before it connects again, ms. */
  retry?: number | undefined
}

export interface ServerSentEvent {
  /** Text as it is, anything else as JSON. May have several lines. */
  data?: unknown
  /** The event's type; one line, else `ERR_MILLRACE_EVENT`. */
  event?: string | undefined
  /** What the client sends as Last-Event-ID when it connects again; one line. */
  id?: string | number | undefined
  /** ms to wait before connecting again. */
  retry?: number | undefined
  comment?: string | undefined
}

/** Server-sent events (WHATWG HTML 9.2). */
export interface EventStream {
  /** An event, or its data alone. Resolves to true when the next may be sent, to false when the client has gone. */
  send (event: ServerSentEvent | string | number | boolean | null): Promise<boolean>
  close (): void
  readonly closed: boolean
  /** The id of the last event that this client saw before it connected again, '' on the first time. */
  readonly lastEventId: string
}

// ---------------------------------------------------------------------------------------------
// replies and templates

declare const replyMark: unique symbol
declare const templateMark: unique symbol
declare const placeholderMark: unique symbol

/** An answer made once. The native engine sends it without entering JavaScript. */
export interface Reply {
  readonly [replyMark]: true
}

/** What stands for a part of the request in a reply. */
export interface Placeholder {
  readonly [placeholderMark]: true
}

/** A value in a reply: a placeholder, or text that is known now and escaped like one. */
export type ReplyValue = Placeholder | string | number

export interface ReplyTag {
  (strings: TemplateStringsArray, ...values: readonly ReplyValue[]): Reply
}

export interface ReplyInit {
  /** 200 to 599. @default 200 */
  status?: number | undefined
  headers?: HeadersInit | undefined
}

/**
 * As a tag: a text with placeholders, text/plain; charset=utf-8.
 *
 * With an object: a fixed answer; without `body` it is also a tag, whose escape follows its
 * Content-Type (JSON; HTML and XML; none for others).
 *
 * Throws `ERR_MILLRACE_TEMPLATE`, `ERR_MILLRACE_STATUS`, `ERR_MILLRACE_HEADER`,
 * `ERR_MILLRACE_LENGTH` or `ERR_MILLRACE_BODY_TYPE`. A reply has at most 64 parts, texts and
 * placeholders together.
 */
export const reply: ReplyTag & {
  (init: ReplyInit & { body: Body }): Reply
  (init: ReplyInit): Reply & ReplyTag
  /** text/plain; charset=utf-8; placeholders are not escaped. */
  readonly text: ReplyTag
  /** text/html; charset=utf-8; `& < > " '` in placeholders become entities. */
  readonly html: ReplyTag
  /** application/json; each placeholder is a whole JSON string, quotes included. Any JSON value may stand for itself. */
  readonly json: (strings: TemplateStringsArray, ...values: readonly unknown[]) => Reply
}

/** A param of the route, percent-decoded; `'*'` for a wildcard's rest. One that the pattern does not have is `ERR_MILLRACE_ROUTE` at `serve`. */
export function param (name: string): Placeholder
/** The first value of a query parameter, as URLSearchParams.get() gives it; the fallback ('' if not given) when it is not there. */
export function query (name: string, fallback?: string): Placeholder
/** A request header, repeated ones joined as `req.header()` does; the fallback ('' if not given) when it is not there. */
export function header (name: string, fallback?: string): Placeholder

/** Status and headers made once, for `res.reply()`. */
export interface Template {
  readonly [templateMark]: true
  readonly status: number
}

/**
 * Makes the fixed part of an answer once. `res.reply(template, body)` gives the same bytes as
 * `res.status(…).headers(…).send(body)`. Throws as `reply` does; Content-Length is refused.
 */
export function template (init?: ReplyInit): Template

// ---------------------------------------------------------------------------------------------
// probe

/** Which engine runs and why. Never throws, never logs; loads the native module if it can. */
export function probe (): Probe

export interface Probe {
  /** Whether the native engine can be used and nothing asks for the other one. */
  ok: boolean
  /** The engine that `serve()` takes without the option `engine`. */
  engine: 'native' | 'node'
  version: string
  /** This Node's ABI, `process.versions.modules`. */
  abi: string
  platform: string
  arch: string
  /** The C library that this Node runs on; null where it cannot be told or does not matter. */
  libc: 'glibc' | 'musl' | null
  /** The native module that was loaded. */
  binary: string | null
  /** The places that were tried in vain: `MILLRACE_BINARY`, then the build, then the prebuilt ones. */
  tried: Array<{ path: string, error: string }>
  /** Why the native engine is not taken; null when it is. */
  reason: string | null
  /** 'epoll' and the like; 'node' on node:http. */
  transport: string | null
  transportReason: string | null
  /** What `threads: 'auto'` gives. */
  threads: number
  /** What `balance: 'auto'` gives. */
  balance: { mode: string, reason: string }
  /** The instruction set of the parser: 'avx2', 'sse2', 'neon' or 'scalar'; null on node:http. */
  simd: string | null
  versions: { node: string, uv: string, openssl: string, zlib: string, llhttp: string, napi: string }
  /** What this engine does and the other does not; see serve(). */
  capabilities: {
    /** Whether `parser: 'llhttp'` can be had, why not, and the version of llhttp. */
    llhttp: { ok: boolean, reason: string | null, version: string | null }
    repliesWithoutJs: boolean
    anyMethod: boolean
    exactLimits: boolean
    sendTimeout: boolean
  }
}

// ---------------------------------------------------------------------------------------------
// errors

/** The one class of errors of this package. The message says what happened and what to do. */
export class MillraceError extends Error {
  private constructor ()
  readonly code: ErrorCode
  /**
   * What the client that caused this error is answered: 400 on `ERR_MILLRACE_BAD_JSON`,
   * `ERR_MILLRACE_BAD_FORM`, `ERR_MILLRACE_BAD_BODY` and `ERR_MILLRACE_ABORTED`, 408 on
   * `ERR_MILLRACE_BODY_TIMEOUT`, 413 on `ERR_MILLRACE_BODY_TOO_LARGE`. Not there on errors that are
   * not the client's.
   */
  readonly status?: number
  readonly cause?: unknown
}

export type ErrorCode =
  /** serve, reload, close: an unknown option, or one of the wrong type. */
  | 'ERR_MILLRACE_OPTION'
  /** serve, close: a number out of its bounds; a RangeError. */
  | 'ERR_MILLRACE_OPTION_RANGE'
  /** serve: not in this version, as TLS (`tls`, `cert`, `key`, …), or not on node:http. */
  | 'ERR_MILLRACE_UNSUPPORTED'
  /** serve, reload: a bad route table; the message names the key. */
  | 'ERR_MILLRACE_ROUTE'
  /** reply, template, param, query, header, res.reply: what no reply can be made of. */
  | 'ERR_MILLRACE_TEMPLATE'
  /** A status that is not an integer from 200 to 599, or does not redirect; a RangeError for the former. */
  | 'ERR_MILLRACE_STATUS'
  /** A header that cannot be sent. */
  | 'ERR_MILLRACE_HEADER'
  /** A Content-Length that is not the body's. */
  | 'ERR_MILLRACE_LENGTH'
  /** A body that cannot be sent; `cause` is the TypeError where JSON.stringify() gave one. */
  | 'ERR_MILLRACE_BODY_TYPE'
  /** A handler returned what is no answer. */
  | 'ERR_MILLRACE_RETURN'
  /** A second answer to one request. */
  | 'ERR_MILLRACE_ALREADY_ANSWERED'
  /** req.json: the body is not JSON; `cause` is the SyntaxError. */
  | 'ERR_MILLRACE_BAD_JSON'
  /** The body went over limits.bodyBytes; the client gets 413. */
  | 'ERR_MILLRACE_BODY_TOO_LARGE'
  /** The chunked coding of the body is broken; the client gets 400. */
  | 'ERR_MILLRACE_BAD_BODY'
  /** req.formData: the body is no form. */
  | 'ERR_MILLRACE_BAD_FORM'
  /** The body came too slowly; the client gets 408. */
  | 'ERR_MILLRACE_BODY_TIMEOUT'
  /** The answer was complete before the body was read. */
  | 'ERR_MILLRACE_BODY_UNREAD'
  /** The body was read piece by piece before. */
  | 'ERR_MILLRACE_BODY_USED'
  /** The client went before the body, or the answer, was complete. */
  | 'ERR_MILLRACE_ABORTED'
  /** An event with parts that cannot be sent. */
  | 'ERR_MILLRACE_EVENT'
  /** serve: another server has the port. */
  | 'ERR_MILLRACE_PORT_IN_USE'
  /** serve: the process may not open the port. */
  | 'ERR_MILLRACE_PORT_DENIED'
  /** serve: another server answers on the unix socket. */
  | 'ERR_MILLRACE_SOCKET_IN_USE'
  /** serve: the process may not make the unix socket. */
  | 'ERR_MILLRACE_SOCKET_DENIED'
  /** serve: any other failure to listen. */
  | 'ERR_MILLRACE_LISTEN'
  /** serve: the native engine, or a file for it, is asked for and cannot be used; the message has the reasons. */
  | 'ERR_MILLRACE_NO_NATIVE'
  /** launch: a thread does not listen in time. */
  | 'ERR_MILLRACE_LAUNCH'
  /** A thread of a fleet failed again and again; `cause` is its last error. */
  | 'ERR_MILLRACE_THREAD_FAILED'
  /** launch, bus.call: the thread has ended, or there is none. */
  | 'ERR_MILLRACE_THREAD_EXITED'
  /** launch: two copies of the native module are loaded. */
  | 'ERR_MILLRACE_COPIES'
  /** bus: a name, handler or message that cannot be. */
  | 'ERR_MILLRACE_MESSAGE'
  /** bus.call: the thread has not read what was sent before. */
  | 'ERR_MILLRACE_MAILBOX_FULL'
  /** bus.call: no answer came in time. */
  | 'ERR_MILLRACE_CALL_TIMEOUT'
  /** bus.call: nobody handles that name there. */
  | 'ERR_MILLRACE_NO_HANDLER'
  /** metrics: a definition, label or value that cannot be, or one series too many. */
  | 'ERR_MILLRACE_METRIC'
  /** serve: the access log cannot be opened. */
  | 'ERR_MILLRACE_ACCESS_LOG'
  /** reload: the server is closed. */
  | 'ERR_MILLRACE_CLOSED'
