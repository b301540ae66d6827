'use strict'
// What a handler may return, and what that is on the wire.

const { test } = require('node:test')
const assert = require('node:assert')
const { Readable } = require('node:stream')
const { reply, param } = require('../..')
const { start, ask, quiet } = require('./_client')

const TEXT = 'text/plain; charset=utf-8'
const BYTES = 'application/octet-stream'

// Streams of more than one piece are sent piece by piece.
const STREAMED = new Set(['a Readable', 'an async generator', 'an async iterable object'])

async function * pieces () {
  yield 'one '
  yield Buffer.from('two ')
  yield new Uint8Array([0x33])
}

class Money {
  constructor (cents) {
    this.cents = cents
  }
}

const CASES = {
  'a string': [() => 'grüß', 200, TEXT, 'grüß'],
  'an empty string': [() => '', 200, TEXT, ''],
  'a Buffer': [() => Buffer.from('buf'), 200, BYTES, 'buf'],
  'a Uint8Array': [() => new Uint8Array([65, 66]), 200, BYTES, 'AB'],
  'a part of a larger memory': [() => new Uint8Array(Buffer.from('abcdef')).subarray(2, 4), 200, BYTES, 'cd'],
  'another typed array': [() => new Uint16Array([0x4241]), 200, BYTES, 'AB'],
  'a DataView': [() => new DataView(new Uint8Array([67, 68]).buffer, 1), 200, BYTES, 'D'],
  'an ArrayBuffer': [() => new Uint8Array([69]).buffer, 200, BYTES, 'E'],
  'a SharedArrayBuffer': [() => new SharedArrayBuffer(1), 200, BYTES, '\0'],
  'an object': [() => ({ a: [1, null] }), 200, 'application/json', '{"a":[1,null]}'],
  'an object without prototype': [() => Object.assign(Object.create(null), { a: 1 }), 200, 'application/json', '{"a":1}'],
  'an array': [() => [1, 'x'], 200, 'application/json', '[1,"x"]'],
  'an instance of a class': [() => new Money(5), 200, 'application/json', '{"cents":5}'],
  'something with toJSON': [() => new Date(0), 200, 'application/json', '"1970-01-01T00:00:00.000Z"'],
  null: [() => null, 204, undefined, ''],
  'null with a status of its own': [(req, res) => { res.status(404); return null }, 404, undefined, ''],
  'a promise': [async () => 'later', 200, TEXT, 'later'],
  'a promise of a promise': [async () => Promise.resolve(Promise.resolve([1])), 200, 'application/json', '[1]'],
  'a thenable': [() => ({ then: (resolve) => resolve('then') }), 200, TEXT, 'then'],
  'a string with a status': [(req, res) => { res.status(201); return 'made' }, 201, TEXT, 'made'],
  'a string with a type': [(req, res) => { res.type('html'); return '<p>' }, 200, 'text/html; charset=utf-8', '<p>'],
  'a Response': [() => new Response('web', { status: 203 }), 203, 'text/plain;charset=UTF-8', 'web'],
  'a Response without body': [() => new Response(null, { status: 204 }), 204, undefined, ''],
  'Response.json': [() => Response.json({ a: 1 }), 200, 'application/json', '{"a":1}'],
  'a Response with a stream': [async () => new Response(new Blob(['blob']).stream()), 200, undefined, 'blob'],
  'a Readable': [() => Readable.from(['a', 'b']), 200, BYTES, 'ab'],
  'a ReadableStream': [() => new Blob(['web stream']).stream(), 200, BYTES, 'web stream'],
  'an async generator': [() => pieces(), 200, BYTES, 'one two 3'],
  'an async iterable object': [() => ({ [Symbol.asyncIterator]: pieces }), 200, BYTES, 'one two 3'],
  'an empty stream': [() => Readable.from([]), 200, BYTES, ''],
  'a fixed reply': [() => reply({ status: 202, body: 'kept' }), 202, TEXT, 'kept'],
  'a reply with placeholders': [() => reply`<${param('id')}>`, 200, TEXT, '<7>']
}

for (const [name, [handler, status, type, body]] of Object.entries(CASES)) {
  test(`a handler returns ${name}`, async (t) => {
    const server = await start(t, { routes: { '/:id': handler } })
    const response = await ask(server, 'GET', '/7')
    assert.strictEqual(response.status, status)
    assert.strictEqual(response.headers['content-type'], type)
    assert.strictEqual(response.body, body)
    const isStreamed = STREAMED.has(name)
    assert.strictEqual(response.headers['transfer-encoding'], isStreamed ? 'chunked' : undefined)
    assert.strictEqual(response.headers['content-length'], status === 204 || isStreamed ? undefined : String(Buffer.byteLength(body)))
  })
}

const REFUSED = {
  'a number': () => 5,
  true: () => true,
  'a bigint': () => 5n,
  'a symbol': () => Symbol('s'),
  'a function': () => () => {},
  'a Map': () => new Map(),
  'an Error': () => new Error('returned'),
  'a promise of a number': async () => 5,
  'a stream of numbers': () => Readable.from([1]),
  'a Response that was read': async () => {
    const response = new Response('x')
    await response.text()
    return response
  },
  'a network error': () => Response.error(),
  'a stream that fails': () => new Readable({ read () { this.destroy(new Error('disk')) } }),
  'what JSON refuses': () => ({ n: 1n }),
  'a hostile object': () => new Proxy({}, { get () { throw new Error('trap') } }),
  'a thenable that throws': () => ({ get then () { throw new Error('getter') } }),
  'a thenable that rejects': () => ({ then: (resolve, reject) => reject(new Error('no')) })
}

for (const [name, handler] of Object.entries(REFUSED)) {
  test(`a handler returns ${name}: an error`, async (t) => {
    const lines = quiet(t)
    const server = await start(t, { routes: { '/': handler, '/ok': () => 'ok' } })
    const response = await ask(server, 'GET', '/')
    assert.strictEqual(response.status, 500)
    assert.strictEqual(response.body, 'Internal Server Error')
    assert.strictEqual(lines.length, 1)
    assert.strictEqual((await ask(server, 'GET', '/ok')).body, 'ok')
  })
}

test('a returned number has a code of its own in the error hook', async (t) => {
  const server = await start(t, { routes: { '/': () => 5 }, error: (err) => err.code })
  const response = await ask(server, 'GET', '/')
  assert.strictEqual(response.status, 500)
  assert.strictEqual(response.body, 'ERR_MILLRACE_RETURN')
})

test('a Response keeps its headers, cookies on lines of their own', async (t) => {
  const server = await start(t, {
    handler () {
      const headers = new Headers({ 'x-one': '1' })
      headers.append('set-cookie', 'a=1')
      headers.append('set-cookie', 'b=2')
      return new Response('x', { status: 418, headers })
    }
  })
  const response = await ask(server, 'GET', '/')
  assert.strictEqual(response.status, 418)
  assert.strictEqual(response.headers['x-one'], '1')
  assert.deepStrictEqual(response.lines.filter((line) => line.startsWith('set-cookie')), ['set-cookie: a=1', 'set-cookie: b=2'])
})

test('a Response comes on top of what was set on res', async (t) => {
  const server = await start(t, {
    handler (req, res) {
      res.header('X-Before', 'yes')
      return new Response('x')
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/')).headers['x-before'], 'yes')
})

test('undefined means that res will be used', async (t) => {
  const server = await start(t, {
    routes: {
      '/now': (req, res) => { res.send('now') },
      '/later': (req, res) => { setImmediate(() => res.send('later')) },
      '/awaited': async (req, res) => {
        await null
        res.send('awaited')
      },
      '/chain': (req, res) => res.status(201).send('chain'),
      '/async-chain': async (req, res) => res.json([1])
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/now')).body, 'now')
  assert.strictEqual((await ask(server, 'GET', '/later')).body, 'later')
  assert.strictEqual((await ask(server, 'GET', '/awaited')).body, 'awaited')
  assert.strictEqual((await ask(server, 'GET', '/chain')).status, 201)
  assert.strictEqual((await ask(server, 'GET', '/async-chain')).body, '[1]')
})

test('a large answer arrives whole', async (t) => {
  const large = '0123456789abcdef'.repeat(1 << 17)
  const server = await start(t, { routes: { '/text': () => large, '/bytes': () => Buffer.from(large) } })
  for (const path of ['/text', '/bytes']) {
    const response = await ask(server, 'GET', path)
    assert.ok(response.body === large, `${path} differs`)
  }
})
