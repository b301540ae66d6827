'use strict'
// The content of requests: read whole and in pieces, as it comes; limits, ends that are not its own,
// 100 (Continue), trailers.

const { test } = require('node:test')
const assert = require('node:assert')
const { once } = require('node:events')
const { pipeline } = require('node:stream/promises')
const { Writable } = require('node:stream')
const { start, connect, exchange, ask, request, deferred, quiet, within, Growth } = require('./_client')

const MIB = 1 << 20

const turn = () => new Promise((resolve) => setImmediate(resolve))

const chunk = (text) => `${text.length.toString(16)}\r\n${text}\r\n`

function head (lines) {
  return `POST / HTTP/1.1\r\nHost: test\r\n${lines}\r\n`
}

// Sends the pieces one by one, and gives the response.
async function sendInPieces (server, pieces) {
  const client = connect(server)
  try {
    client.socket.setNoDelay(true)
    for (const piece of pieces) {
      client.write(piece)
      await turn()
    }
    return await client.next('POST')
  } finally {
    client.destroy()
  }
}

async function gather (pieces) {
  const all = []
  for await (const piece of pieces) all.push(Buffer.from(piece))
  return Buffer.concat(all).toString()
}

const TEXT = '{"a":"0123456789"}'

const READERS = {
  text: (req) => req.text(),
  json: async (req) => JSON.stringify(await req.json()),
  bytes: async (req) => (await req.bytes()).toString(),
  arrayBuffer: async (req) => Buffer.from(await req.arrayBuffer()).toString(),
  'async iteration': (req) => gather(req),
  stream: (req) => gather(req.stream()),
  'web().text': (req) => req.web().text(),
  'web().body': (req) => gather(req.web().body)
}

for (const [name, read] of Object.entries(READERS)) {
  test(`${name}: a body with a length and one in chunks, whole and octet by octet`, async (t) => {
    const server = await start(t, { handler: read })
    const sized = head(`Content-Length: ${TEXT.length}\r\n`) + TEXT
    const chunked = head('Transfer-Encoding: chunked\r\n') + chunk(TEXT.slice(0, 7)) + chunk(TEXT.slice(7)) + '0\r\n\r\n'
    for (const text of [sized, chunked]) {
      assert.strictEqual((await exchange(server, text, ['POST']))[0].body, TEXT)
      assert.strictEqual((await sendInPieces(server, text)).body, TEXT)
    }
  })
}

test('formData: both encodings, and what is none', async (t) => {
  const server = await start(t, { handler: async (req) => [...(await req.formData()).entries()] })
  const plain = await ask(server, 'POST', '/', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'a=1&b=%C3%A9')
  assert.deepStrictEqual(JSON.parse(plain.body), [['a', '1'], ['b', 'é']])
  const multi = '--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nvalue\r\n--x--\r\n'
  const parts = await ask(server, 'POST', '/', { 'Content-Type': 'multipart/form-data; boundary=x' }, multi)
  assert.deepStrictEqual(JSON.parse(parts.body), [['f', 'value']])
  assert.strictEqual((await ask(server, 'POST', '/', { 'Content-Type': 'text/plain' }, 'x')).status, 400)
})

test('a handler runs when the head is there', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req) { came.resolve(); return req.text() } })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head('Content-Length: 4\r\n'))
  await within(came.promise, 'the handler')
  client.write('late')
  assert.strictEqual((await client.next('POST')).body, 'late')
})

test('pieces are handed over before the end', async (t) => {
  const first = deferred()
  const server = await start(t, {
    async handler (req) {
      const pieces = []
      for await (const piece of req) {
        pieces.push(piece.toString())
        first.resolve()
      }
      return pieces
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head('Content-Length: 6\r\n') + 'one')
  await within(first.promise, 'the first piece')
  client.write('two')
  assert.deepStrictEqual(JSON.parse((await client.next('POST')).body), ['one', 'two'])
})

test('a body that streams goes to one reader; asked for whole, to as many as want it', async (t) => {
  const server = await start(t, {
    routes: {
      '/pieces': async (req) => {
        const first = await gather(req)
        return [first, await req.text().catch(({ code }) => code)]
      },
      '/whole': async (req) => [await req.text(), (await req.bytes()).toString(), await gather(req.stream()), await gather(req)]
    }
  })
  const post = (path) => `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`
  assert.deepStrictEqual(JSON.parse((await exchange(server, post('/pieces'), ['POST']))[0].body), ['abc', 'ERR_MILLRACE_BODY_USED'])
  assert.deepStrictEqual(JSON.parse((await exchange(server, post('/whole'), ['POST']))[0].body), ['abc', 'abc', 'abc', 'abc'])
})

test('trailers are there when the body has been read', async (t) => {
  const server = await start(t, {
    async handler (req) {
      const before = req.trailers
      const text = await req.text()
      return { before, text, after: req.trailers }
    }
  })
  const text = head('Transfer-Encoding: chunked\r\n') + '3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n'
  for (const response of [(await exchange(server, text, ['POST']))[0], await sendInPieces(server, text)]) {
    assert.deepStrictEqual(JSON.parse(response.body), { before: {}, text: 'abc', after: { 'x-sum': '1, 2' } })
  }
  assert.deepStrictEqual(JSON.parse((await ask(server, 'POST', '/', {}, 'x')).body).after, {})
})

test('requests behind a body keep their bounds', async (t) => {
  const server = await start(t, { handler: (req) => req.text() })
  const chunked = head('Transfer-Encoding: chunked\r\n') + '3\r\nabc\r\n0\r\n\r\n'
  const responses = await exchange(server, chunked + request('POST', '/', {}, 'd') + chunked + request('GET', '/'), ['POST', 'POST', 'POST', 'GET'])
  assert.deepStrictEqual(responses.map(({ body }) => body), ['abc', 'd', 'abc', ''])
})

// ---- content that is not read ----

test('unread content is read past, and the connection goes on', async (t) => {
  const server = await start(t, { handler: (req) => `${req.method} done` })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head('Content-Length: 20000\r\n'))
  const response = await client.next('POST')
  assert.deepStrictEqual([response.body, response.headers.connection], ['POST done', undefined])
  client.write('x'.repeat(20000) + request('GET', '/'))
  assert.strictEqual((await client.next()).body, 'GET done')
})

test('too much unread content ends the connection, and the answer says so', async (t) => {
  const server = await start(t, { handler: () => 'done' })
  for (const lines of ['Content-Length: 1000000\r\n', 'Transfer-Encoding: chunked\r\n']) {
    const client = connect(server)
    client.write(head(lines))
    const response = await client.next('POST')
    assert.deepStrictEqual([response.body, response.headers.connection], ['done', 'close'])
    client.end()
    await client.ended()
    client.destroy()
  }
})

test('reading after the answer rejects', async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    handler (req, res) {
      res.send('done')
      req.text().then(() => outcome.resolve('read'), ({ code }) => outcome.resolve(code))
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head('Content-Length: 10\r\n') + 'abc')
  await client.next('POST')
  assert.strictEqual(await within(outcome.promise, 'the reader'), 'ERR_MILLRACE_BODY_UNREAD')
})

test('content for a route that takes none is read past before its answer', async (t) => {
  const server = await start(t, { routes: { '/': { GET: () => 'x' }, '/fixed': { POST: 'fixed' } } })
  for (const [target, status] of [['/', 405], ['/fixed', 200], ['/none', 404]]) {
    const client = connect(server)
    client.write(`POST ${target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab`)
    await turn()
    client.write('cde\r\n0\r\n\r\n' + request('GET', '/'))
    const responses = [await client.next('POST'), await client.next()]
    assert.deepStrictEqual(responses.map((response) => response.status), [status, 200], target)
    client.destroy()
  }
})

// ---- 100 (Continue) ----

const EXPECT = 'Expect: 100-continue\r\n'

test('100 (Continue) goes out when the body is asked for, not before', async (t) => {
  const gate = deferred()
  const came = deferred()
  const server = await start(t, {
    async handler (req) {
      came.resolve(req.expectsContinue)
      await gate.promise
      return req.text()
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head(`Content-Length: 4\r\n${EXPECT}`))
  assert.strictEqual(await within(came.promise, 'the handler'), true)
  for (let i = 0; i < 20; i++) await turn()
  assert.strictEqual(client.pending, '')
  gate.resolve()
  assert.strictEqual((await client.next('POST')).raw, 'HTTP/1.1 100 Continue\r\n\r\n')
  client.write('body')
  assert.strictEqual((await client.next('POST')).body, 'body')
  client.write(request('GET', '/'))
  assert.strictEqual((await client.next()).body, '')
})

test('a body that was not asked for, or is refused, has no 100 (Continue)', async (t) => {
  const server = await start(t, {
    routes: {
      '/unasked': () => 'fine',
      '/417': (req, res) => res.status(417).send(),
      '/413': (req, res) => { if (Number(req.header('content-length')) > 10) res.status(413).send('too much') },
      '/fixed': { POST: 'fixed' }
    }
  })
  for (const [target, status] of [['/unasked', 200], ['/417', 417], ['/413', 413], ['/fixed', 200], ['/none', 404]]) {
    const client = connect(server)
    client.write(`POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n${EXPECT}\r\n`)
    const response = await client.next('POST')
    // What the client does now nobody knows: send the body, or the next request.
    assert.deepStrictEqual([response.status, response.headers.connection], [status, 'close'], target)
    client.end()
    await client.ended()
    client.destroy()
  }
})

test('a client that does not wait for its 100 (Continue) gets none', async (t) => {
  const server = await start(t, { handler: async (req) => `${req.expectsContinue} ${await req.text()}` })
  const [response] = await exchange(server, head(`Content-Length: 4\r\n${EXPECT}`) + 'body', ['POST'])
  assert.deepStrictEqual([response.status, response.body], [200, 'false body'])
})

test('behind the head of an answer there is no 100 (Continue)', async (t) => {
  const server = await start(t, {
    async handler (req, res) {
      res.write('first')
      for await (const piece of req) res.write(piece)
      res.end('last')
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head(`Content-Length: 4\r\n${EXPECT}`))
  while (!client.pending.includes('first')) await turn()
  for (let i = 0; i < 20; i++) await turn()
  client.write('body')
  assert.deepStrictEqual((await client.next('POST')).body, 'firstbodylast')
})

test('100 (Continue) waits for the answers before it', async (t) => {
  const gate = deferred()
  const came = deferred()
  const server = await start(t, {
    routes: {
      '/slow': async () => { await gate.promise; return 'slow' },
      '/body': (req) => { came.resolve(); return req.text() }
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/slow') + `POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n${EXPECT}\r\n`)
  await within(came.promise, 'the handler')
  for (let i = 0; i < 20; i++) await turn()
  assert.strictEqual(client.pending, '')
  gate.resolve()
  assert.strictEqual((await client.next()).body, 'slow')
  assert.strictEqual((await client.next('POST')).status, 100)
  client.write('body')
  assert.strictEqual((await client.next('POST')).body, 'body')
})

// ---- limits ----

test('413 in the middle of a chunked body: the reader hears why, the client gets the answer', async (t) => {
  const lines = quiet(t)
  const code = deferred()
  const server = await start(t, {
    limits: { bodyBytes: 1000 },
    async handler (req) {
      try {
        return await req.text()
      } catch (err) {
        code.resolve(err.code)
        throw err
      }
    }
  })
  const client = connect(server)
  client.write(head('Transfer-Encoding: chunked\r\n') + chunk('x'.repeat(600)))
  await turn()
  client.write(chunk('x'.repeat(600)))
  const response = await client.next('POST')
  assert.deepStrictEqual([response.status, response.headers.connection, response.body], [413, 'close', 'Content Too Large'])
  assert.strictEqual(await within(code.promise, 'the reader'), 'ERR_MILLRACE_BODY_TOO_LARGE')
  client.end()
  assert.strictEqual(await client.ended(), '')
  client.destroy()
  assert.deepStrictEqual(lines, [])
})

test('413 behind the head of an answer: the answer goes on, then the connection ends', async (t) => {
  const failed = deferred()
  const server = await start(t, {
    limits: { bodyBytes: 100 },
    async handler (req, res) {
      res.write('begun ')
      await req.text().catch((err) => failed.resolve(err.code))
      res.end('and ended')
    }
  })
  const client = connect(server)
  client.write(head('Transfer-Encoding: chunked\r\n') + chunk('x'.repeat(60)))
  while (!client.pending.includes('begun')) await turn()
  client.write(chunk('x'.repeat(60)))
  const response = await client.next('POST')
  assert.deepStrictEqual([response.status, response.body], [200, 'begun and ended'])
  assert.strictEqual(await failed.promise, 'ERR_MILLRACE_BODY_TOO_LARGE')
  client.end()
  assert.strictEqual(await client.ended(), '')
  client.destroy()
})

test('a route has a limit of its own, smaller or larger', async (t) => {
  const length = async (req) => String((await req.bytes()).length)
  const server = await start(t, {
    limits: { bodyBytes: 1000 },
    routes: {
      '/small': { POST: length, PUT: length, limits: { bodyBytes: 10 } },
      'POST /large': { handler: length, limits: { bodyBytes: 5000 } },
      '/any': { handler: length, limits: {} }
    },
    handler: length
  })
  const cases = [
    ['/small', 10, 200], ['/small', 11, 413], ['/large', 5000, 200], ['/large', 5001, 413],
    ['/any', 1000, 200], ['/any', 1001, 413], ['/else', 1000, 200], ['/else', 1001, 413]
  ]
  for (const [target, size, status] of cases) {
    const response = await ask(server, 'POST', target, {}, 'x'.repeat(size))
    assert.strictEqual(response.status, status, `${target} ${size}`)
    if (status === 200) assert.strictEqual(response.body, String(size))
    const text = `POST ${target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('x'.repeat(size))}0\r\n\r\n`
    assert.strictEqual((await exchange(server, text, ['POST']))[0].status, status, `${target} ${size} chunked`)
  }
  assert.strictEqual((await ask(server, 'PUT', '/small', {}, 'x'.repeat(11))).status, 413)
  assert.strictEqual((await ask(server, 'GET', '/large')).status, 405)
})

test('timeouts.body: 408, and the reader hears why', async (t) => {
  const code = deferred()
  const server = await start(t, { timeouts: { body: 200 }, handler: (req) => req.text().catch((err) => { code.resolve(err.code); throw err }) })
  const client = connect(server)
  client.write(head('Content-Length: 10\r\n') + 'abc')
  const response = await client.next('POST')
  assert.deepStrictEqual([response.status, response.headers.connection], [408, 'close'])
  assert.strictEqual(await within(code.promise, 'the reader'), 'ERR_MILLRACE_BODY_TIMEOUT')
  client.end()
  await client.ended()
  client.destroy()
})

test('a broken chunk: 400, and the reader hears why', async (t) => {
  const code = deferred()
  const server = await start(t, { handler: (req) => req.text().catch((err) => { code.resolve(err.code); throw err }) })
  const client = connect(server)
  client.write(head('Transfer-Encoding: chunked\r\n') + '3\r\nabc\r\n')
  await turn()
  client.write('nonsense\r\n')
  const response = await client.next('POST')
  assert.deepStrictEqual([response.status, response.headers.connection], [400, 'close'])
  assert.strictEqual(await within(code.promise, 'the reader'), 'ERR_MILLRACE_BAD_BODY')
  client.destroy()
})

// ---- the client goes ----

test('a client that goes in the middle of its body: every reader rejects', async (t) => {
  const lines = quiet(t)
  for (const leave of ['reset', 'destroy', 'end']) {
    for (const [name, read] of Object.entries(READERS)) {
      const began = deferred()
      const code = deferred()
      const server = await start(t, {
        handler (req) {
          began.resolve()
          return read(req).then(() => code.resolve('read'), (err) => { code.resolve(err.code); throw err })
        }
      })
      const client = connect(server)
      client.write(head('Content-Length: 100\r\n') + 'abc')
      await within(began.promise, 'the handler')
      client[leave]()
      assert.strictEqual(await within(code.promise, `${name} ${leave}`), 'ERR_MILLRACE_ABORTED', `${name} ${leave}`)
      client.destroy()
      await server.close({ deadline: 0 })
    }
  }
  assert.deepStrictEqual(lines, [])
})

test('a server that closes in the middle of a body: the reader rejects', async (t) => {
  quiet(t)
  const began = deferred()
  const code = deferred()
  const server = await start(t, { handler (req) { began.resolve(); req.text().catch((err) => code.resolve(err.code)) } })
  const client = connect(server)
  client.write(head('Content-Length: 100\r\n') + 'abc')
  await within(began.promise, 'the handler')
  await server.close({ deadline: 0 })
  assert.strictEqual(await within(code.promise, 'the reader'), 'ERR_MILLRACE_ABORTED')
  client.destroy()
})

// ---- back-pressure ----

// Sends `count` MiB as fast as the server takes them; resolves when all of it is on its way.
async function upload (client, count) {
  const block = Buffer.alloc(MIB, 0x78)
  for (let i = 0; i < count; i++) if (!client.socket.write(block)) await once(client.socket, 'drain')
}

test('a handler that does not read makes the client wait', async (t) => {
  const gate = deferred()
  const server = await start(t, {
    limits: { bodyBytes: 64 * MIB },
    async handler (req) {
      await gate.promise
      return String((await req.bytes()).length)
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head(`Content-Length: ${32 * MIB}\r\n`))
  let isSent = false
  const sent = upload(client, 32).then(() => { isSent = true })
  // The kernel's buffers take a few MiB at most; no time is measured, so many turns have to do.
  for (let i = 0; i < 2000; i++) await turn()
  assert.strictEqual(isSent, false)
  gate.resolve()
  await sent
  assert.strictEqual((await client.next('POST')).body, String(32 * MIB))
})

test('a large upload to a slow handler takes little memory', async (t) => {
  const held = []
  let growth
  const read = (isKept) => async (req) => {
    let size = 0
    for await (const piece of req) {
      if (size % MIB + piece.length >= MIB) growth.look()
      size += piece.length
      if (isKept) held.push(piece)
      await turn()
    }
    return String(size)
  }
  const server = await start(t, { limits: { bodyBytes: 64 * MIB }, routes: { '/pieces': read(false), '/kept': read(true) } })
  const run = async (path) => {
    growth = new Growth()
    const client = connect(server)
    client.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${32 * MIB}\r\n\r\n`)
    await upload(client, 32)
    assert.strictEqual((await client.next('POST')).body, String(32 * MIB))
    client.destroy()
    return growth
  }
  const { memory, rss } = await run('/pieces')
  // Only what is reserved shows in the one, only what was resident before not in the other.
  assert.ok(Math.min(memory, rss) < 8 * MIB, `grew by ${memory}, RSS by ${rss}`)
  const control = await run('/kept')
  assert.ok(control.memory >= 28 * MIB, `the control grew by only ${control.memory}`)
})

test('stream() pipes with back-pressure', async (t) => {
  let size = 0
  const server = await start(t, {
    limits: { bodyBytes: 64 * MIB },
    async handler (req) {
      await pipeline(req.stream(), new Writable({ write (piece, encoding, done) { size += piece.length; setImmediate(done) } }))
      return String(size)
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(head(`Content-Length: ${8 * MIB}\r\n`))
  await upload(client, 8)
  assert.strictEqual((await client.next('POST')).body, String(8 * MIB))
})

test('broken content in one piece with its head is answered, behind the answers before it', async (t) => {
  const server = await start(t, {
    routes: { '/read': (req) => req.text(), '/fixed': 'fixed' }
  })
  for (const path of ['/read', '/fixed', '/none']) {
    const client = connect(server)
    t.after(() => client.destroy())
    client.write(request('GET', '/fixed') +
      `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5_0\r\nhello\r\n0\r\n\r\n`)
    assert.strictEqual((await client.next('GET')).status, 200)
    assert.strictEqual((await client.next('POST')).status, 400, path)
    await client.ended()
  }
})
