'use strict'
// What connections carry: order, limits, reload and the end of a server.

const { test } = require('node:test')
const assert = require('node:assert')
const { once } = require('node:events')
const { Worker } = require('node:worker_threads')
const { AsyncLocalStorage } = require('node:async_hooks')
const { serve, reply, param } = require('../..')
const { start, connect, exchange, ask, request, deferred, quiet } = require('./_client')

// ---- order ----

test('pipelined answers keep the order of requests when the first is the slowest', async (t) => {
  const gate = deferred()
  const server = await start(t, {
    routes: {
      '/slow': async () => {
        await gate.promise
        return 'slow'
      },
      '/fast': () => { setImmediate(gate.resolve); return 'fast' },
      '/fixed': 'fixed',
      '/t/:id': reply`${param('id')}`
    }
  })
  const text = ['/slow', '/fixed', '/fast', '/t/1', '/none'].map((path) => request('GET', path)).join('')
  const responses = await exchange(server, text, Array(5).fill('GET'))
  assert.deepStrictEqual(responses.map(({ body }) => body), ['slow', 'fixed', 'fast', '1', 'Not Found'])
})

test('answers given in reverse leave in order', async (t) => {
  const waiting = []
  const server = await start(t, {
    handler (req, res) {
      waiting.push(res)
      if (waiting.length === 10) waiting.reverse().forEach((each, i) => each.send(String(9 - i)))
    }
  })
  const responses = await exchange(server, request('GET', '/').repeat(10), Array(10).fill('GET'))
  assert.deepStrictEqual(responses.map(({ body }) => body), ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
})

test('many pipelined requests of many connections', async (t) => {
  const server = await start(t, { routes: { '/n/:n': (req) => req.params.n, '/a/:n': async (req) => req.params.n } })
  await Promise.all(Array.from({ length: 10 }, async (_, c) => {
    const text = Array.from({ length: 100 }, (_, i) => request('GET', `/${i % 2 ? 'n' : 'a'}/${c}-${i}`)).join('')
    const responses = await exchange(server, text, Array(100).fill('GET'))
    responses.forEach(({ body }, i) => assert.strictEqual(body, `${c}-${i}`))
  }))
})

test('a request in single bytes is a request', async (t) => {
  const server = await start(t, { handler: (req) => `${req.path} ${req.header('x-a')}` })
  const client = connect(server)
  t.after(() => client.destroy())
  client.socket.setNoDelay(true)
  for (const byte of request('GET', '/slow', { 'X-A': 'y' })) {
    client.write(byte)
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.strictEqual((await client.next()).body, '/slow y')
})

test('promise jobs and ticks run as they do elsewhere', async (t) => {
  const server = await start(t, {
    handler (req, res) {
      const order = []
      Promise.resolve().then(() => order.push('job'))
      process.nextTick(() => order.push('tick'))
      setImmediate(() => res.send(order.join()))
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'tick,job')
})

test('the async context of one request does not reach the next', async (t) => {
  const storage = new AsyncLocalStorage()
  const server = await start(t, {
    handler: async (req) => {
      const before = storage.getStore() ?? 'none'
      storage.enterWith(req.path)
      await null
      return `${before} ${storage.getStore()}`
    }
  })
  const responses = await exchange(server, ['/a', '/b', '/c'].map((path) => request('GET', path)).join(''), Array(3).fill('GET'))
  // On node:http a connection's requests share a context; there it is the connection's own business.
  const expected = server.engine === 'native' ? ['none /a', 'none /b', 'none /c'] : responses.map(({ body }) => body)
  assert.deepStrictEqual(responses.map(({ body }) => body), expected)
  responses.forEach(({ body }, i) => assert.strictEqual(body.split(' ')[1], ['/a', '/b', '/c'][i]))
})

// ---- persistence ----

test('Connection: close is obeyed, FIN right behind', async (t) => {
  const server = await start(t, { routes: { '/': () => 'x', '/fixed': 'y' } })
  for (const path of ['/', '/fixed', '/none']) {
    const client = connect(server)
    client.write(request('GET', path, { Connection: 'close' }))
    const response = await client.next()
    assert.strictEqual(response.lines.at(-1), 'Connection: close', path)
    assert.strictEqual(await client.ended(), '')
    client.destroy()
  }
})

test('HTTP/1.0: closes unless told to keep', async (t) => {
  const server = await start(t, { handler: () => 'x' })
  const client = connect(server)
  client.write('GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n')
  assert.strictEqual((await client.next()).lines.at(-1), 'Connection: keep-alive')
  client.write('GET / HTTP/1.0\r\n\r\n')
  assert.strictEqual((await client.next()).lines.at(-1), 'Connection: close')
  assert.strictEqual(await client.ended(), '')
  client.destroy()
})

test('a client that shuts its side after the request gets its answer', async (t) => {
  const server = await start(t, { handler: async () => { await new Promise((resolve) => setImmediate(resolve)); return 'late' } })
  const client = connect(server)
  client.write(request('GET', '/'))
  client.end()
  assert.strictEqual((await client.next()).body, 'late')
  assert.strictEqual(await client.ended(), '')
})

test('a client that leaves in the middle of a request disturbs nobody', async (t) => {
  const server = await start(t, { handler: (req) => req.text() })
  for (const text of ['G', 'GET / HTTP/1.1\r\nHo', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc']) {
    const client = connect(server)
    await once(client.socket, 'connect')
    client.write(text)
    client.end()
    await client.ended()
    client.destroy()
  }
  assert.strictEqual((await ask(server, 'POST', '/', {}, 'fine')).body, 'fine')
})

test('Expect: 100-continue is answered before the body', async (t) => {
  const server = await start(t, { handler: (req) => req.text() })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n')
  assert.strictEqual((await client.next()).status, 100)
  client.write('body')
  assert.strictEqual((await client.next()).body, 'body')
})

// ---- limits ----

// The response to raw bytes that the server has to refuse, after which it closes.
async function refused (server, text) {
  const client = connect(server)
  try {
    client.write(text)
    const response = await client.next()
    assert.strictEqual(response.lines.at(-1), 'Connection: close')
    assert.strictEqual(response.headers['content-type'], 'text/plain; charset=utf-8')
    assert.ok(response.line.endsWith(response.body), response.body)
    client.end()
    assert.strictEqual(await client.ended(), '')
    return response.status
  } finally {
    client.destroy()
  }
}

test('a malformed request is 400, and ends the connection', async (t) => {
  const server = await start(t, { handler: () => 'x' })
  for (const text of ['nonsense\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n']) {
    assert.strictEqual(await refused(server, text), 400, text)
  }
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'x')
})

test('requests before a malformed one are answered first', async (t) => {
  const server = await start(t, { handler: async () => { await new Promise((resolve) => setImmediate(resolve)); return 'x' } })
  const responses = await exchange(server, `${request('GET', '/').repeat(2)}nonsense\r\n\r\n`, Array(3).fill('GET'))
  assert.deepStrictEqual(responses.map(({ status }) => status), [200, 200, 400])
})

test('limits.targetBytes: at it 200, past it 414', async (t) => {
  const server = await start(t, { limits: { targetBytes: 100 }, handler: () => 'x' })
  assert.strictEqual((await ask(server, 'GET', `/${'a'.repeat(99)}`)).status, 200)
  assert.strictEqual(await refused(server, request('GET', `/${'a'.repeat(100)}`)), 414)
})

test('limits.headerCount: at it 200, past it 431', async (t) => {
  const server = await start(t, { limits: { headerCount: 10 }, handler: (req) => String(req.rawHeaders.length) })
  const lines = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`X-${i}`, i]))
  assert.strictEqual((await ask(server, 'GET', '/', lines(9))).body, '20')
  assert.strictEqual(await refused(server, request('GET', '/', lines(10))), 431)
})

test('limits.headerBytes: at it 200, past it 431', async (t) => {
  const server = await start(t, { limits: { headerBytes: 2000 }, handler: () => 'x' })
  const head = (bytes) => {
    const rest = request('GET', '/', { X: '' })
    return request('GET', '/', { X: 'a'.repeat(bytes - rest.length) })
  }
  assert.strictEqual(head(2000).length, 2000)
  const [response] = await exchange(server, head(2000))
  assert.strictEqual(response.status, 200)
  assert.strictEqual(await refused(server, head(2001)), 431)
  assert.strictEqual(await refused(server, head(30000)), 431)
})

test('limits.bodyBytes: at it the handler gets all, past it 413', async (t) => {
  const seen = []
  const server = await start(t, {
    limits: { bodyBytes: 1000 },
    async handler (req) {
      seen.push(await req.bytes().then(({ length }) => length, ({ code }) => code))
      return String(seen.at(-1))
    }
  })
  assert.strictEqual((await ask(server, 'POST', '/', {}, 'x'.repeat(1000))).body, '1000')
  assert.strictEqual(await refused(server, request('POST', '/', {}, 'x'.repeat(1001))), 413)
  const chunk = `1f4\r\n${'x'.repeat(500)}\r\n`
  const chunked = (count) => `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(count)}0\r\n\r\n`
  assert.strictEqual((await exchange(server, chunked(2)))[0].body, '1000')
  assert.strictEqual(await refused(server, chunked(3)), 413)
  // Of the one whose head says it, the handler does not even hear.
  assert.deepStrictEqual(seen, [1000, 1000, 'ERR_MILLRACE_BODY_TOO_LARGE'])
})

test('a body that is too long is refused before it is asked for', async (t) => {
  const server = await start(t, { limits: { bodyBytes: 10 }, handler: () => 'x' })
  assert.strictEqual(await refused(server, 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n'), 413)
})

test('limits.requestsPerConnection: the last answer says close', async (t) => {
  const server = await start(t, { limits: { requestsPerConnection: 3 }, handler: () => 'x' })
  const client = connect(server)
  client.write(request('GET', '/').repeat(4))
  assert.strictEqual((await client.next()).headers.connection, undefined)
  assert.strictEqual((await client.next()).headers.connection, undefined)
  assert.strictEqual((await client.next()).headers.connection, 'close')
  client.end()
  assert.strictEqual(await client.ended(), '')
  client.destroy()
})

test('limits.connections: the one too many gets 503, and a freed place is free', async (t) => {
  const server = await start(t, { limits: { connections: 2 }, handler: () => 'x' })
  const clients = [connect(server), connect(server)]
  for (const client of clients) {
    client.write(request('GET', '/'))
    await client.next()
  }
  const extra = connect(server)
  extra.write(request('GET', '/'))
  assert.match(await extra.ended(), /^HTTP\/1\.1 503 /)
  extra.destroy()
  clients[0].end()
  await clients[0].ended()
  // The place is free when the server has seen the end; until then 503 is right.
  for (;;) {
    const client = connect(server)
    client.write(request('GET', '/'))
    const response = await client.next()
    client.destroy()
    if (response.status === 200) break
    assert.strictEqual(response.status, 503)
  }
  clients[1].destroy()
})

test('timeouts.header: 408 and the end', async (t) => {
  const server = await start(t, { timeouts: { header: 200 }, handler: () => 'x' })
  const client = connect(server)
  client.write('GET / HTTP/1.1\r\nHost: x\r\n')
  assert.strictEqual((await client.next()).status, 408)
  client.end()
  await client.ended()
  client.destroy()
})

test('timeouts.keepAlive: an idle connection is closed', async (t) => {
  const server = await start(t, { timeouts: { keepAlive: 100 }, handler: () => 'x' })
  const client = connect(server)
  client.write(request('GET', '/'))
  assert.strictEqual((await client.next()).headers.connection, undefined)
  assert.strictEqual(await client.ended(), '')
  client.destroy()
})

// ---- reload ----

test('reload swaps the table between requests', async (t) => {
  const server = await start(t, { routes: { '/': 'one', '/old': 'old' }, handler: () => 'handler one' })
  const client = connect(server)
  t.after(() => client.destroy())
  const body = async (path) => {
    client.write(request('GET', path))
    return (await client.next()).body
  }
  assert.deepStrictEqual([await body('/'), await body('/old'), await body('/x')], ['one', 'old', 'handler one'])
  server.reload({ routes: { '/': () => 'two', '/new/:id': reply`${param('id')}` } })
  assert.deepStrictEqual([await body('/'), await body('/old'), await body('/new/5')], ['two', 'handler one', '5'])
  server.reload({ handler: () => 'handler two' })
  assert.deepStrictEqual([await body('/'), await body('/x')], ['two', 'handler two'])
  server.reload({ handler: null })
  assert.strictEqual(await body('/x'), 'Not Found')
})

test('a request finishes by the table that it started with', async (t) => {
  const gate = deferred()
  const came = deferred()
  const server = await start(t, {
    routes: {
      '/:old': async (req) => {
        came.resolve()
        await gate.promise
        return req.params
      }
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/value'))
  await came.promise
  server.reload({ routes: { '/:new/*': () => 'new' } })
  gate.resolve()
  assert.strictEqual((await client.next()).body, '{"old":"value"}')
})

test('the error hook can be reloaded', async (t) => {
  const server = await start(t, { handler () { throw new Error('x') }, error: () => 'one' })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'one')
  server.reload({ error: () => 'two' })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'two')
})

test('reload during traffic: every answer is of one table or the next', async (t) => {
  const routes = (n) => ({ '/fixed': `${n}`, '/js': () => `${n}`, '/t': reply`${n}` })
  const server = await start(t, { routes: routes(0) })
  let isOver = false
  const traffic = Promise.all(['/fixed', '/js', '/t'].map(async (path) => {
    const client = connect(server)
    let last = 0
    while (!isOver) {
      client.write(request('GET', path).repeat(5))
      for (let i = 0; i < 5; i++) {
        const response = await client.next()
        assert.strictEqual(response.status, 200)
        assert.ok(Number(response.body) >= last, `${path}: ${response.body} after ${last}`)
        last = Number(response.body)
      }
    }
    client.destroy()
    return last
  }))
  for (let n = 1; n <= 30; n++) {
    server.reload({ routes: routes(n) })
    await new Promise((resolve) => setImmediate(resolve))
  }
  await ask(server, 'GET', '/fixed')
  isOver = true
  await traffic
  assert.strictEqual((await ask(server, 'GET', '/js')).body, '30')
})

test('a bad reload throws and changes nothing', async (t) => {
  const server = await start(t, { routes: { '/': 'one' } })
  const cases = [
    [{ routes: { 'bad': 'x' } }, 'ERR_MILLRACE_ROUTE'],
    [{ routes: { '/': 'two', '/a*': 'x' } }, 'ERR_MILLRACE_ROUTE'],
    [{ handler: 5 }, 'ERR_MILLRACE_OPTION'],
    [{ port: 1 }, 'ERR_MILLRACE_OPTION'],
    [undefined, 'ERR_MILLRACE_OPTION']
  ]
  for (const [partial, code] of cases) assert.throws(() => server.reload(partial), { code })
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'one')
})

// ---- close ----

test('close lets what runs finish, and accepts no more', async (t) => {
  const gate = deferred()
  const came = deferred()
  const server = await start(t, { handler: async () => { came.resolve(); await gate.promise; return 'finished' } })
  const busy = connect(server)
  busy.write(request('GET', '/'))
  const idle = connect(server)
  await once(idle.socket, 'connect')
  await came.promise
  let isClosed = false
  const closed = server.close().then(() => { isClosed = true })
  assert.strictEqual(await idle.ended(), '')
  idle.destroy()
  const late = connect(server)
  assert.strictEqual(await late.ended(), '')
  assert.strictEqual(isClosed, false)
  gate.resolve()
  const response = await busy.next()
  assert.deepStrictEqual([response.body, response.headers.connection], ['finished', 'close'])
  busy.end()
  await closed
})

test('close is idempotent', async () => {
  const server = await serve({ port: 0, host: '127.0.0.1' })
  const first = server.close()
  const second = server.close({ deadline: 5000 })
  await Promise.all([first, second, server.close()])
  await server.close()
  assert.throws(() => server.reload({}), { code: 'ERR_MILLRACE_CLOSED' })
})

test('the deadline ends what does not finish', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { came.resolve({ finished: res.finished }) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const { finished } = await came.promise
  await server.close({ deadline: 100 })
  assert.strictEqual(await finished, false)
  assert.strictEqual(await client.ended(), '')
})

test('a later, shorter deadline counts', async (t) => {
  const came = deferred()
  const server = await start(t, { handler () { came.resolve() } })
  const client = connect(server)
  client.write(request('GET', '/'))
  await came.promise
  const first = server.close({ deadline: 2147483647 })
  await server.close({ deadline: 0 })
  await first
  client.destroy()
})

test('an answer after the server has closed does nothing', async (t) => {
  const held = deferred()
  const server = await start(t, { handler (req, res) { held.resolve({ req, res }) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const { req, res } = await held.promise
  await server.close({ deadline: 0 })
  assert.strictEqual(res.send('too late'), false)
  assert.deepStrictEqual([req.aborted, req.signal.aborted, req.path], [true, true, '/'])
  client.destroy()
})

test('a closed port can be opened again at once', async () => {
  const first = await serve({ port: 0, host: '127.0.0.1', routes: { '/': 'one' } })
  assert.strictEqual((await ask(first, 'GET', '/')).body, 'one')
  await first.close({ deadline: 0 })
  const second = await serve({ port: first.port, host: '127.0.0.1', routes: { '/': 'two' } })
  assert.strictEqual((await ask(second, 'GET', '/')).body, 'two')
  await second.close({ deadline: 0 })
})

test('two servers live side by side', async (t) => {
  const one = await start(t, { routes: { '/': 'one' }, handler: () => '1' })
  const two = await start(t, { routes: { '/': 'two' }, handler: () => '2' })
  assert.notStrictEqual(one.port, two.port)
  assert.deepStrictEqual([(await ask(one, 'GET', '/')).body, (await ask(two, 'GET', '/')).body], ['one', 'two'])
  assert.deepStrictEqual([(await ask(one, 'GET', '/x')).body, (await ask(two, 'GET', '/x')).body], ['1', '2'])
})

test('fetch works, with keep-alive and bodies', async (t) => {
  const server = await start(t, { routes: { '/echo': { POST: async (req) => req.json() } } })
  for (let i = 0; i < 5; i++) {
    const response = await fetch(`${server.url}/echo`, { method: 'POST', body: JSON.stringify({ i }) })
    assert.deepStrictEqual(await response.json(), { i })
  }
})

test('a handler that throws while a reload is under way', async (t) => {
  quiet(t)
  const server = await start(t, { handler () { server.reload({ handler: () => 'new' }); throw new Error('x') } })
  const responses = await exchange(server, request('GET', '/').repeat(2), ['GET', 'GET'])
  assert.strictEqual(responses[0].status, 500)
  assert.strictEqual((await ask(server, 'GET', '/')).body, 'new')
})

test('a request that came before the idle time-out is answered, however late the loop finds it', {
  skip: process.env.MILLRACE_ENGINE === 'node' && 'node:http closes first and looks later'
}, async (t) => {
  const server = await start(t, {
    timeouts: { keepAlive: 500 },
    handler (req, res) {
      if (req.path !== '/block') return 'ok'
      setTimeout(() => { // a timer: the loop goes on to time-outs, not to sockets
        const until = Date.now() + 1500
        while (Date.now() < until);
        res.send('blocked')
      }, 10)
    }
  })
  // The client writes while this thread is blocked: from another one.
  const worker = new Worker(`
    const { workerData, parentPort } = require('node:worker_threads')
    const net = require('node:net')
    const get = (path) => 'GET ' + path + ' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'
    const idle = net.connect(workerData, '127.0.0.1')
    let text = ''
    idle.on('data', (bytes) => {
      text += bytes
      if (text.split('HTTP/1.1').length > 2) parentPort.postMessage(text)
    })
    idle.on('close', () => parentPort.postMessage(text))
    idle.write(get('/first'))
    const other = net.connect(workerData, '127.0.0.1', () => setTimeout(() => other.write(get('/block')), 100))
    setTimeout(() => idle.write(get('/second')), 300)
  `, { eval: true, workerData: server.port })
  t.after(() => worker.terminate())
  const [text] = await once(worker, 'message')
  assert.strictEqual(text.match(/HTTP\/1\.1 200/g)?.length, 2, text)
})
