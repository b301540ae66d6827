'use strict'
// What clients that go and programs that err do to a server: to themselves, and to nobody else.

const { test } = require('node:test')
const assert = require('node:assert')
const { Readable } = require('node:stream')
const { setTimeout: sleep } = require('node:timers/promises')
const { start, connect, ask, request, deferred, quiet, within } = require('./_client')

test('req.stream() piped on: a client that goes, or breaks its content, ends nothing else', async (t) => {
  const server = await start(t, { routes: { 'POST /pipe': (req, res) => { req.stream().pipe(res.stream()) }, '/ok': 'ok' } })
  const heads = ['Content-Length: 100\r\n\r\nabc', 'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n']
  for (const head of heads) {
    const client = connect(server)
    client.write(`POST /pipe HTTP/1.1\r\nHost: x\r\n${head}`)
    await sleep(50)
    if (head.startsWith('T')) client.write('zz\r\n')
    await sleep(50)
    client.reset()
    await sleep(50)
    assert.strictEqual((await ask(server, 'GET', '/ok')).body, 'ok')
  }
})

test('what is returned for a client that has gone is let go', async (t) => {
  const sources = []
  const went = []
  const server = await start(t, {
    async handler (req) {
      const gone = deferred()
      req.signal.addEventListener('abort', gone.resolve)
      went.push(gone.promise)
      await gone.promise
      const source = new Readable({ read () {} })
      sources.push(source)
      setImmediate(() => source.destroy(new Error('a source that fails later')))
      return source
    }
  })
  const client = connect(server)
  client.write(request('GET', '/'))
  while (went.length === 0) await sleep(5)
  client.reset()
  await within(went[0], 'the client to be seen going')
  while (sources.length === 0) await sleep(5)
  await sleep(20)
  assert.strictEqual(sources[0].destroyed, true)
})

test('memory that was transferred away before is no body: 500, and the connection goes on', async (t) => {
  quiet(t)
  const taken = () => {
    const bytes = new Uint8Array(9000)
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
    return bytes
  }
  const server = await start(t, { routes: { '/send': (req, res) => { res.send(taken()) }, '/return': () => taken(), '/ok': () => 'ok', '/empty': () => new Uint8Array(0) } })
  const client = connect(server)
  t.after(() => client.destroy())
  for (const path of ['/send', '/return']) {
    client.write(request('GET', path))
    assert.strictEqual((await client.next()).status, 500)
  }
  client.write(request('GET', '/empty') + request('GET', '/ok'))
  assert.strictEqual((await client.next()).status, 200)
  assert.strictEqual((await client.next()).body, 'ok')
})

test('time in which nothing happened is not held against a stream that goes on', async (t) => {
  const SIZE = 40000
  const server = await start(t, {
    timeouts: { send: 700 },
    async handler (req, res) {
      res.write('x')
      await sleep(1500)
      for (let i = 0; i < 200; i++) {
        if (!res.write(Buffer.alloc(SIZE))) await res.drained()
      }
      res.end()
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/'))
  assert.strictEqual((await client.next()).body.length, 1 + 200 * SIZE)
})

test('trailers that no engine sends, and events with a length, are refused where they are given', async (t) => {
  const codes = []
  const server = await start(t, {
    routes: {
      '/trailers': (req, res) => {
        try { res.trailers({ x: 'a'.repeat(70000) }) } catch (err) { codes.push(err.code) }
        return 'ok'
      },
      '/sse': (req, res) => {
        res.header('Content-Length', '5')
        try { res.sse({ keepAlive: 5 }) } catch (err) { codes.push(err.code) }
        return '12345'
      }
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/trailers')).body, 'ok')
  assert.strictEqual((await ask(server, 'GET', '/sse')).body, '12345')
  await sleep(30)
  assert.deepStrictEqual(codes, ['ERR_MILLRACE_HEADER', 'ERR_MILLRACE_LENGTH'])
})

test('a stream that was cut tells so, also who asks for the first time afterwards', async (t) => {
  const begun = deferred()
  const server = await start(t, { handler (req, res) { res.write('x'); begun.resolve({ req, res }); return res } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const { req, res } = await begun.promise
  client.reset()
  await sleep(200)
  assert.strictEqual(req.aborted, true)
  assert.strictEqual(req.signal.aborted, true)
  assert.strictEqual(await within(res.finished, 'the end'), false)
})

test('content of a request whose answer came first does not wait when the next one has content, too', async (t) => {
  const held = deferred()
  const server = await start(t, {
    routes: {
      'POST /first': (req, res) => { held.resolve({ req, res }); return res },
      'POST /second': (req) => req.text(),
      '/kick': async () => {
        const { req, res } = await held.promise
        const text = req.text().catch((err) => err.code)
        res.send('first')
        outcome.resolve(text)
        return 'kicked'
      }
    }
  })
  const outcome = deferred()
  const client = connect(server)
  t.after(() => client.destroy())
  client.write('POST /first HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n')
  await held.promise
  client.write(`${'x'.repeat(10)}POST /second HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc`)
  await sleep(50)
  assert.strictEqual((await ask(server, 'GET', '/kick')).body, 'kicked')
  assert.ok(['x'.repeat(10), 'ERR_MILLRACE_BODY_UNREAD', 'ERR_MILLRACE_ABORTED'].includes(await within(Promise.resolve(outcome.promise), 'the content')))
})
