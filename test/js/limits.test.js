'use strict'
// Both sides of each limit and time-out, where clients stall, trickle or go on too long; octet for
// octet, the limits of heads and content are in test/wire. Waits are generous: what is tested is
// that something comes, or that something else came first.

const { describe, test } = require('node:test')
const assert = require('node:assert')
const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { probe } = require('../..')
const { start, connect, exchange, ask, request, deferred, quiet, within } = require('./_client')

const KIB = 1 << 10
const MIB = 1 << 20
const LATE_MS = 1000 // a time-out may be this late
const SOCKETS_HOLD = 16 * MIB // more than the kernel keeps for both ends of a connection

const { capabilities, engine } = probe()
const isNative = engine === 'native'
const PARSERS = isNative && capabilities.llhttp.ok ? ['millrace', 'llhttp'] : ['millrace']
const needsSendTimeout = { skip: !capabilities.sendTimeout && 'timeouts.send is not watched on this engine, as probe() says' }

const turn = () => new Promise((resolve) => setImmediate(resolve))

const post = (target, fields = '') => `POST ${target} HTTP/1.1\r\nHost: test\r\n${fields}\r\n`

// A client that asks and does not read: beyond what the kernel and a socket buffer, its window is zero.
async function stalled (t, server, target) {
  const client = connect(server)
  t.after(() => client.destroy())
  await once(client.socket, 'connect')
  client.socket.pause()
  client.write(request('GET', target))
  return client
}

// Reads on, and gives the number of octets that came up to the end of the connection, of a whole
// chunked answer, or until there are more than `enough`.
async function readOn (client, enough = Infinity) {
  client.socket.removeAllListeners('data')
  let size = 0
  let tail = ''
  const over = new Promise((resolve) => {
    client.socket.on('data', (chunk) => {
      size += chunk.length
      tail = (tail + chunk.subarray(-5).toString('latin1')).slice(-5)
      if (tail === '0\r\n\r\n' || size > enough) resolve(true)
    })
    client.socket.once('close', () => resolve(false))
    client.socket.once('end', () => resolve(false))
  })
  client.socket.resume()
  const isWhole = await within(over, 'the rest of the answer')
  return { size, isWhole }
}

// Does something now and then until the promise is settled, and gives what came of it.
async function meanwhile (promise, everyMs, act) {
  let isOver = false
  const over = () => { isOver = true }
  promise.then(over, over)
  while (!isOver) {
    await act()
    await sleep(everyMs)
  }
  return promise
}

// ---- heads ----

for (const parser of PARSERS) {
  test(`${parser}: limits of heads hold for every request of a connection`, async (t) => {
    const server = await start(t, { parser, limits: { headerBytes: 1024, headerCount: 4, targetBytes: 64 }, handler: () => 'x' })
    const most = `GET /${'t'.repeat(63)} HTTP/1.1\r\nHost: a\r\nB: 1\r\nC: 1\r\n`
    const full = `${most}D: ${'x'.repeat(1024 - most.length - 7)}\r\n\r\n`
    assert.strictEqual(full.length, 1024)
    const over = [full.replace('xxx', 'xxxx'), full.replace('B: 1\r\n', 'B:\r\nE:\r\n').replace('xxxx', ''), full.replace('/t', '/tt').replace('xx', 'x')]
    for (const [i, status] of [431, 431, 414].entries()) {
      const answers = await exchange(server, full.repeat(3) + over[i], Array(4).fill('GET'))
      assert.deepStrictEqual(answers.map((answer) => answer.status), [200, 200, 200, status])
    }
  })

  test(`${parser}: timeouts.header is for the whole head, not for each octet of it`, async (t) => {
    const server = await start(t, { parser, timeouts: { header: 400 }, handler: () => 'x' })
    const client = connect(server)
    t.after(() => client.destroy())
    client.write('GET / HTTP/1.1\r\nHost: test\r\nX: ')
    const { status, headers } = await meanwhile(client.next(), 40, () => client.write('x'))
    assert.deepStrictEqual([status, headers.connection], [408, 'close'])
  })
}

test('timeouts.header: a connection that says nothing is closed, one that says it in time is served', async (t) => {
  const server = await start(t, { timeouts: { header: 600 }, handler: () => 'x' })
  const silent = connect(server)
  const slow = connect(server)
  t.after(() => { silent.destroy(); slow.destroy() })
  const text = request('GET', '/')
  for (const piece of text.match(/[^]{10}|[^]+/g)) {
    slow.write(piece)
    await sleep(10)
  }
  assert.strictEqual((await slow.next()).status, 200)
  assert.match(await silent.ended(), /^$|^HTTP\/1\.1 408 /) // node:http has a word for it
})

// ---- content ----

for (const [name, head, piece] of [
  ['a length', 'Content-Length: 100000\r\n', 'x'],
  ['chunks', 'Transfer-Encoding: chunked\r\n', '1\r\nx\r\n']
]) {
  test(`timeouts.body is for the whole body, not for each piece of it: ${name}`, async (t) => {
    const code = deferred()
    const server = await start(t, { timeouts: { body: 400 }, handler: (req) => req.bytes().catch((err) => { code.resolve(err.code); throw err }) })
    const client = connect(server)
    t.after(() => client.destroy())
    client.write(post('/', head))
    const { status } = await meanwhile(client.next('POST'), 40, () => client.write(piece))
    assert.strictEqual(status, 408)
    assert.strictEqual(await within(code.promise, 'the reader'), 'ERR_MILLRACE_BODY_TIMEOUT')
  })
}

// ---- connections ----

test('limits.connections: at it all are served, past it 503 without being asked, and a place that is freed is free', async (t) => {
  const COUNT = 20
  const server = await start(t, {
    limits: { connections: COUNT },
    timeouts: { linger: isNative ? 60000 : 100 },
    handler (req, res) {
      if (req.path === '/last') res.header('Connection', 'close')
      return 'x'
    }
  })
  const clients = Array.from({ length: COUNT }, () => connect(server))
  t.after(() => { for (const client of clients) client.destroy() })
  for (const client of clients) {
    client.write(request('GET', '/'))
    assert.strictEqual((await client.next()).status, 200)
  }
  for (let i = 0; i < 3; i++) {
    const extra = connect(server)
    assert.match(await extra.ended(), /^HTTP\/1\.1 503 [^]*\r\nConnection: close\r\n/)
    extra.destroy()
  }
  clients[0].write(request('GET', '/last'))
  await clients[0].next()
  await clients[0].ended()
  // Until the server has seen the end, 503 is right; node:http counts those that linger, too.
  for (let left = 80; ; left--) {
    assert.ok(left > 0, 'the place was never free')
    const client = connect(server)
    client.write(request('GET', '/'))
    const status = await client.next().then((response) => response.status, () => 0)
    if (status === 200) {
      clients.push(client)
      break
    }
    client.destroy()
    assert.ok(status === 503 || !isNative, `${status}`)
    await sleep(isNative ? 25 : 250)
  }
  for (const client of clients.slice(1, COUNT)) {
    client.write(request('GET', '/'))
    assert.strictEqual((await client.next()).status, 200)
  }
})

test('limits.connections and limits.requestsPerConnection of 0 are none', async (t) => {
  const server = await start(t, { limits: { connections: 0, requestsPerConnection: 0 }, handler: (req) => req.path })
  const clients = Array.from({ length: 150 }, () => connect(server))
  t.after(() => { for (const client of clients) client.destroy() })
  for (const client of clients) client.write(request('GET', '/'))
  for (const client of clients) assert.strictEqual((await client.next()).status, 200)
  for (let i = 0; i < 300; i++) {
    clients[0].write(request('GET', `/${i}`))
    const { body, headers } = await clients[0].next()
    assert.deepStrictEqual([body, headers.connection], [`/${i}`, undefined])
  }
})

test('limits.requestsPerConnection counts requests with content, and refused ones end it early', async (t) => {
  const server = await start(t, { limits: { requestsPerConnection: 3, bodyBytes: 4 }, handler: (req) => req.text() })
  const client = connect(server)
  t.after(() => client.destroy())
  for (const [i, connection] of [undefined, undefined, 'close'].entries()) {
    client.write(request('POST', '/', {}, `ab${i}`))
    const { body, headers } = await client.next('POST')
    assert.deepStrictEqual([body, headers.connection], [`ab${i}`, connection])
  }
  assert.strictEqual(await client.ended(), '')
  const answers = await exchange(server, request('POST', '/', {}, 'ab') + request('POST', '/', {}, 'abcde'), ['POST', 'POST'])
  assert.deepStrictEqual(answers.map(({ status, headers }) => [status, headers.connection]), [[200, undefined], [413, 'close']])
})

test('timeouts.keepAlive is for idle connections: not while a handler or a client is busy', async (t) => {
  const gate = deferred()
  const server = await start(t, {
    timeouts: { keepAlive: 300 },
    routes: { '/': 'x', '/held': () => gate.promise, '/echo': (req) => req.text() }
  })
  const [held, inBody, idle, active] = Array.from({ length: 4 }, () => connect(server))
  t.after(() => { for (const client of [held, inBody, idle, active]) client.destroy() })
  for (const client of [held, inBody, idle, active]) {
    client.write(request('GET', '/'))
    await client.next()
  }
  held.write(request('GET', '/held'))
  inBody.write(post('/echo', 'Content-Length: 4\r\n') + 'ab')
  const said = await meanwhile(idle.ended(), 20, async () => { // each request begins the time anew
    active.write(request('GET', '/'))
    assert.strictEqual((await active.next()).status, 200)
  })
  assert.strictEqual(said, '')
  gate.resolve('done')
  inBody.write('cd')
  assert.strictEqual((await held.next()).body, 'done')
  assert.strictEqual((await inBody.next('POST')).body, 'abcd')
})

// ---- answers that wait ----

// The first request of a connection is not answered, so what the second one writes waits in the
// server and nowhere else: bounds can be met to a few octets, whatever the kernel buffers.
async function heldStream (t, limits, write) {
  const gate = deferred()
  const wrote = deferred()
  const server = await start(t, {
    limits,
    routes: {
      '/first': () => gate.promise,
      '/second': async (req, res) => { wrote.resolve(await write(res)) }
    }
  })
  const client = connect(server)
  t.after(() => { gate.resolve('first'); client.destroy() })
  client.write(request('GET', '/first') + request('GET', '/second'))
  return { client, gate, result: await within(wrote.promise, 'the writes') }
}

const FRAMES = 2 * KIB // more than the head and the chunk sizes of one such answer

test('limits.outgoingBytes: write says true below it and false from it on', async (t) => {
  const limit = 256 * KIB
  const piece = Buffer.alloc(64 * KIB)
  const { client, gate, result } = await heldStream(t, { outgoingBytes: limit }, (res) => {
    const said = [res.write(piece), res.write(piece), res.write(piece), res.write(piece.subarray(0, 64 * KIB - FRAMES)), res.write(Buffer.alloc(64 * KIB))]
    const drained = res.drained()
    res.end()
    return { said, drained }
  })
  assert.deepStrictEqual(result.said, [true, true, true, true, false])
  gate.resolve('first')
  assert.strictEqual((await client.next()).body, 'first')
  assert.strictEqual((await client.next()).body.length, 5 * 64 * KIB - FRAMES)
  assert.strictEqual(await within(result.drained, 'drained'), true)
})

test('limits.outgoingBytes: by default write says false from 1 MiB on', async (t) => {
  const { result } = await heldStream(t, {}, (res) => {
    const below = res.write(Buffer.alloc(MIB - FRAMES))
    return [below, res.write(Buffer.alloc(64 * KIB))]
  })
  assert.deepStrictEqual(result, [true, false])
})

test('limits.outgoingBytes: four times as much may wait, more ends the connection', async (t) => {
  const limit = 64 * KIB
  const fill = (pieces) => async (res) => {
    for (let i = 0; i < pieces; i++) {
      res.write(Buffer.alloc(16 * KIB))
      await turn()
    }
    res.end()
    return res
  }
  const within4 = await heldStream(t, { outgoingBytes: limit }, fill(15))
  within4.gate.resolve('first')
  assert.strictEqual((await within4.client.next()).body, 'first')
  assert.strictEqual((await within4.client.next()).body.length, 15 * 16 * KIB)
  const over = await heldStream(t, { outgoingBytes: limit }, fill(17))
  assert.strictEqual(await over.client.ended(), '')
  assert.strictEqual(await within(over.result.finished, 'the end'), false)
})

test('limits.outgoingBytes: what waits for a slow reader, within four times as much, arrives whole', async (t) => {
  let over = 0
  const done = deferred()
  const server = await start(t, {
    limits: { outgoingBytes: MIB },
    async handler (req, res) {
      while (res.write(Buffer.alloc(64 * KIB))) await turn()
      for (; over < 2 * MIB; over += 64 * KIB) res.write(Buffer.alloc(64 * KIB)) // heedless, within bounds
      res.end()
      done.resolve(res)
    }
  })
  const client = await stalled(t, server, '/')
  const res = await within(done.promise, 'the writes')
  const { isWhole } = await readOn(client)
  assert.ok(isWhole)
  assert.strictEqual(await res.finished, true)
})

test('limits.outgoingBytes: a whole answer may be of any size', async (t) => {
  const server = await start(t, { limits: { outgoingBytes: 4096 }, routes: { '/': () => Buffer.alloc(SOCKETS_HOLD), '/text': () => 'x'.repeat(SOCKETS_HOLD) } })
  for (const target of ['/', '/text']) {
    const client = await stalled(t, server, target)
    await sleep(20)
    const { size } = await readOn(client, SOCKETS_HOLD)
    assert.ok(size > SOCKETS_HOLD)
    client.destroy()
  }
})

for (const limit of [4096, 16 * KIB, 256 * KIB]) {
  test(`limits.outgoingBytes of ${limit}: who waits when write says so keeps the connection`, async (t) => {
    const done = deferred()
    let count = 0
    const piece = Buffer.alloc(Math.min(limit, 16 * KIB) / 2)
    const server = await start(t, {
      limits: { outgoingBytes: limit },
      async handler (req, res) {
        for (; count * piece.length < SOCKETS_HOLD && !req.aborted; count++) {
          if (!res.write(piece)) { done.began(); await res.drained() }
          await turn() // each piece is in the queue before the next is written
        }
        res.end()
        done.resolve(await res.finished)
      }
    })
    const isSlow = new Promise((resolve) => { done.began = resolve })
    const client = await stalled(t, server, '/')
    await within(Promise.race([isSlow, done.promise]), 'a slow client')
    const { isWhole } = await readOn(client)
    assert.deepStrictEqual([isWhole, await done.promise], [true, true])
  })
}

// ---- timeouts.send ----

// A socket that is not read learns of a reset when it writes.
async function closedWhileUnread (client) {
  const closed = new Promise((resolve) => client.socket.once('close', resolve))
  const nudge = setInterval(() => client.write('G'), 100)
  await within(closed, 'the end').finally(() => clearInterval(nudge))
}

test('timeouts.send: a client that does not read a whole answer is given up', needsSendTimeout, async (t) => {
  const server = await start(t, { timeouts: { send: 300 }, handler: () => Buffer.alloc(2 * SOCKETS_HOLD) })
  await closedWhileUnread(await stalled(t, server, '/'))
})

test('finished does not say that an answer left which never does', async (t) => {
  const answered = deferred()
  const server = await start(t, { handler (req, res) { res.send(Buffer.alloc(2 * SOCKETS_HOLD)); answered.resolve(res) } })
  const client = await stalled(t, server, '/')
  const res = await within(answered.promise, 'the answer')
  await sleep(200)
  client.reset()
  assert.strictEqual(await within(res.finished, 'the end'), false)
})

test('timeouts.send: a reply that C answers, asked for over and over and never read', needsSendTimeout, async (t) => {
  const server = await start(t, { timeouts: { send: 300 }, routes: { '/': 'x'.repeat(60 * KIB), '/ok': 'ok' } })
  const client = connect(server)
  t.after(() => client.destroy())
  await once(client.socket, 'connect')
  client.socket.pause()
  client.write(request('GET', '/').repeat(2 * SOCKETS_HOLD / (60 * KIB)))
  await closedWhileUnread(client)
  assert.strictEqual((await ask(server, 'GET', '/ok')).body, 'ok')
})

test('timeouts.send: a streamed answer to a client that does not read', needsSendTimeout, async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    timeouts: { send: 300 },
    async handler (req, res) {
      while (res.write(Buffer.alloc(64 * KIB)));
      outcome.resolve([await res.drained(), await res.finished, req.aborted, res.write('x')])
    }
  })
  await stalled(t, server, '/')
  assert.deepStrictEqual(await within(outcome.promise, 'the end'), [false, false, true, false])
})

test('timeouts.send: a client that reads slowly, but reads, is not given up', async (t) => {
  const server = await start(t, { timeouts: { send: 700 }, handler (req, res) { res.write(Buffer.alloc(2 * SOCKETS_HOLD)); res.end() } })
  const client = await stalled(t, server, '/')
  let size = 0
  let isEnded = false
  client.socket.removeAllListeners('data')
  client.socket.once('end', () => { isEnded = true })
  client.socket.once('close', () => { isEnded = true })
  // In all it takes longer than the time-out: a part at a time, each of which opens the window.
  for (let part = 0; part < 24 && !isEnded; part++) {
    for (let had = 0; had < MIB && !isEnded;) {
      const chunk = client.socket.read()
      if (chunk === null) await turn()
      else had += chunk.length
      size += chunk === null ? 0 : chunk.length
    }
    await sleep(80)
  }
  const rest = await readOn(client)
  assert.ok(rest.isWhole, `${size + rest.size} octets came`)
  assert.ok(size + rest.size > 2 * SOCKETS_HOLD)
})

test('an engine that does not watch timeouts.send says so', async () => {
  assert.strictEqual(capabilities.sendTimeout, isNative)
})

// ---- timeouts.linger ----

// Writes after the server's FIN: a connection that lingers takes it, one that is closed resets.
async function isReset (client, patienceMs) {
  const reset = new Promise((resolve) => {
    client.socket.once('error', () => resolve(true))
    client.socket.once('close', (hadError) => resolve(hadError))
  })
  const until = Date.now() + patienceMs
  while (Date.now() < until) {
    client.write('x')
    if (await Promise.race([reset, sleep(50)])) return true
  }
  return false
}

async function closedBy (t, server) {
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/', { Connection: 'close' }))
  assert.strictEqual((await client.next()).body, 'x')
  assert.strictEqual(await client.ended(), '') // the FIN; this side stays open
  return client
}

test('timeouts.linger: a refused client gets to read the refusal while it still sends', async (t) => {
  quiet(t)
  const server = await start(t, { limits: { bodyBytes: 10 }, handler: (req) => req.text() })
  for (let i = 0; i < 10; i++) {
    const client = connect(server)
    client.write(post('/', `Content-Length: ${4 * MIB}\r\n`))
    client.socket.write(Buffer.alloc(4 * MIB))
    assert.strictEqual((await client.next('POST')).status, 413)
    client.destroy()
  }
})

// ---- what takes seconds, all at the same time ----

describe('long waits', { concurrency: true }, () => {
  test('timeouts of 0 are none', async (t) => {
    const server = await start(t, {
      timeouts: { header: 0, body: 0, keepAlive: 0, send: 0 },
      limits: { bodyBytesPerSecond: 0 },
      routes: { '/': 'x', '/echo': (req) => req.text(), '/large': (req, res) => { res.write(Buffer.alloc(SOCKETS_HOLD)); res.end() } }
    })
    const idle = connect(server)
    const inHead = connect(server)
    const inBody = connect(server)
    t.after(() => { idle.destroy(); inHead.destroy(); inBody.destroy() })
    const unread = await stalled(t, server, '/large')
    idle.write(request('GET', '/'))
    await idle.next()
    inHead.write('GET / HTTP/1.1\r\nHost:')
    inBody.write(post('/echo', 'Content-Length: 4\r\n') + 'ab')
    await sleep(LATE_MS + 500)
    idle.write(request('GET', '/'))
    inHead.write(' a\r\n\r\n')
    inBody.write('cd')
    assert.strictEqual((await idle.next()).body, 'x')
    assert.strictEqual((await inHead.next()).body, 'x')
    assert.strictEqual((await inBody.next('POST')).body, 'abcd')
    const { size, isWhole } = await readOn(unread)
    assert.ok(isWhole && size > SOCKETS_HOLD)
  })

  test('timeouts.body: time in which the handler does not read is not the client\'s', async (t) => {
    const gate = deferred()
    const bytes = Buffer.alloc(4 * MIB, 0x78)
    const server = await start(t, {
      timeouts: { body: 400 },
      routes: {
        '/late': async (req) => { await gate.promise; return String((await req.bytes()).length) },
        '/never': (req) => req.bytes()
      }
    })
    const client = connect(server)
    const control = connect(server)
    t.after(() => { client.destroy(); control.destroy() })
    client.write(post('/late', `Content-Length: ${bytes.length}\r\n`))
    client.socket.write(bytes)
    control.write(post('/never', 'Content-Length: 10\r\n') + 'abc')
    assert.strictEqual((await control.next('POST')).status, 408) // later than that the time would be up for both
    await sleep(LATE_MS)
    gate.resolve()
    assert.strictEqual((await client.next('POST')).body, String(bytes.length))
  })

  test('limits.bodyBytesPerSecond: 408 below it, and only for clients that are slow themselves', async (t) => {
    const codes = []
    const gate = deferred()
    const bytes = Buffer.alloc(2 * MIB, 0x78)
    const server = await start(t, {
      limits: { bodyBytesPerSecond: 100 },
      routes: {
        '/read': (req) => req.bytes().then(({ length }) => String(length), (err) => { codes.push(err.code); throw err }),
        '/late': async (req) => { await gate.promise; return String((await req.bytes()).length) }
      }
    })
    const slow = connect(server)
    const steady = connect(server)
    const waiting = connect(server)
    t.after(() => { slow.destroy(); steady.destroy(); waiting.destroy() })
    waiting.write(post('/late', `Content-Length: ${bytes.length}\r\n`))
    waiting.socket.write(bytes)
    slow.write(post('/read', 'Content-Length: 1000000\r\n'))
    steady.write(post('/read', 'Transfer-Encoding: chunked\r\n'))
    let sent = 0
    const { status } = await meanwhile(slow.next('POST'), 250, () => {
      slow.write('x')
      steady.write(`400\r\n${'x'.repeat(0x400)}\r\n`)
      sent += 0x400
    })
    assert.strictEqual(status, 408)
    assert.deepStrictEqual(codes, ['ERR_MILLRACE_BODY_TIMEOUT'])
    await sleep(LATE_MS) // those who were not slow had the same time, and are still there
    steady.write('0\r\n\r\n')
    assert.strictEqual((await steady.next('POST')).body, String(sent))
    gate.resolve()
    assert.strictEqual((await waiting.next('POST')).body, String(bytes.length))
  })

  test('timeouts.send: writing more is no progress', needsSendTimeout, async (t) => {
    const outcome = deferred()
    let isOver = false
    const server = await start(t, {
      timeouts: { send: 300 },
      async handler (req, res) {
        while (res.write(Buffer.alloc(64 * KIB)));
        // Far longer than the time-out and its lateness, far less than limits.outgoingBytes.
        for (let i = 0; i < 60 && !isOver; i++) {
          res.write('x')
          await sleep(50)
        }
        outcome.resolve(req.aborted)
      }
    })
    t.after(() => { isOver = true })
    await stalled(t, server, '/')
    assert.strictEqual(await within(outcome.promise, 'the writes'), true)
  })

  test('timeouts.send: no time passes while nothing waits', async (t) => {
    const gate = deferred()
    const server = await start(t, { timeouts: { send: 200 }, async handler (req, res) { res.write('first'); await gate.promise; res.end('second') } })
    const client = connect(server)
    t.after(() => client.destroy())
    client.write(request('GET', '/'))
    await sleep(LATE_MS + 500)
    gate.resolve()
    assert.strictEqual((await client.next()).body, 'firstsecond')
  })

  test('timeouts.linger: what the client sends after the end is read until then, and no longer', async (t) => {
    const long = await start(t, { timeouts: { linger: 60000 }, handler: () => 'x' })
    const short = await start(t, { timeouts: { linger: 100 }, handler: () => 'x' })
    const lingering = await closedBy(t, long)
    const silent = await closedBy(t, short)
    assert.strictEqual(await isReset(await closedBy(t, short), 10000), true, 'sending does not prolong it for ever')
    await sleep(LATE_MS + 200)
    assert.strictEqual(await isReset(silent, 10000), true)
    assert.strictEqual(await isReset(lingering, 500), false)
  })

  test('timeouts.linger of 0 closes at once', async (t) => {
    const server = await start(t, { timeouts: { linger: 0 }, handler: () => 'x' })
    assert.strictEqual(await isReset(await closedBy(t, server), 3000), true)
  })
})
