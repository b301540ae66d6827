'use strict'
// Server-sent events: their text, keep-alive comments, back-pressure and ends.

const { test } = require('node:test')
const assert = require('node:assert')
const { once } = require('node:events')
const { start, connect, ask, request, deferred, within } = require('./_client')

const turn = () => new Promise((resolve) => setImmediate(resolve))

// What a handler's events are on the wire, behind the first comment.
async function sent (t, run, options) {
  const server = await start(t, {
    async handler (req, res) {
      const events = res.sse(options)
      await run(events)
      events.close()
    }
  })
  return ask(server, 'GET', '/')
}

test('the head and the first comment go out at once', async (t) => {
  const response = await sent(t, async () => {})
  assert.strictEqual(response.headers['content-type'], 'text/event-stream')
  assert.strictEqual(response.headers['cache-control'], 'no-cache')
  assert.strictEqual(response.headers['transfer-encoding'], 'chunked')
  assert.strictEqual(response.body, ':\n\n')
})

test('retry in the options takes the place of the comment', async (t) => {
  assert.strictEqual((await sent(t, async () => {}, { retry: 5000 })).body, 'retry: 5000\n\n')
})

const EVENTS = [
  ['text', 'data: text\n\n'],
  ['', 'data: \n\n'],
  ['two\nlines\r\nand\ra third', 'data: two\ndata: lines\ndata: and\ndata: a third\n\n'],
  [{ data: 'x', event: 'tick', id: 7, retry: 100 }, 'event: tick\nid: 7\nretry: 100\ndata: x\n\n'],
  [{ data: { a: [1] } }, 'data: {"a":[1]}\n\n'],
  [{ data: null }, 'data: null\n\n'],
  [5, 'data: 5\n\n'],
  [null, 'data: null\n\n'],
  [{ comment: 'a\nb' }, ': a\n: b\n\n'],
  [{ id: '' }, 'id: \n\n'],
  [{ data: 'grüß' }, 'data: grüß\n\n']
]

test('events are written as the standard reads them', async (t) => {
  const response = await sent(t, async (events) => {
    for (const [event] of EVENTS) assert.strictEqual(await events.send(event), true)
  })
  assert.strictEqual(response.body, ':\n\n' + EVENTS.map(([, text]) => text).join(''))
})

test('what would make other lines is refused', async (t) => {
  const codes = []
  await sent(t, async (events) => {
    const bad = [{ event: 'a\nb' }, { id: 'a\rb' }, { id: 'a\0b' }, { retry: 'soon' }, { retry: -1 }, { dat: 'x' }]
    for (const event of bad) codes.push(await events.send(event).then(() => 'sent', ({ code }) => code))
  })
  assert.deepStrictEqual(codes, Array(6).fill('ERR_MILLRACE_EVENT'))
})

test('bad options are refused before anything is sent', async (t) => {
  const server = await start(t, {
    handler (req, res) {
      const codes = [{ keepAlive: -1 }, { keepAlive: 1.5 }, { keepalive: 1 }, null, { retry: 'x' }].map((options) => {
        try {
          res.sse(options)
          return 'opened'
        } catch (err) {
          return err.code
        }
      })
      return codes
    }
  })
  assert.deepStrictEqual(JSON.parse((await ask(server, 'GET', '/')).body), [
    'ERR_MILLRACE_OPTION_RANGE', 'ERR_MILLRACE_OPTION_RANGE', 'ERR_MILLRACE_OPTION', 'ERR_MILLRACE_OPTION', 'ERR_MILLRACE_EVENT'
  ])
})

test('lastEventId is what the client saw last', async (t) => {
  const server = await start(t, {
    handler (req, res) {
      const events = res.sse()
      events.send(events.lastEventId)
      events.close()
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/', { 'Last-Event-ID': '42' })).body, ':\n\ndata: 42\n\n')
  assert.strictEqual((await ask(server, 'GET', '/')).body, ':\n\ndata: \n\n')
})

test('a quiet stream has comments that keep it alive, and none when told so', async (t) => {
  const server = await start(t, { routes: { '/kept': (req, res) => { res.sse({ keepAlive: 20 }) }, '/plain': (req, res) => { res.sse({ keepAlive: 0 }) } } })
  const plain = connect(server)
  const kept = connect(server)
  plain.write(request('GET', '/plain'))
  kept.write(request('GET', '/kept'))
  while (kept.pending.split(':\n\n').length < 4) await turn()
  assert.strictEqual(plain.pending.split(':\n\n').length, 2)
  plain.destroy()
  kept.destroy()
})

test('close ends the answer, and later events say false', async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    async handler (req, res) {
      const events = res.sse()
      const before = events.closed
      events.close()
      events.close()
      outcome.resolve([before, events.closed, await events.send('x')])
    }
  })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('GET', '/') + request('GET', '/'))
  assert.strictEqual((await client.next()).body, ':\n\n')
  assert.strictEqual((await client.next()).body, ':\n\n')
  assert.deepStrictEqual(await outcome.promise, [false, true, false])
})

test('an answer that the program itself ends ends the events', async (t) => {
  const outcome = deferred()
  const server = await start(t, {
    async handler (req, res) {
      const events = res.sse({ keepAlive: 1 })
      res.end('data: last\n\n')
      outcome.resolve([events.closed, await events.send('x')])
    }
  })
  assert.strictEqual((await ask(server, 'GET', '/')).body, ':\n\ndata: last\n\n')
  assert.deepStrictEqual(await outcome.promise, [true, false])
})

test('a client that goes closes the events', async (t) => {
  const came = deferred()
  const server = await start(t, { handler (req, res) { came.resolve([res.sse({ keepAlive: 1 }), res]) } })
  const client = connect(server)
  client.write(request('GET', '/'))
  const [events, res] = await came.promise
  client.reset()
  await within(res.finished, 'the end')
  await turn()
  assert.deepStrictEqual([events.closed, await events.send('x')], [true, false])
})

test('a slow client holds the sender back', async (t) => {
  const data = 'x'.repeat(1 << 20)
  let count = 0
  const done = deferred()
  const server = await start(t, {
    async handler (req, res) {
      const events = res.sse()
      while (count < 64 && await events.send(data)) count++
      events.close()
      done.resolve()
    }
  })
  const client = connect(server)
  await once(client.socket, 'connect')
  client.socket.pause()
  client.write(request('GET', '/'))
  for (let i = 0; i < 500; i++) await turn()
  assert.ok(count < 32, `${count} MiB were sent`)
  client.socket.removeAllListeners('data')
  client.socket.resume()
  await within(done.promise, 'the rest')
  assert.strictEqual(count, 64)
  client.destroy()
})

test('HEAD does not wait for events', async (t) => {
  const server = await start(t, { handler (req, res) { res.sse() } })
  const client = connect(server)
  t.after(() => client.destroy())
  client.write(request('HEAD', '/') + request('HEAD', '/'))
  assert.strictEqual((await client.next('HEAD')).headers['content-type'], 'text/event-stream')
  assert.strictEqual((await client.next('HEAD')).status, 200)
})
