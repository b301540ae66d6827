'use strict'
// The request object: what it says, and that it goes on saying it.

const { test } = require('node:test')
const assert = require('node:assert')
const { inspect } = require('node:util')
const { start, ask, exchange, connect, request, deferred, quiet, within } = require('./_client')

// The value that `read(req)` gives for one request, as JSON.
async function seen (t, read, text, options) {
  const server = await start(t, { handler: async (req) => ({ value: await read(req, server) }), ...options })
  const [response] = await exchange(server, text)
  return JSON.parse(response.body).value
}

const get = (target, lines = '') => `GET ${target} HTTP/1.1\r\nHost: test:80\r\n${lines}\r\n`
const post = (body, lines = '') => `POST / HTTP/1.1\r\nHost: test\r\nContent-Length: ${Buffer.byteLength(body, 'latin1')}\r\n${lines}\r\n${body}`
const parts = ({ method, url, path, search, host }) => ({ method, url, path, search, host })

test('target, path, search and host', async (t) => {
  const cases = {
    '/': ['/', '', 'test:80'],
    '/a/b?c=d&e': ['/a/b', '?c=d&e', 'test:80'],
    '/a?': ['/a', '', 'test:80'],
    '/a%20b/%zz?x=%zz': ['/a%20b/%zz', '?x=%zz', 'test:80'],
    '//a?b?c': ['//a', '?b?c', 'test:80'],
    'http://other:81/x?y': ['/x', '?y', 'other:81'],
    'http://other': ['/', '', 'other']
  }
  for (const [target, [path, search, host]] of Object.entries(cases)) {
    assert.deepStrictEqual(await seen(t, parts, get(target)), { method: 'GET', url: target, path, search, host })
  }
})

test('the method is as it came', async (t) => {
  const server = await start(t, { handler: (req) => req.method })
  for (const method of ['POST', 'PUT', 'PROPFIND', 'TRACE']) assert.strictEqual((await ask(server, method, '/')).body, method)
})

test('query is an URLSearchParams, the same one each time', async (t) => {
  const read = (req) => [req.query === req.query, req.query instanceof URLSearchParams, [...req.query]] // eslint-disable-line no-self-compare
  assert.deepStrictEqual(await seen(t, read, get('/?a=1&a=%202&b+c=d')), [true, true, [['a', '1'], ['a', ' 2'], ['b c', 'd']]])
})

test('headers are joined as node:http does', async (t) => {
  const lines = 'X-A: 1\r\nx-a: 2\r\nCookie: a=1\r\ncookie: b=2\r\nUser-Agent: one\r\nuser-agent: two\r\nSet-Cookie: c\r\nset-cookie: d\r\nX-Empty:\r\nX-L: \xe9\r\n__proto__: p\r\n'
  const read = (req) => [Object.entries(req.headers), req.headers === req.headers] // eslint-disable-line no-self-compare
  const [entries, isSame] = await seen(t, read, get('/', lines))
  assert.deepStrictEqual(entries, [['host', 'test:80'], ['x-a', '1, 2'], ['cookie', 'a=1; b=2'], ['user-agent', 'one'], ['set-cookie', ['c', 'd']], ['x-empty', ''], ['x-l', 'é'], ['__proto__', 'p']])
  assert.strictEqual(isSame, true)
})

test('header() finds one by any case', async (t) => {
  const lines = 'X-A: 1\r\nx-a: 2\r\nX-Empty:\r\nUser-Agent: one\r\nuser-agent: two\r\n'
  const read = (req) => ['X-A', 'x-a', 'X-EMPTY', 'user-Agent', 'nope', 'constructor', ''].map((name) => req.header(name) ?? null)
  assert.deepStrictEqual(await seen(t, read, get('/', lines)), ['1, 2', '1, 2', '', 'one', null, null, null])
})

test('rawHeaders are as they came', async (t) => {
  assert.deepStrictEqual(await seen(t, (req) => req.rawHeaders, get('/', 'x-B:  2 \r\nX-b: 3\r\n')), ['Host', 'test:80', 'x-B', '2', 'X-b', '3'])
})

test('version, protocol, address', async (t) => {
  const read = ({ httpVersion, protocol, secure, ip, port }) => [httpVersion, protocol, secure, ip, Number.isInteger(port) && port > 0]
  assert.deepStrictEqual(await seen(t, read, get('/')), ['1.1', 'http', false, '127.0.0.1', true])
  assert.deepStrictEqual((await seen(t, read, 'GET / HTTP/1.0\r\n\r\n'))[0], '1.0')
})

test('an IPv4 client of a dual-stack server has an IPv4 address', async (t) => {
  const server = await start(t, { host: undefined, handler: (req) => req.ip })
  assert.strictEqual((await ask(server, 'GET', '/')).body, '127.0.0.1')
})

test('port is the client\'s', async (t) => {
  const server = await start(t, { handler: (req) => String(req.port) })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/'))
  assert.strictEqual((await client.next()).body, String(client.socket.localPort))
})

test('a body by every way of reading it, more than once', async (t) => {
  const read = async (req) => {
    const chunks = []
    for await (const chunk of req) chunks.push(Buffer.from(chunk))
    const streamed = []
    for await (const chunk of req.stream()) streamed.push(chunk)
    const bytes = await req.bytes()
    const memory = await req.arrayBuffer()
    return [
      await req.text(), await req.json(), bytes instanceof Uint8Array, Buffer.from(bytes).toString(),
      memory instanceof ArrayBuffer, Buffer.from(memory).toString(), Buffer.concat(chunks).toString(),
      Buffer.concat(streamed).toString(), await req.web().json()
    ]
  }
  const text = '{"a":"\xc3\xa9"}' // é in UTF-8
  const value = { a: 'é' }
  const whole = JSON.stringify(value)
  assert.deepStrictEqual(await seen(t, read, post(text)), [whole, value, true, whole, true, whole, whole, whole, value])
})

test('a request without a body has an empty one', async (t) => {
  const read = async (req) => {
    let count = 0
    for await (const chunk of req) count += chunk.length + 1
    for await (const chunk of req.stream()) count += chunk.length + 1
    return [await req.text(), (await req.bytes()).length, (await req.arrayBuffer()).byteLength, count, await req.json().catch((err) => err.code)]
  }
  assert.deepStrictEqual(await seen(t, read, get('/')), ['', 0, 0, 0, 'ERR_MILLRACE_BAD_JSON'])
  assert.deepStrictEqual(await seen(t, read, post('')), ['', 0, 0, 0, 'ERR_MILLRACE_BAD_JSON'])
})

test('a chunked body arrives whole', async (t) => {
  const text = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n'
  assert.strictEqual(await seen(t, (req) => req.text(), text), 'abcde')
})

test('a body in many pieces arrives whole', async (t) => {
  const server = await start(t, { handler: (req) => req.text() })
  const client = connect(server)
  t.after(() => client.destroy())
  client.socket.setNoDelay(true)
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\n')
  for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
    client.write(letter)
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.strictEqual((await client.next()).body, 'abcdefghijklmnopqrstuvwxyz')
})

test('a large body arrives whole', async (t) => {
  const body = '0123456789abcdef'.repeat(1 << 16)
  const server = await start(t, { handler: async (req) => (await req.text()) === body ? 'same' : 'different' })
  assert.strictEqual((await ask(server, 'POST', '/', {}, body)).body, 'same')
})

test('the byte order mark is not part of the text', async (t) => {
  assert.deepStrictEqual(await seen(t, async (req) => [await req.text(), await req.json()], post('\xef\xbb\xbf[1]')), ['[1]', [1]])
})

test('bytes belong to the program: changing them disturbs nobody', async (t) => {
  const server = await start(t, {
    async handler (req) {
      const bytes = await req.bytes()
      const before = Buffer.from(bytes).toString()
      bytes.fill(0x21)
      return before
    }
  })
  const texts = ['one', 'two', 'three'].map((body) => request('POST', '/', {}, body)).join('')
  assert.deepStrictEqual((await exchange(server, texts, ['POST', 'POST', 'POST'])).map(({ body }) => body), ['one', 'two', 'three'])
})

test('web() is a Request with everything', async (t) => {
  const read = async (req) => {
    const web = req.web()
    return [web instanceof Request, web.method, web.url, web.headers.get('x-a'), await web.text()]
  }
  assert.deepStrictEqual(await seen(t, read, post('body', 'X-A: 1\r\n')), [true, 'POST', 'http://test/', '1', 'body'])
  assert.deepStrictEqual(await seen(t, read, get('/p?q')), [true, 'GET', 'http://test/p?q', null, ''])
  assert.deepStrictEqual(await seen(t, read, 'GET /p HTTP/1.0\r\n\r\n'), [true, 'GET', 'http://localhost/p', null, ''])
})

const everything = async (req) => ({
  method: req.method,
  url: req.url,
  path: req.path,
  search: req.search,
  query: [...req.query],
  params: req.params,
  headers: req.headers,
  header: req.header('X-A'),
  raw: req.rawHeaders,
  version: req.httpVersion,
  ip: req.ip,
  hasPort: req.port > 0,
  host: req.host,
  text: await req.text()
})

const EXPECTED = {
  method: 'POST',
  url: '/k/%C3%A9?q=1',
  path: '/k/%C3%A9',
  search: '?q=1',
  query: [['q', '1']],
  params: { id: 'é' },
  headers: { host: 'test', 'x-a': 'a', 'content-length': '4' },
  header: 'a',
  raw: ['Host', 'test', 'X-A', 'a', 'Content-Length', '4'],
  version: '1.1',
  ip: '127.0.0.1',
  hasPort: true,
  host: 'test',
  text: 'body'
}

test('a request that nobody read stays readable after the answer, the client and the server', async (t) => {
  const held = []
  const server = await start(t, { routes: { '/k/:id': (req) => { held.push(req); return 'x' } } })
  await ask(server, 'POST', '/k/%C3%A9?q=1', { 'X-A': 'a' }, 'body')
  // Many more requests, so that whatever memory is reused has been.
  const client = connect(server)
  for (let round = 0; round < 20; round++) {
    client.write(request('POST', '/k/other?z=2', { 'X-B': 'x'.repeat(500) }, 'more').repeat(50))
    for (let i = 0; i < 50; i++) await client.next()
  }
  client.destroy()
  assert.deepStrictEqual(await everything(held[0]), EXPECTED)
  await server.close({ deadline: 0 })
  assert.deepStrictEqual(await everything(held[0]), EXPECTED)
  assert.strictEqual((await everything(held[500])).headers['x-b'].length, 500)
})

test('a request stays readable after await', async (t) => {
  const gate = deferred()
  const server = await start(t, {
    routes: {
      '/k/:id': async (req) => {
        await gate.promise
        return everything(req)
      },
      '/open': () => { gate.resolve(); return 'open' }
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('POST', '/k/%C3%A9?q=1', { 'X-A': 'a' }, 'body'))
  assert.strictEqual((await ask(server, 'GET', '/open?something=else', { 'X-A': 'no' })).body, 'open')
  assert.deepStrictEqual(JSON.parse((await client.next()).body), EXPECTED)
})

test('a program may put properties on a request', async (t) => {
  const server = await start(t, {
    handler (req) {
      req.user = 7
      return { user: req.user, keys: Object.keys(req) }
    }
  })
  assert.deepStrictEqual(JSON.parse((await ask(server, 'GET', '/')).body), { user: 7, keys: ['user'] })
})

test('a request can be looked at', async (t) => {
  assert.match(await seen(t, (req) => inspect(req), get('/look')), /MillraceRequest.*GET.*\/look/s)
})

test('the signal fires when the client resets', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req) { came.resolve(req) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const req = await came.promise
  const { signal } = req
  assert.ok(signal instanceof AbortSignal)
  assert.strictEqual(signal, req.signal)
  assert.deepStrictEqual([signal.aborted, req.aborted], [false, false])
  const fired = new Promise((resolve) => signal.addEventListener('abort', resolve))
  client.reset()
  await within(fired, 'the signal')
  assert.deepStrictEqual([signal.aborted, req.aborted, req.path], [true, true, '/'])
})

test('the signal fires when the client closes', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req) { came.resolve(req) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const { signal } = await came.promise
  const fired = new Promise((resolve) => signal.addEventListener('abort', resolve))
  client.destroy()
  await within(fired, 'the signal')
})

test('a signal asked for after the client went has fired', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { came.resolve([req, res.finished]) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const [req, finished] = await came.promise
  client.reset()
  await finished
  assert.strictEqual(req.signal.aborted, true)
})

test('the signal stays quiet when the answer is complete before the client goes', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { came.resolve([req.signal, res.finished]); return 'x' } })
  await ask(server, 'GET', '/')
  const [signal, finished] = await came.promise
  assert.strictEqual(await finished, true)
  await ask(server, 'GET', '/')
  assert.strictEqual(signal.aborted, false)
})

test('a handler may throw what it read from a hostile request', async (t) => {
  quiet(t)
  const server = await start(t, { handler (req) { throw new Error(req.header('x')) } })
  assert.strictEqual((await ask(server, 'GET', '/', { X: '%s%d%j' })).status, 500)
})
