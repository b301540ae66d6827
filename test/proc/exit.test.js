'use strict'
// How a process with a server ends, and what a program can do in a handler without ending it.

const { test } = require('node:test')
const assert = require('node:assert')
const { start, run } = require('./_child')

test('process.exit() in a handler, in the middle of a batch', async () => {
  const { code, signal, err } = await start(async () => {
    const { open } = require('./_inside')
    const { connect, request } = require('../js/_client')
    let count = 0
    const { server } = await open({ handler: () => { if (++count === 3) process.exit(7); return 'x' } })
    connect(server).write(request('GET', '/').repeat(5))
  }).result
  assert.deepStrictEqual({ code, signal, err }, { code: 7, signal: null, err: '' })
})

test('process.exit() with requests in flight and answers not yet sent', async () => {
  const { code, err } = await start(async () => {
    const { open, pause } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const waiting = []
    const { server } = await open({ handler: (req, res) => { waiting.push(res) } })
    for (let i = 0; i < 5; i++) connect(server).write(request('POST', '/', {}, 'x'.repeat(100)))
    while (waiting.length < 5) await pause(2)
    for (const res of waiting) res.send('late')
    process.exit(3)
  }).result
  assert.deepStrictEqual({ code, err }, { code: 3, err: '' })
})

test('the process ends by itself after close(), also with a keep-alive client', async (t) => {
  await run(t, async () => {
    const { open } = require('./_inside')
    const { connect, request, exchange } = require('../js/_client')
    const { server } = await open({ handler: () => 'x', timeouts: { linger: 100 } })
    await exchange(server, request('GET', '/'))
    const stubborn = connect(server) // never ends its side by itself
    stubborn.socket.unref()
    stubborn.write(request('GET', '/'))
    await stubborn.next()
    await server.close({ deadline: 600000 })
  })
})

test('close() outside of everything ends a client that does not, by the linger time alone', async (t) => {
  await run(t, async () => {
    const { open, until } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const { server, stats } = await open({ handler: () => 'x', timeouts: { linger: 50 } })
    const client = connect(server)
    client.write(request('GET', '/'))
    await client.next()
    setTimeout(() => server.close({ deadline: 600000 }), 20)
    await client.ended() // its own side stays open
    await until('the server is gone', () => stats() === undefined)
    client.destroy()
  })
})

test('a server keeps its process alive, and SIGTERM ends it', async () => {
  const { child, result } = start(async () => {
    await require('./_inside').open({ handler: () => 'x' })
    process.send('up')
  }, { ipc: true })
  await new Promise((resolve) => { child.once('message', resolve) })
  await new Promise((resolve) => { setTimeout(resolve, 100) })
  assert.strictEqual(child.exitCode, null)
  child.kill('SIGTERM')
  const { code, signal } = await result
  assert.deepStrictEqual({ code, signal }, { code: null, signal: 'SIGTERM' })
})

test('an exception in a timer that a handler set is the program\'s', async () => {
  const { code, err } = await start(async () => {
    const { open } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const { server } = await open({ handler: () => { setTimeout(() => { throw new Error('of the program') }) } })
    connect(server).write(request('GET', '/'))
  }).result
  assert.strictEqual(code, 1)
  assert.match(err, /of the program/)
})

test('uncaughtException hears of timers, ticks, microtasks and rejections; everybody is answered', async (t) => {
  await run(t, async () => {
    const { open, until } = require('./_inside')
    const assert = require('node:assert')
    const { exchange, request } = require('../js/_client')
    const heard = []
    process.on('uncaughtException', (err) => { heard.push(err?.message ?? String(err)) })
    process.on('unhandledRejection', (err) => { heard.push(err?.message ?? String(err)) })
    const ways = {
      '/timer': () => { setTimeout(() => { throw new Error('timer') }) },
      '/immediate': () => { setImmediate(() => { throw new Error('immediate') }) },
      '/tick': () => { process.nextTick(() => { throw new Error('tick') }) },
      '/microtask': () => { queueMicrotask(() => { throw new Error('microtask') }) },
      '/null': () => { process.nextTick(() => { throw null }) },
      '/rejection': () => { Promise.reject(new Error('rejection')) }
    }
    const { server } = await open({ handler: (req) => { ways[req.path]?.(); return req.path } })
    const paths = [...Object.keys(ways), ...Object.keys(ways)].flatMap((path) => [path, '/good'])
    const answers = await exchange(server, paths.map((path) => request('GET', path)).join(''), paths.map(() => 'GET'))
    assert.deepStrictEqual(answers.map(({ body }) => body), paths)
    await until('all were heard of', () => heard.length === 12)
    assert.deepStrictEqual(heard.sort(), ['immediate', 'microtask', 'null', 'rejection', 'tick', 'timer'].flatMap((x) => [x, x]))
    await server.close({ deadline: 0 })
  })
})

test('whatever a handler throws, rejects with or returns, the others of its batch are answered', async (t) => {
  await run(t, async () => {
    const { open } = require('./_inside')
    const assert = require('node:assert')
    const { connect, exchange, request } = require('../js/_client')
    const hostile = new Proxy(function () {}, {
      get () { throw new Error('get') },
      has () { throw new Error('has') },
      getPrototypeOf () { throw new Error('proto') },
      ownKeys () { throw new Error('keys') },
      getOwnPropertyDescriptor () { throw new Error('descriptor') }
    })
    const hostileObject = new Proxy({}, { get () { throw null }, getPrototypeOf () { throw null } })
    const bad = {
      null: () => { throw null },
      undefined: () => { throw undefined },
      number: () => { throw 0 },
      symbol: () => { throw Symbol('thrown') },
      frozen: () => { throw Object.freeze(new Error('frozen')) },
      bare: () => { throw Object.create(null) },
      stackless: () => { throw Object.defineProperty(new Error('x'), 'stack', { get () { throw new Error('stack') } }) },
      proxy: () => { throw hostile },
      proxyObject: () => { throw hostileObject },
      revoked: () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy },
      rejectUndefined: () => Promise.reject(),
      rejectNull: async () => { throw null },
      rejectProxy: async () => { throw hostileObject },
      deep: () => { const deeper = () => deeper(); deeper() },
      returnsProxy: () => hostileObject,
      returnsHostile: () => hostile,
      returnsSymbol: () => Symbol('returned'),
      returnsRevoked: () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy },
      circular: () => { const a = {}; a.a = a; return a },
      bigint: () => ({ a: 1n }),
      thenThrows: () => ({ then () { throw null } }),
      thenGetter: () => ({ get then () { throw null } }),
      thenRejects: () => ({ then (resolve, reject) { reject(); reject(); resolve(1) } }),
      toJsonThrows: () => ({ toJSON () { throw undefined } }),
      iteratorThrows: () => ({ [Symbol.asyncIterator] () { throw null } })
    }
    const fine = {
      good: () => 'good',
      twice: (req, res) => { res.send('first'); res.send('second') },
      thrice: async (req, res) => { res.send('first'); await null; return 'third' },
      answeredThenThrows: (req, res) => { res.send('first'); throw null }
    }
    let lines = 0
    console.error = () => { lines++; throw new Error('a log that throws') }
    const routes = Object.fromEntries(Object.entries({ ...bad, ...fine }).map(([name, fn]) => [`/${name}`, fn]))
    let batches = 0
    const { server, dispatcher } = await open({ routes: { ...routes, '/never': () => {} } })
    for (const error of [null, () => { throw null }, async () => { throw hostileObject }, () => hostileObject, (err, req, res) => { res.send(err) }]) {
      server.reload({ error })
      const names = Object.keys(bad).flatMap((name) => [name, 'good']).concat(Object.keys(fine))
      const silent = connect(server)
      silent.write(request('GET', '/never'))
      const before = dispatcher.batch
      const answers = await exchange(server, names.map((name) => request('GET', `/${name}`)).join(''), names.map(() => 'GET'))
      batches += dispatcher.batch - before
      names.forEach((name, i) => {
        const { status, body } = answers[i]
        if (name === 'good') assert.deepStrictEqual([status, body], [200, 'good'])
        else if (name in fine) assert.deepStrictEqual([status, body], [200, 'first'], name)
        else assert.ok(status >= 200 && status < 600, name)
        if (name in bad && error === null) assert.strictEqual(status, 500, name)
      })
      silent.destroy()
    }
    assert.ok(batches <= 5 * 2 * 6, `these were hardly batches: ${batches}`) // each counts two
    assert.ok(lines > 0)
    await server.close({ deadline: 0 })
  })
})

test('a failing program, a natural end: the exit code and the exit listener are its own', async () => {
  const { code, out } = await start(async () => {
    const { open } = require('./_inside')
    const { server } = await open({ handler: () => 'x' })
    process.on('exit', (code) => { console.log(`exits with ${code}`) })
    process.exitCode = 5
    await server.close()
  }).result
  assert.strictEqual(code, 5)
  assert.match(out, /exits with 5/)
})

test('serve() in an exit listener, and a server that is never closed there', async () => {
  const { code, err } = await start(() => {
    process.on('exit', () => { require('./_inside').open({ handler: () => 'x' }) })
  }).result
  assert.deepStrictEqual({ code, err }, { code: 0, err: '' })
})
