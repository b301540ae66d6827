// What the bench measures. A scenario is one server in one form under one kind of load:
//   name, title   as `--only` takes it, and as the tables show it
//   server, args  a key of `servers` in lib/servers.mjs, and its arguments
//   path, body    what is asked for, and what must come back, octet for octet
//   load          arguments of the generator; every run has 64 connections
//   floor         the scenario whose CPU time of the same round is 1.0; none for memory
//   kind          'cpu' (default) or 'memory': idle connections are held, and nothing is timed

const hello = { path: '/', body: 'Hello, World!' }
const depth1 = { load: ['--depth', '1'], floor: 'floor' }
const depth16 = { load: ['--depth', '16'], floor: 'floor-x16' }
const oneEach = { load: ['--close'], floor: 'floor-close' }
const alphabet = (bytes) => 'abcdefghijklmnopqrstuvwxyz'.repeat(Math.ceil(bytes / 26)).slice(0, bytes)
const echo = (bytes) => ({ path: '/echo', body: alphabet(bytes), load: ['--depth', '1', '--body-bytes', String(bytes)], floor: 'floor' })
const json = {
  path: '/json',
  body: '{"hello":"world"}',
  load: ['--depth', '1', '--body', '{ "hello": "world" }', '--header', 'Content-Type: application/json'],
  floor: 'floor'
}
const idle = { kind: 'memory', connections: 8000, load: [] }

export const scenarios = [
  { name: 'floor', title: 'floor (C, no parsing)', server: 'floor', ...hello, ...depth1 },
  { name: 'fixed', title: 'millrace, fixed route', server: 'millrace', args: ['fixed'], ...hello, ...depth1 },
  { name: 'template', title: 'millrace, template route', server: 'millrace', args: ['template'], path: '/user/123', body: '123', ...depth1 },
  { name: 'js', title: 'millrace, JS handler', server: 'millrace', args: ['js'], ...hello, ...depth1 },
  { name: 'async', title: 'millrace, async JS handler', server: 'millrace', args: ['async'], ...hello, ...depth1 },
  { name: 'uws', title: 'uWebSockets.js, JS handler', server: 'uws', ...hello, ...depth1 },
  { name: 'bun', title: 'Bun.serve, fetch handler', server: 'bun', ...hello, ...depth1 },
  { name: 'node', title: 'node:http', server: 'node', ...hello, ...depth1 },

  { name: 'floor-x16', title: 'floor, pipelined x16', server: 'floor', ...hello, ...depth16 },
  { name: 'js-x16', title: 'millrace, JS handler, x16', server: 'millrace', args: ['js'], ...hello, ...depth16 },
  { name: 'uws-x16', title: 'uWebSockets.js, x16', server: 'uws', ...hello, ...depth16 },
  { name: 'bun-x16', title: 'Bun.serve, x16', server: 'bun', ...hello, ...depth16 },

  { name: 'floor-close', title: 'floor, connection each', server: 'floor', args: ['--close'], ...hello, ...oneEach },
  { name: 'fixed-close', title: 'millrace, fixed, connection each', server: 'millrace', args: ['fixed'], ...hello, ...oneEach },

  { name: 'echo-1k', title: 'millrace, POST echo of 1 KiB', server: 'millrace', args: ['echo'], ...echo(1024) },
  { name: 'node-echo-1k', title: 'node:http, POST echo of 1 KiB', server: 'node', args: ['echo'], ...echo(1024) },
  { name: 'echo-64k', title: 'millrace, POST echo of 64 KiB', server: 'millrace', args: ['echo'], ...echo(65536) },
  { name: 'node-echo-64k', title: 'node:http, POST echo of 64 KiB', server: 'node', args: ['echo'], ...echo(65536) },
  { name: 'json', title: 'millrace, JSON in and out', server: 'millrace', args: ['json'], ...json },
  { name: 'node-json', title: 'node:http, JSON in and out', server: 'node', args: ['json'], ...json },

  { name: 'idle', title: 'millrace, JS handler, idle', server: 'millrace', args: ['js'], ...hello, ...idle },
  { name: 'uws-idle', title: 'uWebSockets.js, idle', server: 'uws', ...hello, ...idle },
  { name: 'bun-idle', title: 'Bun.serve, idle', server: 'bun', ...hello, ...idle },
  { name: 'node-idle', title: 'node:http, idle', server: 'node', ...hello, ...idle }
]

// A target: `what` of a scenario, divided by that of another in the same round when `of` is given,
// has a median of `limit` at most.
export const targets = [
  { scenario: 'fixed', what: 'totalUs', of: 'floor', limit: 1.12 },
  { scenario: 'template', what: 'totalUs', of: 'floor', limit: 1.15 },
  { scenario: 'js', what: 'totalUs', of: 'floor', limit: 1.35 },
  { scenario: 'js', what: 'userUs', of: 'uws', limit: 0.45 },
  { scenario: 'js-x16', what: 'totalUs', of: 'floor-x16', limit: 2.0 },
  { scenario: 'js-x16', what: 'totalUs', of: 'uws-x16', limit: 0.40 },
  { scenario: 'idle', what: 'bytes', limit: 480 }
]
