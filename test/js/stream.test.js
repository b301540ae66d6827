'use strict'
// Answers in pieces: framing, order, back-pressure, ends that are not their own, interim answers.

const { test } = require('node:test')
const assert = require('node:assert')
const { once } = require('node:events')
const { Readable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const { probe } = require('../..')
const { start, connect, exchange, ask, request, deferred, quiet, within, Growth } = require('./_client')

const MIB = 1 << 20

const turn = () => new Promise((resolve) => setImmediate(resolve))

async function turns (count) {
  for (let i = 0; i < count; i++) await turn()
}

async function answered (t, handler, method = 'GET') {
  const server = await start(t, { handler })
  return ask(server, method, '/')
}

// Runs a handler's part and resolves to the code that it threw.
async function codeOf (t, call) {
  const code = deferred()
  const server = await start(t, {
    async handler (req, res) {
      try {
        await call(res)
        code.resolve('nothing thrown')
      } catch (err) {
        code.resolve(err.code)
      }
    }
  })
  const client = connect(server)
  client.write(request('GET', '/'))
  t.after(() => client.destroy())
  return within(code.promise, 'the handler')
}

// ---- framing ----

test('write and end: chunked, piece by piece', async (t) => {
  const response = await answered(t, async (req, res) => {
    res.status(201).header('X-A', 'a')
    res.write('one')
    await turn()
    res.write(Buffer.from('two'))
    res.write('')
    res.write(new Uint8Array([0x33]))
    res.end('grüß')
  })
  assert.strictEqual(response.line, 'HTTP/1.1 201 Created')
  assert.deepStrictEqual(response.lines.map((line) => line.replace(/^Date: .*/, 'Date')), [
    'Content-Type: text/plain; charset=utf-8', 'X-A: a', 'Transfer-Encoding: chunked', 'Date'
  ])
  assert.deepStrictEqual(response.chunks, ['one', 'two', '3', 'grüß'])
})

test('the first piece gives the type, unless one was set', async (t) => {
  const type = async (handler) => (await answered(t, handler)).headers['content-type']
  assert.strictEqual(await type((req, res) => { res.write(Buffer.from('x')); res.end() }), 'application/octet-stream')
  assert.strictEqual(await type((req, res) => { res.type('csv').write('x'); res.end() }), 'text/csv; charset=utf-8')
})

test('an empty piece sends the head', async (t) => {
  const gate = deferred()
  const server = await start(t, { async handler (req, res) { res.header('X-L', '\xe9').write(''); await gate.promise; res.end('x') } })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/'))
  while (!client.pending.endsWith('\r\n\r\n')) await turn()
  gate.resolve()
  const response = await client.next()
  assert.deepStrictEqual([response.body, response.headers['x-l']], ['x', '\xe9'])
})

test('the connection goes on behind a stream', async (t) => {
  const server = await start(t, { handler (req, res) { res.write('a'); res.end('b') } })
  const responses = await exchange(server, request('GET', '/').repeat(3), Array(3).fill('GET'))
  assert.deepStrictEqual(responses.map(({ body }) => body), ['ab', 'ab', 'ab'])
})

test('a declared length frames the stream', async (t) => {
  const response = await answered(t, (req, res) => { res.header('Content-Length', 6).write('abc'); res.end('def') })
  assert.deepStrictEqual([response.headers['content-length'], response.headers['transfer-encoding'], response.body], ['6', undefined, 'abcdef'])
})

test('more than the declared length is refused before it is sent', async (t) => {
  assert.strictEqual(await codeOf(t, (res) => {
    res.header('Content-Length', 4).write('abc')
    res.write('de')
  }), 'ERR_MILLRACE_LENGTH')
  assert.strictEqual(await codeOf(t, (res) => { res.header('Content-Length', 4).send('abc') }), 'ERR_MILLRACE_LENGTH')
})

test('less than the declared length is an error, and the client sees the cut', async (t) => {
  const lines = quiet(t)
  const server = await start(t, { handler (req, res) { res.header('Content-Length', 10).write('abc'); res.end() } })
  const client = connect(server)
  client.write(request('GET', '/'))
  assert.match(await client.ended(), /Content-Length: 10\r\n[^]*\r\n\r\nabc$/)
  assert.strictEqual(lines.length, 1)
  client.destroy()
})

test('HTTP/1.0: the connection ends with the content', async (t) => {
  const server = await start(t, {
    routes: {
      '/stream': (req, res) => { res.write('a'); res.end('b') },
      '/sized': (req, res) => { res.header('Content-Length', 2).write('a'); res.end('b') },
      '/trailers': (req, res) => { res.trailers({ 'X-T': '1' }).send('ab') }
    }
  })
  const get = async (target) => {
    const client = connect(server)
    client.write(`GET ${target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`)
    const response = await client.next()
    client.destroy()
    return response
  }
  const stream = await get('/stream')
  assert.deepStrictEqual([stream.headers['transfer-encoding'], stream.headers.connection, stream.body], [undefined, 'close', 'ab'])
  const sized = await get('/sized')
  assert.deepStrictEqual([sized.headers['content-length'], sized.headers.connection, sized.body], ['2', 'keep-alive', 'ab'])
  const trailers = await get('/trailers')
  assert.deepStrictEqual([trailers.headers['content-length'], trailers.headers.connection, trailers.body], ['2', 'keep-alive', 'ab'])
})

test('HEAD, 204, 205 and 304 send no content, whatever is written', async (t) => {
  const server = await start(t, {
    handler (req, res) {
      res.status(Number(req.path.slice(1)))
      res.write('never seen')
      res.end('nor this')
    }
  })
  const cases = [['HEAD', 200, 'chunked', undefined], ['GET', 204, undefined, undefined], ['GET', 205, undefined, '0'], ['GET', 304, undefined, undefined]]
  const client = connect(server)
  t.after(() => client.destroy())
  for (const [method, status, coding, length] of cases) {
    client.write(request(method, `/${status}`))
    const response = await client.next(method)
    assert.deepStrictEqual([response.status, response.headers['transfer-encoding'], response.headers['content-length'], response.body], [status, coding, length, ''])
  }
  client.write(request('GET', '/200'))
  assert.strictEqual((await client.next()).body, 'never seennor this')
})

test('HEAD of a returned stream does not wait for its end', async (t) => {
  const cancelled = deferred()
  const server = await start(t, {
    async * handler () {
      try {
        for (;;) { yield 'x'; await turn() }
      } finally {
        cancelled.resolve()
      }
    }
  })
  assert.strictEqual((await ask(server, 'HEAD', '/')).headers['transfer-encoding'], 'chunked')
  await within(cancelled.promise, 'the end of the source')
})

test('Connection: close goes out with a stream and is obeyed', async (t) => {
  const server = await start(t, { handler (req, res) { res.header('Connection', 'close').write('a'); res.end() } })
  const client = connect(server)
  client.write(request('GET', '/'))
  assert.strictEqual((await client.next()).headers.connection, 'close')
  assert.strictEqual(await client.ended(), '')
  client.destroy()
})

test('both engines send the same head and the same chunks', { skip: probe().binary === null && 'the native engine is not built' }, async (t) => {
  const handler = async (req, res) => {
    res.header('X-L', '\xe9').trailers({ 'X-T': '\xe9', 'X-U': ['1', '2'] })
    res.hints({ Link: '</a>; rel=preload' })
    res.write('a')
    await turn()
    res.end('b')
  }
  const seen = []
  for (const engine of ['native', 'node']) {
    const server = await start(t, { engine, handler })
    const client = connect(server)
    client.write(request('GET', '/'))
    const { raw: hints } = await client.next()
    const { head, chunks, trailers } = await client.next()
    seen.push([hints, head.replace(/Date: .*/, ''), chunks, trailers])
    client.destroy()
  }
  assert.deepStrictEqual(seen[0], seen[1])
})

// ---- state ----

test('what comes too late throws', async (t) => {
  const twice = 'ERR_MILLRACE_ALREADY_ANSWERED'
  assert.strictEqual(await codeOf(t, (res) => { res.send('x'); res.write('y') }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.send('y') }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.header('X', '1') }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.status(201) }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.end(); res.end() }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.end(); res.write('y') }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.hints({}) }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write('x'); res.end(); res.trailers({}) }), twice)
  assert.strictEqual(await codeOf(t, (res) => { res.write(5) }), 'ERR_MILLRACE_BODY_TYPE')
  assert.strictEqual(await codeOf(t, (res) => { res.write({}) }), 'ERR_MILLRACE_BODY_TYPE')
})

test('sent and finished of a stream', async (t) => {
  const states = deferred()
  const server = await start(t, {
    async handler (req, res) {
      const seen = [res.sent]
      res.write('x')
      seen.push(res.sent)
      res.end()
      states.resolve([...seen, await res.finished])
    }
  })
  await ask(server, 'GET', '/')
  assert.deepStrictEqual(await within(states.promise, 'the end'), [false, true, true])
})

test('lines cannot be split: headers, trailers, hints', async (t) => {
  for (const value of ['a\r\nb', 'a\nb', 'a\0b', '\u0100']) {
    assert.strictEqual(await codeOf(t, (res) => res.header('X', value)), 'ERR_MILLRACE_HEADER')
    assert.strictEqual(await codeOf(t, (res) => res.trailers({ X: value })), 'ERR_MILLRACE_HEADER')
    assert.strictEqual(await codeOf(t, (res) => res.hints({ X: value })), 'ERR_MILLRACE_HEADER')
    assert.strictEqual(await codeOf(t, (res) => res.inform(102, { X: value })), 'ERR_MILLRACE_HEADER')
  }
  assert.strictEqual(await codeOf(t, (res) => res.trailers({ 'X\r\nY': '1' })), 'ERR_MILLRACE_HEADER')
  assert.strictEqual(await codeOf(t, (res) => res.hints({ 'X: y\r\nY': '1' })), 'ERR_MILLRACE_HEADER')
})

// ---- trailers and interim answers ----

test('trailers follow the content of streams and of whole answers', async (t) => {
  const server = await start(t, {
    routes: {
      '/stream': (req, res) => { res.write('a'); res.trailers({ 'X-Sum': '1', 'X-L': '\xe9' }); res.end('b') },
      '/whole': (req, res) => { res.trailers([['X-Sum', '2']]).send('whole') }
    }
  })
  const stream = await ask(server, 'GET', '/stream')
  assert.deepStrictEqual([stream.body, stream.trailers], ['ab', { 'x-sum': '1', 'x-l': '\xe9' }])
  const whole = await ask(server, 'GET', '/whole')
  assert.deepStrictEqual([whole.body, whole.trailers], ['whole', { 'x-sum': '2' }])
})

test('fields that frame or route a message cannot be trailers', async (t) => {
  for (const name of ['Content-Length', 'Content-Type', 'Host', 'Set-Cookie', 'Trailer', 'Cache-Control', 'Content-Encoding']) {
    assert.strictEqual(await codeOf(t, (res) => res.trailers({ [name]: '1' })), 'ERR_MILLRACE_HEADER', name)
  }
  assert.strictEqual(await codeOf(t, (res) => res.trailers({ 'Transfer-Encoding': 'chunked' })), 'ERR_MILLRACE_HEADER')
})

test('103 goes before the answer, large or small', async (t) => {
  const large = 'x'.repeat(200_000)
  const server = await start(t, {
    routes: {
      '/small': async (req, res) => { res.hints({ Link: '</a.css>; rel=preload' }); await turn(); return 'small' },
      '/large': (req, res) => { res.hints({ Link: ['</a>', '</b>'] }); res.send(Buffer.from(large)) },
      '/102': (req, res) => { res.inform(102); res.inform(199, { 'X-A': '1' }); res.write('s'); res.end() }
    }
  })
  const small = await exchange(server, request('GET', '/small'), ['GET', 'GET'])
  assert.strictEqual(small[0].raw, 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n')
  assert.strictEqual(small[1].body, 'small')
  const two = await exchange(server, request('GET', '/large'), ['GET', 'GET'])
  assert.deepStrictEqual([two[0].status, two[0].headers.link, two[1].body === large], [103, '</a>, </b>', true])
  const three = await exchange(server, request('GET', '/102'), ['GET', 'GET', 'GET'])
  assert.deepStrictEqual(three.map(({ status }) => status), [102, 199, 200])
  assert.strictEqual(three[1].headers['x-a'], '1')
})

test('HTTP/1.0 clients get no interim answers', async (t) => {
  const server = await start(t, { handler (req, res) { res.hints({ Link: '</a>' }); return 'x' } })
  assert.strictEqual((await exchange(server, 'GET / HTTP/1.0\r\n\r\n'))[0].status, 200)
})

test('only 102 to 199 are interim', async (t) => {
  for (const status of [100, 101, 200, 102.5, '103', undefined]) {
    assert.strictEqual(await codeOf(t, (res) => res.inform(status)), 'ERR_MILLRACE_STATUS')
  }
})

// ---- order ----

test('pipelined streams leave in order', async (t) => {
  const gate = deferred()
  const ready = deferred()
  const server = await start(t, {
    routes: {
      '/slow': async (req, res) => { res.write('slow '); await gate.promise; res.write('and '); await turn(); res.end('steady') },
      '/fast': async (req, res) => { res.write('fast '); await turn(); res.end('one'); ready.resolve() },
      '/third': (req, res) => { res.trailers({ 'X-T': '3' }).send('third') }
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/slow') + request('GET', '/fast') + request('GET', '/third'))
  await within(ready.promise, 'the second')
  await turns(10)
  gate.resolve()
  assert.strictEqual((await client.next()).body, 'slow and steady')
  assert.strictEqual((await client.next()).body, 'fast one')
  assert.deepStrictEqual((await client.next()).trailers, { 'x-t': '3' })
})

test('a stream is answered while its request still comes', async (t) => {
  const server = await start(t, {
    async handler (req, res) {
      for await (const piece of req) res.write(piece)
      res.end('.')
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc')
  while (!client.pending.includes('abc')) await turn()
  client.write('def')
  assert.strictEqual((await client.next('POST')).body, 'abcdef.')
})

// ---- back-pressure ----

// Reads the response's head and then nothing, until told to go on.
async function stalled (server, target) {
  const client = connect(server)
  await once(client.socket, 'connect')
  client.socket.pause()
  client.write(request('GET', target))
  return client
}

// Reads on, and counts without keeping.
async function swallow (client, isWhole) {
  client.socket.removeAllListeners('data')
  let size = 0
  const whole = new Promise((resolve) => client.socket.on('data', (chunk) => { if (isWhole(size += chunk.length, chunk)) resolve() }))
  client.socket.resume()
  await within(whole, 'all of the answer')
  return size
}

test('a slow client: write says so, drained waits, and memory stays small', async (t) => {
  const piece = Buffer.alloc(64 * 1024, 0x78)
  let growth
  let slow = 0
  const stream = (waits) => async (req, res) => {
    for (let i = 0; i < 512; i++) {
      const own = Buffer.from(piece) // of its own, so that what waits is seen
      if (!res.write(own)) {
        slow++
        growth.look()
        if (waits) await res.drained()
      }
    }
    res.end()
  }
  const server = await start(t, { limits: { outgoingBytes: 64 * MIB }, routes: { '/waits': stream(true), '/heedless': stream(false) } })
  const run = async (target) => {
    growth = new Growth()
    slow = 0
    const client = await stalled(server, target)
    await turns(200)
    const size = await swallow(client, (_, chunk) => chunk.subarray(-5).toString() === '0\r\n\r\n')
    client.destroy()
    assert.ok(size > 32 * MIB)
    return growth
  }
  const { memory, rss } = await run('/waits')
  assert.ok(slow > 0, 'the client was never slow')
  assert.ok(memory < 16 * MIB && rss < 16 * MIB, `grew by ${memory}, RSS by ${rss}`)
  const control = await run('/heedless')
  assert.ok(control.memory >= 16 * MIB || control.rss >= 16 * MIB, `the control grew by only ${control.memory}, RSS by ${control.rss}`)
})

test('what is heedlessly written ends the connection at four times limits.outgoingBytes', async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    limits: { outgoingBytes: MIB },
    async handler (req, res) {
      let written = 0
      for (; written < 256 * MIB && !req.aborted; written += MIB) {
        res.write(Buffer.alloc(MIB))
        await turn()
      }
      outcome.resolve([written < 256 * MIB, await res.finished, res.write('more'), await res.drained()])
    }
  })
  const client = await stalled(server, '/')
  assert.deepStrictEqual(await within(outcome.promise, 'the end'), [true, false, false, false])
  client.destroy()
})

test('drained resolves at once when nothing waits, and to false when the client goes', async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    async handler (req, res) {
      const before = await res.drained()
      while (res.write(Buffer.alloc(MIB)));
      const waiting = res.drained()
      outcome.began()
      outcome.resolve([before, await waiting])
    }
  })
  const began = new Promise((resolve) => { outcome.began = resolve })
  const client = await stalled(server, '/')
  await within(began, 'a slow client')
  client.reset()
  assert.deepStrictEqual(await within(outcome.promise, 'the end'), [true, false])
})

test('a large Buffer that is taken away before it has left does not bring the server down', async (t) => {
  const server = await start(t, {
    routes: {
      '/send': (req, res) => {
        const bytes = new Uint8Array(8 * MIB).fill(0x78)
        res.send(bytes)
        structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
      },
      '/write': (req, res) => {
        const bytes = new Uint8Array(8 * MIB).fill(0x78)
        res.write(bytes)
        structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
        res.end()
      },
      '/changed': (req, res) => {
        const bytes = new Uint8Array(8 * MIB).fill(0x78)
        res.send(bytes)
        bytes.fill(0x79)
      },
      '/ok': () => 'ok'
    }
  })
  for (const target of ['/send', '/write', '/changed']) {
    const client = await stalled(server, target)
    await turns(20)
    client.socket.resume()
    // Whole, or cut: either way the client is not deceived about the length.
    await Promise.race([client.next().then(() => {}, () => {}), client.ended()])
    client.destroy()
    assert.strictEqual((await ask(server, 'GET', '/ok')).body, 'ok', target)
  }
})

test('a large Buffer arrives as it was', async (t) => {
  const bytes = Buffer.alloc(3 * MIB)
  for (let i = 0; i < bytes.length; i++) bytes[i] = 97 + i % 26
  const server = await start(t, { routes: { '/send': () => bytes, '/write': (req, res) => { res.write(bytes); res.end(bytes) } } })
  assert.ok((await ask(server, 'GET', '/send')).body === bytes.toString())
  assert.ok((await ask(server, 'GET', '/write')).body === bytes.toString().repeat(2))
})

// ---- streams of Node and of the web ----

test('stream() is a Writable: pipe and pipeline', async (t) => {
  const piece = Buffer.alloc(100_000, 0x78)
  const server = await start(t, {
    routes: {
      '/pipe': (req, res) => { Readable.from([piece, piece, piece]).pipe(res.stream()) },
      '/pipeline': (req, res) => pipeline(Readable.from([piece, piece, piece]), res.stream()),
      '/text': (req, res) => { const out = res.type('text').stream(); out.write('grü'); out.end('ß') },
      '/empty': (req, res) => { res.stream().end() }
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/pipe')).body.length, 300_000)
  assert.strictEqual((await ask(server, 'GET', '/pipeline')).body.length, 300_000)
  assert.strictEqual((await ask(server, 'GET', '/text')).body, 'grüß')
  const empty = await ask(server, 'GET', '/empty')
  assert.deepStrictEqual([empty.body, empty.headers['content-length']], ['', '0'])
})

// The client gets a piece, and then the end without the last chunk.
async function isCut (server, target, piece) {
  const client = connect(server)
  client.write(request('GET', target))
  const bytes = await client.ended()
  client.destroy()
  return bytes.includes(piece) && !bytes.endsWith('0\r\n\r\n')
}

test('a Writable that is destroyed midway cuts the answer', async (t) => {
  const lines = quiet(t)
  const server = await start(t, {
    routes: {
      '/quiet': (req, res) => { const out = res.stream(); out.write('first', () => setImmediate(() => out.destroy())) },
      '/loud': (req, res) => { const out = res.stream(); out.write('first', () => setImmediate(() => out.destroy(new Error('disk')))) }
    }
  })
  assert.ok(await isCut(server, '/quiet', 'first'))
  assert.deepStrictEqual(lines, [])
  assert.ok(await isCut(server, '/loud', 'first'))
  assert.strictEqual(lines.length, 1)
  assert.match(lines[0], /disk/)
})

test('a Writable whose client goes is closed, without an error', async (t) => {
  const closed = deferred()
  const server = await start(t, {
    handler (req, res) {
      const source = new Readable({ read () {} }) // which stalls
      source.push('first')
      const out = res.stream()
      out.on('close', () => closed.resolve(out.errored))
      source.pipe(out)
    }
  })
  const client = connect(server)
  client.write(request('GET', '/'))
  while (!client.pending.includes('first')) await turn()
  client.reset()
  assert.strictEqual(await within(closed.promise, 'close'), null)
})

const SOURCES = {
  'a Readable': (stop, pieces) => {
    const iterator = pieces()
    return new Readable({
      read () { iterator.next().then(({ done, value }) => this.push(done ? null : value), (err) => this.destroy(err)) }
    }).on('close', stop)
  },
  'a ReadableStream': (stop, pieces) => {
    const iterator = pieces()
    return new ReadableStream({
      async pull (controller) {
        const { done, value } = await iterator.next()
        if (done) controller.close()
        else controller.enqueue(Buffer.from(value))
      },
      cancel: stop
    })
  },
  'a Response': (stop, pieces) => new Response(SOURCES['a ReadableStream'](stop, pieces), { headers: { 'x-r': '1' } }),
  'an async generator': (stop, pieces) => {
    const run = async function * () {
      try {
        yield * pieces()
      } finally {
        stop()
      }
    }
    return run()
  },
  'an iterator that stalls': (stop, pieces) => {
    const iterator = pieces()
    return { [Symbol.asyncIterator]: () => ({ next: () => iterator.next(), return: async () => { stop(); return { done: true, value: undefined } } }) }
  }
}

for (const [name, make] of Object.entries(SOURCES)) {
  test(`${name}, returned: streamed as it comes`, async (t) => {
    const gate = deferred()
    const server = await start(t, { handler: () => make(() => {}, async function * () { yield 'first '; await gate.promise; yield 'second' }) })
    const client = connect(server)
    t.after(() => client.destroy())
    client.write(request('GET', '/'))
    while (!client.pending.includes('first')) await turn()
    gate.resolve()
    assert.strictEqual((await client.next()).body, 'first second')
  })

  test(`${name}, returned: an error before the first piece is a 500`, async (t) => {
    const server = await start(t, {
      handler: () => make(() => {}, async function * () { throw new Error('early') }), // eslint-disable-line require-yield
      error: (err) => err.message
    })
    const response = await ask(server, 'GET', '/')
    assert.deepStrictEqual([response.status, response.body], [500, 'early'])
  })

  test(`${name}, returned: an error later cuts the answer and is logged once`, async (t) => {
    const lines = quiet(t)
    const server = await start(t, { handler: () => make(() => {}, async function * () { yield 'first'; await turns(3); throw new Error('late') }) })
    assert.ok(await isCut(server, '/', 'first'))
    assert.strictEqual(lines.length, 1)
    assert.match(lines[0], /late/)
  })

  // A generator that waits cannot be stopped before it goes on.
  const stalls = name !== 'an async generator'

  test(`${name}, returned: the source hears that the client went${stalls ? ', also while it stalls' : ''}`, async (t) => {
    const lines = quiet(t)
    const stopped = deferred()
    const server = await start(t, {
      handler: () => make(stopped.resolve, async function * () {
        yield 'first'
        if (stalls) await new Promise(() => {})
        for (;;) { yield 'more'; await turn() }
      })
    })
    const client = connect(server)
    client.write(request('GET', '/'))
    while (!client.pending.includes('first')) await turn()
    client.reset()
    await within(stopped.promise, 'the source')
    await turns(3)
    assert.deepStrictEqual(lines, [])
  })

  test(`${name}, returned: a slow client holds the source back`, async (t) => {
    let made = 0
    const gate = deferred()
    const server = await start(t, {
      handler: () => make(() => {}, async function * () {
        for (; made < 64; made++) yield Buffer.alloc(MIB)
        gate.resolve()
      })
    })
    const client = await stalled(server, '/')
    await turns(500)
    assert.ok(made < 32, `${made} MiB were made`)
    await swallow(client, (size) => size > 64 * MIB)
    await gate.promise
    client.destroy()
  })
}

test('a piece that cannot be sent is an error, before the first and after', async (t) => {
  const lines = quiet(t)
  const server = await start(t, {
    routes: {
      '/first': async function * () { yield 5; yield 'x' },
      '/later': async function * () { yield 'first'; await turns(3); yield 5 }
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/first')).status, 500)
  assert.ok(await isCut(server, '/later', 'first'))
  assert.strictEqual(lines.length, 2)
})

test('a Response that streams keeps its fields', async (t) => {
  const server = await start(t, {
    handler () {
      const headers = new Headers({ 'content-type': 'text/css', 'x-one': '1', 'transfer-encoding': 'chunked', 'keep-alive': 'x' })
      headers.append('set-cookie', 'a=1')
      headers.append('set-cookie', 'b=2')
      return new Response(new ReadableStream({ async pull (c) { await turns(2); c.enqueue(Buffer.from('x')); c.close() } }), { status: 203, headers })
    }
  })
  const response = await ask(server, 'GET', '/')
  assert.deepStrictEqual([response.status, response.body, response.headers['content-type'], response.headers['x-one'], response.headers['keep-alive']], [203, 'x', 'text/css', '1', undefined])
  assert.deepStrictEqual(response.lines.filter((line) => line.startsWith('set-cookie')), ['set-cookie: a=1', 'set-cookie: b=2'])
})

test('a Response of fetch() is passed on decoded', async (t) => {
  const { gzipSync } = require('node:zlib')
  const origin = await start(t, { handler: (req, res) => { res.header('Content-Encoding', 'gzip').type('text').send(gzipSync('x'.repeat(1000))) } })
  const proxy = await start(t, { handler: (req) => fetch(origin.url + req.path) })
  const response = await ask(proxy, 'GET', '/')
  assert.deepStrictEqual([response.status, response.headers['content-encoding'], response.body], [200, undefined, 'x'.repeat(1000)])
})

test('an error of the handler in the middle of its answer cuts it, and is told once', async (t) => {
  const lines = quiet(t)
  const told = []
  const handler = async (req, res) => { res.write('first'); await turns(3); throw new Error('midway') }
  const one = await start(t, { handler })
  assert.ok(await isCut(one, '/', 'first'))
  assert.strictEqual(lines.length, 1)
  const two = await start(t, { handler, error: (err, req, res) => { told.push(err.message, res.sent); return 'too late' } })
  assert.ok(await isCut(two, '/', 'first'))
  assert.deepStrictEqual(told, ['midway', true])
  assert.strictEqual(lines.length, 1)
})

test('writes after the client went do nothing and say false', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { res.write('first'); came.resolve(res) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const res = await came.promise
  client.reset()
  assert.strictEqual(await within(res.finished, 'the end'), false)
  assert.deepStrictEqual([res.write('x'), await res.drained(), res.end('y')], [false, false, false])
})
