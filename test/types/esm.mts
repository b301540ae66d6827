// The API as an ES module uses it. Lines under @ts-expect-error have to be refused.

import { Readable } from 'node:stream'
import { serve, launch, bus, self, reply, param, query, header, template, probe, version, MillraceError } from 'millrace'
import type { Handler, MillraceRequest, MillraceResponse, Server, Template, Reply, Probe, ErrorCode, ParamsOf } from 'millrace'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
const holds = <T extends true>(): T => true as T

holds<Same<ParamsOf<'/a/:b/c/:d'>, { b: string, d: string }>>()
holds<Same<ParamsOf<'POST /a/:b/*'>, { b: string, '*': string }>>()
holds<Same<ParamsOf<string>, Record<string, string>>>()

const list: Handler = () => [1, 2]
const create: Handler = async (req, res) => {
  const value = await req.json<{ name: string }>()
  res.status(201)
  return { created: value.name }
}

const server: Server = await serve({
  port: process.env['PORT'],
  host: '127.0.0.1',
  backlog: 10,
  threads: 1,
  engine: 'native',
  limits: { headerBytes: 1024, headerCount: 1, targetBytes: 16, bodyBytes: 0, connections: 0, requestsPerConnection: 0, outgoingBytes: 4096 },
  timeouts: { header: 1, body: 1, keepAlive: 1, send: 1, linger: 0 },
  routes: {
    '/': 'Hello, World!',
    '/health': reply({ status: 204 }),
    '/user/:id': reply`${param('id')}`,
    '/hello': reply.json`{"hi":${query('name', 'you')}}`,
    '/agent': reply.html`<p>${header('user-agent', 'none')} ${1} ${'text'}</p>`,
    '/typed': reply({ status: 203, headers: { 'Content-Type': 'text/csv' } })`${query('q')}`,
    '/constant': reply({ headers: [['Set-Cookie', 'a'], ['Set-Cookie', 'b']], body: { a: 1 } }),
    '/orders/:id': (req) => ({ id: req.params.id.toUpperCase() }),
    '/files/:kind/*': (req) => req.params.kind + req.params['*'],
    'PUT /orders/:id': async (req, res) => res.status(201).json(req.params.id),
    '/things': { GET: list, POST: create, DELETE: 'text', OPTIONS: reply({}) },
    '/things/:thing': { GET: (req) => req.params.thing },
    '/upload/:name': { POST: (req) => req.params.name, limits: { bodyBytes: 1 << 30 } },
    'POST /vote/:poll': { handler: (req) => req.params.poll, limits: { bodyBytes: 16 } },
    '/plain': { PUT: create, limits: {} }
  },
  handler (req, res) {
    res.type('html').send(req.params['any'] ?? '')
  },
  error (err, req, res) {
    if (err instanceof MillraceError) {
      const code: ErrorCode = err.code
      res.status(err.status ?? 500)
      return code
    }
    return `${req.method} failed`
  }
})

const returned: Handler[] = [
  () => 'text',
  () => Buffer.from('x'),
  () => new Uint8Array(1).buffer,
  () => ({ a: 1 }),
  () => [1],
  () => null,
  () => undefined,
  () => {},
  () => new Response('x'),
  () => Readable.from(['x']),
  () => new Blob(['x']).stream(),
  async function () { return 'x' },
  async () => {},
  (req, res) => res.send('x'),
  (req, res) => res.status(204),
  () => reply({ status: 204 }),
  (req) => req
]
void returned

async function request (req: MillraceRequest<{ id: string }>): Promise<void> {
  const texts: string[] = [req.method, req.url, req.path, req.search, req.ip, req.protocol, req.host, req.httpVersion, req.params.id, await req.text()]
  const maybe: Array<string | undefined> = [req.header('x'), req.headers['x'], req.query.get('x') ?? undefined]
  const cookies: string[] | undefined = req.headers['set-cookie']
  const flags: boolean[] = [req.secure, req.aborted, req.signal.aborted]
  const port: number = req.port
  const bytes: Uint8Array = await req.bytes()
  const memory: ArrayBuffer = await req.arrayBuffer()
  const stream: Readable = req.stream()
  const web: Request = req.web()
  for await (const chunk of req) bytes.set(chunk)
  void [texts, maybe, cookies, flags, port, memory, stream, web, req.rawHeaders]
  // @ts-expect-error not a param of this route
  void req.params.name
  // @ts-expect-error read only
  req.method = 'GET'
}
void request

async function response (res: MillraceResponse, made: Template, fixed: Reply): Promise<void> {
  res.status(200).header('a', 'b').header('a', 1).header('a', ['b', 2]).headers({ a: 'b', c: ['d'] }).headers(new Headers()).headers(new Map([['a', 'b']])).type('json')
  const sent: boolean[] = [res.send(), res.send('x'), res.send(null), res.send({ a: 1 }), res.end('x'), res.json(5), res.redirect('/', 301), res.redirect(new URL('http://a')), res.reply(made, 'x'), res.reply(made), res.reply(fixed), res.sent]
  const finished: boolean = await res.finished
  void [sent, finished]
  // @ts-expect-error a number is no body
  res.send(5)
  // @ts-expect-error a reply has its own body
  res.reply(fixed, 'x')
  // @ts-expect-error no value
  res.header('a')
}
void response

const made: Template = template({ status: 201, headers: { a: 'b' } })
const found: Probe = probe()
const text: string = version + found.engine + found.versions.node + (found.reason ?? '') + String(made.status)
void text

server.reload({ routes: { '/:a': (req) => req.params.a }, handler: null })
await server.close({ deadline: 0 })
await server.close()
void [server.url, server.port, server.host, server.engine]

// @ts-expect-error unknown option
void serve({ prot: 1 })
// @ts-expect-error unknown limit
void serve({ limits: { headerbytes: 1 } })
// @ts-expect-error not a route
void serve({ routes: { '/': 5 } })
// @ts-expect-error unknown method
void serve({ routes: { '/': { FETCH: 'x' } } })
// @ts-expect-error unknown limit of a route
void serve({ routes: { '/': { POST: list, limits: { bodyByte: 1 } } } })
// @ts-expect-error a limit is a number
void serve({ routes: { '/': { POST: list, limits: { bodyBytes: '1' } } } })
// @ts-expect-error either a handler or methods
void serve({ routes: { '/': { POST: list, handler: list } } })
// @ts-expect-error a number is no answer
void serve({ handler: () => 5 })
// @ts-expect-error no such number of threads
void serve({ threads: 'all' })
// @ts-expect-error this reply has a body and is no tag
void reply({ body: 'x' })`y`
// @ts-expect-error a template is not a route
void serve({ routes: { '/': template() } })
// @ts-expect-error a fallback is a text
void query('x', 5)
// @ts-expect-error made by the package only
void new MillraceError()

// ---- fleets ----

const fleet = await launch(new URL('./app.mjs', import.meta.url), { threads: 'auto', balance: 'least', admin: { port: 0 } })
fleet.on('down', (thread, reason) => { console.log(thread + 1, reason) })
const status: 'ok' | 'degraded' | 'down' = fleet.health().status
await fleet.reload({ deadline: 1000 })
const several = await serve({ threads: 2, fleet: { select: (peer) => peer.port % 2 }, metrics: '/metrics', limits: { rate: { perSecond: 10, key: 'header:x-api-key' } } })
const scrape: string = several.metrics()
const one: Server = await serve({ threads: 1, routes: { '/few': { GET: () => 'x', limits: { concurrency: 2, queue: 10 } } } })
bus.on('sum', ([a, b], { from }) => a + b + (from === 'main' ? 0 : from))
const sum: number = await bus.call(0, 'sum', [1, 2], { timeout: 100 })
const posted: boolean = bus.post('all', 'sum', [1, 2])
// @ts-expect-error
bus.post('everybody', 'sum')
// @ts-expect-error
await launch('./app.mjs', { balance: 'fair' })
export const shown = [status, scrape, one, sum, posted, self.index]
