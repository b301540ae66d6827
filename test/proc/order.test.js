'use strict'
// When promise jobs, ticks and immediates of handlers run, and that answers given at any moment
// leave without a further event to push them.

const { test } = require('node:test')
const { run } = require('./_child')

test('ticks and promise jobs run when the batch is through, before immediates and timers', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { exchange, request } = require('../js/_client')
    const seen = []
    const { server } = await open({
      handler: (req) => {
        const name = req.path.slice(1)
        seen.push(`handler ${name}`)
        setTimeout(() => seen.push(`timer ${name}`))
        setImmediate(() => seen.push(`immediate ${name}`))
        Promise.resolve().then(() => {
          seen.push(`job ${name}`)
          process.nextTick(() => seen.push(`late tick ${name}`))
        })
        process.nextTick(() => {
          seen.push(`tick ${name}`)
          queueMicrotask(() => seen.push(`late job ${name}`))
        })
        return name
      }
    })
    await exchange(server, request('GET', '/a') + request('GET', '/b'), ['GET', 'GET'])
    await until('all ran', () => seen.length === 14)
    assert.deepStrictEqual(seen.slice(0, 2), ['handler a', 'handler b'])
    const first = (kind) => seen.findIndex((text) => text.startsWith(kind))
    for (const kind of ['tick', 'job', 'late job', 'late tick']) {
      assert.ok(first(kind) < first('immediate') && first(kind) < first('timer'), kind)
    }
    await server.close({ deadline: 0 })
  })
})

// The client is in the parent: in the child nothing but the answer itself can wake the loop.
test('answers from timers, immediates, ticks, other threads and files leave an idle loop', async (t) => {
  const assert = require('node:assert')
  const { start } = require('./_child')
  const { connect, request } = require('../js/_client')
  const { child, result } = start(async () => {
    const fs = require('node:fs')
    const { open } = require('./_inside')
    const big = 'b'.repeat(200000)
    const routes = {
      '/timer': (req, res, body) => { setTimeout(() => res.send(body), 30) },
      '/immediate': (req, res, body) => { setImmediate(() => res.send(body)) },
      '/afterTimer': (req, res, body) => { setTimeout(() => setImmediate(() => process.nextTick(() => res.send(body))), 30) },
      '/promise': async (req, res, body) => { await new Promise((resolve) => { setTimeout(resolve, 30) }); return body },
      '/file': (req, res, body) => { fs.stat('.', () => res.send(body)) },
      '/poolPromise': async (req, res, body) => { await fs.promises.stat('.'); return body },
      '/finishedOfAnother': (req, res, body) => { setTimeout(() => res.send(body), 30) }
    }
    const all = {}
    for (const [path, fn] of Object.entries(routes)) {
      all[path] = (req, res) => fn(req, res, 'small')
      all[`${path}/big`] = (req, res) => fn(req, res, big)
    }
    const { server } = await open({ routes: all })
    process.once('message', () => { server.close({ deadline: 0 }).then(() => process.disconnect()) })
    process.send({ port: server.port, paths: Object.keys(all) })
  }, { ipc: true })
  const { port, paths } = await new Promise((resolve) => { child.once('message', resolve) })
  const client = connect({ port })
  for (const path of paths) {
    client.write(request('GET', path))
    const { body } = await client.next()
    assert.strictEqual(body.length, path.endsWith('big') ? 200000 : 5, path)
  }
  client.destroy()
  child.send('close')
  const { code, err } = await result
  assert.deepStrictEqual({ code, err }, { code: 0, err: '' })
})

// Each server's answer is given by what happens in the other, in whatever order their handles run.
test('two servers: answers for one given in callbacks of the other leave at once', async (t) => {
  const assert = require('node:assert')
  const { start } = require('./_child')
  const { connect, request } = require('../js/_client')
  const { child, result } = start(async () => {
    const { open } = require('./_inside')
    const waiting = []
    const wake = (text) => { for (const res of waiting.splice(0)) res.send(text) }
    const routes = {
      '/wait': (req, res) => { waiting.push(res) },
      '/wake': () => { wake('by a handler'); return 'woke' },
      '/wakeLater': (req, res) => { setTimeout(() => { res.finished.then(() => wake('by finished')); res.send('woke') }, 5) },
      '/wakeBig': (req, res) => { setTimeout(() => { res.finished.then(() => wake('b'.repeat(100000))); res.send('w'.repeat(100000)) }, 5) }
    }
    const a = await open({ routes })
    const b = await open({ routes })
    process.on('message', (what) => {
      if (what === 'waiting') process.send(waiting.length)
      else Promise.all([a.server.close({ deadline: 0 }), b.server.close({ deadline: 0 })]).then(() => process.disconnect())
    })
    process.send([a.server.port, b.server.port])
  }, { ipc: true })
  const message = (what) => new Promise((resolve) => {
    child.once('message', resolve)
    if (what !== undefined) child.send(what)
  })
  const ports = await message()
  const clients = ports.map((port) => connect({ port }))
  const pairs = [clients, [...clients].reverse()]
  // Several times: now and then Node wakes a loop for reasons of its own, but not every time.
  for (const [asker, waker] of [...pairs, ...pairs, ...pairs, ...pairs]) {
    for (const path of ['/wake', '/wakeLater', '/wakeBig']) {
      asker.write(request('GET', '/wait'))
      while (await message('waiting') !== 1);
      waker.write(request('GET', path))
      const [woken, woke] = await Promise.all([asker.next(), waker.next()])
      assert.match(woke.body, /^w/)
      assert.match(woken.body, /^b/)
    }
  }
  for (const client of clients) client.destroy()
  child.send('close')
  const { code, err } = await result
  assert.deepStrictEqual({ code, err }, { code: 0, err: '' })
})

test('close() and reload() inside handlers, in the middle of a batch', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('./_inside')
    const { connect, exchange, request } = require('../js/_client')
    const six = (path) => request('GET', '/x').repeat(3) + request('GET', path) + request('GET', '/x').repeat(2)
    const bodies = (answers) => answers.map(({ body }) => body)
    // reload: the requests of this batch are answered by the old table, those after it by the new one
    let server
    const routes = (name) => ({ '/x': () => name, '/reload': () => { server.reload({ routes: routes('new') }); return 'reloaded' } })
    server = (await open({ routes: routes('old') })).server
    assert.deepStrictEqual(bodies(await exchange(server, six('/reload'), Array(6).fill('GET'))), ['old', 'old', 'old', 'reloaded', 'old', 'old'])
    assert.deepStrictEqual(bodies(await exchange(server, request('GET', '/x'))), ['new'])
    for (let i = 0; i < 500; i++) server.reload({ routes: { '/x': `number ${i}`, '/y': () => 'y' } })
    assert.deepStrictEqual(bodies(await exchange(server, request('GET', '/x'))), ['number 499'])
    await server.close({ deadline: 0 })
    // close: what was asked before is answered, the connection ends
    for (const deadline of [5000, 0]) {
      let closed
      const made = await open({ routes: { '/x': () => 'x', '/close': () => { closed = made.server.close({ deadline }); return 'closing' } } })
      const client = connect(made.server)
      client.write(six('/close'))
      const text = await client.ended()
      assert.ok(text.includes('closing') || deadline === 0, text)
      assert.ok(text.split('HTTP/1.1 200').length >= 4, text)
      client.destroy()
      await closed
      await assert.rejects(exchangeOf(made.server))
    }
    function exchangeOf (target) {
      return new Promise((resolve, reject) => connect(target).socket.once('connect', resolve).once('error', reject))
    }
  })
})

test('close() with a deadline while requests are held, twice, and from their own callbacks', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const held = []
    const finished = []
    const { server, dispatcher } = await open({
      handler: (req, res) => {
        held.push(res)
        res.finished.then((isComplete) => { finished.push(isComplete); return server.close({ deadline: 0 }) })
        req.signal.addEventListener('abort', () => { server.close({ deadline: 0 }) })
      }
    })
    const clients = Array.from({ length: 10 }, () => connect(server))
    for (const client of clients) client.write(request('GET', '/').repeat(3))
    await until('all have come', () => held.length === 30)
    await Promise.all([server.close({ deadline: 20 }), server.close({ deadline: 10 })])
    await until('all were told', () => finished.length === 30)
    assert.ok(finished.every((isComplete) => isComplete === false))
    assert.strictEqual(dispatcher.watched.size, 0)
    for (const res of held) assert.strictEqual(res.send('too late'), false)
    for (const client of clients) {
      await client.ended()
      client.destroy()
    }
  })
})
