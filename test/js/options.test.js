'use strict'
// The options of serve(): defaults, bounds, and what is said about mistakes.

const { test } = require('node:test')
const assert = require('node:assert')
const net = require('node:net')
const { once } = require('node:events')
const { serve, MillraceError } = require('../..')
const { start, ask } = require('./_client')

async function faultOf (options) {
  const server = await serve(options).catch((err) => err)
  if (server instanceof Error) return server
  await server.close({ deadline: 0 })
  return undefined
}

const local = { port: 0, host: '127.0.0.1' }

// [path, least, most]
const BOUNDS = [
  ['limits.headerBytes', 1024, 65535],
  ['limits.headerCount', 1, 1000],
  ['limits.targetBytes', 16, 65535],
  ['limits.bodyBytes', 0, 2147483647],
  ['limits.connections', 0, 2147483647],
  ['limits.requestsPerConnection', 0, 2147483647],
  ['limits.outgoingBytes', 4096, 536870911],
  ['timeouts.header', 0, 2147483647],
  ['timeouts.body', 0, 2147483647],
  ['timeouts.keepAlive', 0, 2147483647],
  ['timeouts.send', 0, 2147483647],
  ['timeouts.linger', 0, 60000],
  ['backlog', 1, 65535]
]

function nested (path, value) {
  const [group, name] = path.split('.')
  return name === undefined ? { ...local, [group]: value } : { ...local, [group]: { [name]: value } }
}

for (const [path, least, most] of BOUNDS) {
  test(`${path}: from ${least} to ${most}`, async () => {
    for (const value of [least, most, undefined]) {
      assert.strictEqual(await faultOf(nested(path, value)), undefined, String(value))
    }
    for (const value of [least - 1, most + 1, 1.5, NaN, Infinity, String(least), null, {}, true]) {
      const err = await faultOf(nested(path, value))
      assert.ok(err instanceof RangeError, `${path}: ${String(value)}`)
      assert.ok(err instanceof MillraceError)
      assert.strictEqual(err.code, 'ERR_MILLRACE_OPTION_RANGE')
      assert.ok(err.message.includes(path), err.message)
      assert.ok(err.message.includes(String(least)) && err.message.includes(String(most)), err.message)
    }
  })
}

test('port: 0 to 65535, also as text', async () => {
  for (const port of [-1, 65536, 1.5, '', 'http', '80x', '99999', null, {}]) {
    const err = await faultOf({ ...local, port })
    assert.ok(err instanceof RangeError, String(port))
    assert.match(err.message, /port/)
  }
  assert.strictEqual(await faultOf({ ...local, port: '0' }), undefined)
})

const MISTAKES = [
  [5, 'ERR_MILLRACE_OPTION', /object/],
  [null, 'ERR_MILLRACE_OPTION', /object/],
  [[], 'ERR_MILLRACE_OPTION', /object/],
  [{ prot: 80 }, 'ERR_MILLRACE_OPTION', /prot\..*Did you mean port\?/],
  [{ route: {} }, 'ERR_MILLRACE_OPTION', /Did you mean routes\?/],
  [{ fetch () {} }, 'ERR_MILLRACE_OPTION', /Did you mean handler\?/],
  [{ onError () {} }, 'ERR_MILLRACE_OPTION', /Did you mean error\?/],
  [{ zzzzzzzz: 1 }, 'ERR_MILLRACE_OPTION', /zzzzzzzz\. /],
  [{ limits: { headerbytes: 5 } }, 'ERR_MILLRACE_OPTION', /Did you mean headerBytes\?/],
  [{ limits: 5 }, 'ERR_MILLRACE_OPTION', /limits/],
  [{ timeouts: null }, 'ERR_MILLRACE_OPTION', /timeouts/],
  [{ timeouts: { headers: 5 } }, 'ERR_MILLRACE_OPTION', /Did you mean header\?/],
  [{ host: 5 }, 'ERR_MILLRACE_OPTION', /host/],
  [{ host: '' }, 'ERR_MILLRACE_OPTION', /host/],
  [{ host: 'a b' }, 'ERR_MILLRACE_OPTION', /host/],
  [{ host: '127.0.0.1', hostname: '::1' }, 'ERR_MILLRACE_OPTION', /hostname/],
  [{ routes: [] }, 'ERR_MILLRACE_OPTION', /routes/],
  [{ routes: 'x' }, 'ERR_MILLRACE_OPTION', /routes/],
  [{ handler: 'x' }, 'ERR_MILLRACE_OPTION', /handler/],
  [{ error: {} }, 'ERR_MILLRACE_OPTION', /error/],
  [{ engine: 'v8' }, 'ERR_MILLRACE_OPTION', /engine/],
  [{ threads: 65 }, 'ERR_MILLRACE_OPTION_RANGE', /threads/],
  [{ threads: 1.5 }, 'ERR_MILLRACE_OPTION_RANGE', /threads/],
  [{ metrics: 'metrics' }, 'ERR_MILLRACE_OPTION', /metrics/],
  [{ metrics: '/x', health: '/x' }, 'ERR_MILLRACE_OPTION', /health/],
  [{ limits: { rate: { perSecond: 0 } } }, 'ERR_MILLRACE_OPTION_RANGE', /perSecond/],
  [{ limits: { rate: { perSecond: 1, key: 'cookie' } } }, 'ERR_MILLRACE_OPTION', /key/],
  [{ limits: { rate: { perSecond: 1, entries: 100 } } }, 'ERR_MILLRACE_OPTION_RANGE', /power of two/],
  [{ overload: { lag: 0 } }, 'ERR_MILLRACE_OPTION_RANGE', /overload\.lag/],
  [{ accessLog: { format: 'combined' } }, 'ERR_MILLRACE_OPTION', /path or an fd/],
  [{ accessLog: { path: '/x', format: 'apache' } }, 'ERR_MILLRACE_OPTION', /format/],
  [{ threads: 0 }, 'ERR_MILLRACE_OPTION_RANGE', /threads/],
  [{ threads: 'all' }, 'ERR_MILLRACE_OPTION_RANGE', /threads/],
]

for (const [given, code, message] of MISTAKES) {
  test(`a mistake is named: ${JSON.stringify(given)}`, async () => {
    const options = given !== null && typeof given === 'object' && !Array.isArray(given) ? { ...(given.host === undefined && local), ...given } : given
    const err = await faultOf(options)
    assert.ok(err instanceof MillraceError, String(err))
    assert.strictEqual(err.code, code)
    assert.match(err.message, message)
  })
}

test('threads: 1 is this thread', async () => {
  assert.strictEqual(await faultOf({ ...local, threads: 1 }), undefined)
})

test('hostname is host', async (t) => {
  const server = await start(t, { host: undefined, hostname: '127.0.0.1' })
  assert.strictEqual(server.host, '127.0.0.1')
})

test('the server says where it is', async (t) => {
  const server = await start(t, { host: '0.0.0.0', routes: { '/': 'x' } })
  assert.ok(Number.isInteger(server.port) && server.port > 0)
  assert.strictEqual(server.url, `http://127.0.0.1:${server.port}`)
  assert.ok(server.engine === 'native' || server.engine === 'node')
  const standard = await start(t, { host: undefined, routes: { '/': 'x' } })
  assert.strictEqual(standard.url, `http://127.0.0.1:${standard.port}`)
  assert.strictEqual((await ask(standard, 'GET', '/')).body, 'x')
})

test('localhost is a host', async (t) => {
  const server = await start(t, { host: 'localhost', routes: { '/': 'x' } })
  assert.strictEqual(server.url, `http://localhost:${server.port}`)
  assert.strictEqual(await (await fetch(server.url)).text(), 'x')
})

test('a busy port is named, with what to do', async (t) => {
  const other = net.createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  const { port } = other.address()
  const err = await faultOf({ port, host: '127.0.0.1' })
  assert.strictEqual(err.code, 'ERR_MILLRACE_PORT_IN_USE')
  assert.ok(err.message.includes(String(port)))
  assert.strictEqual(err.cause.code, 'EADDRINUSE')
})

test('a host that is not this machine\'s is named', async () => {
  const err = await faultOf({ port: 0, host: '192.0.2.1' }) // an address for documentation
  assert.strictEqual(err.code, 'ERR_MILLRACE_LISTEN')
  assert.ok(err.message.includes('192.0.2.1'))
})

test('the options are not changed and may be frozen', async () => {
  const options = Object.freeze({ ...local, limits: Object.freeze({ headerBytes: 2048 }), routes: Object.freeze({ '/': 'x' }) })
  assert.strictEqual(await faultOf(options), undefined)
})

test('MILLRACE_ENGINE with another value is an error', async (t) => {
  const before = process.env.MILLRACE_ENGINE
  t.after(() => { if (before === undefined) delete process.env.MILLRACE_ENGINE; else process.env.MILLRACE_ENGINE = before })
  process.env.MILLRACE_ENGINE = 'fast'
  const err = await faultOf(local)
  assert.strictEqual(err.code, 'ERR_MILLRACE_OPTION')
  assert.match(err.message, /MILLRACE_ENGINE/)
  assert.strictEqual(await faultOf({ ...local, engine: 'node' }), undefined)
})
