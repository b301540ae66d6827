'use strict'
// More than the rings hold, in every direction.

const { test } = require('node:test')
const { run } = require('./_child')

test('4000 requests that wait when the loop comes back, answered at once, later, and all together', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const CLIENTS = 100
    const EACH = 40
    const held = []
    const { server, counts } = await open({
      routes: {
        '/now/:i': (req) => req.params.i,
        '/soon/:i': async (req) => { await null; return req.params.i },
        '/later/:i': (req, res) => { setTimeout(() => res.send(req.params.i), 2) },
        '/held/:i': (req, res) => { held.push([req, res]) }
      }
    })
    async function round (path) {
      const clients = Array.from({ length: CLIENTS }, () => connect(server))
      await Promise.all(clients.map(({ socket }) => new Promise((resolve) => { socket.once('connect', resolve) })))
      clients.forEach((client, c) => {
        let text = ''
        for (let i = 0; i < EACH; i++) text += request('GET', `${path}/${c * EACH + i}`)
        client.write(text) // small enough to be in the kernel before the server gets its turn
      })
      if (path === '/held') {
        await until('all have come', () => held.length === CLIENTS * EACH)
        held.reverse() // the last first
        for (const [req, res] of held) res.send(req.params.i)
      }
      await Promise.all(clients.map(async (client, c) => {
        for (let i = 0; i < EACH; i++) assert.strictEqual((await client.next()).body, String(c * EACH + i))
      }))
      for (const client of clients) client.destroy()
    }
    for (const path of ['/now', '/soon', '/later', '/held']) {
      counts.length = 0
      await round(path)
      assert.strictEqual(Math.max(...counts), 2048, path) // the ring was full
    }
    await server.close({ deadline: 0 })
  })
})

test('one connection that pipelines far more than may be in flight', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('./_inside')
    const { exchange, request } = require('../js/_client')
    const big = 'b'.repeat(70000)
    const COUNT = 500
    const ways = {
      '/now': (req) => req.search,
      '/timer': (req, res) => { setTimeout(() => res.send(req.search)) },
      '/immediate': (req, res) => { setImmediate(() => res.send(req.search)) },
      '/big': (req) => req.search + big,
      '/bigTimer': (req, res) => { setTimeout(() => res.send(req.search + big)) },
      '/bigImmediate': (req, res) => { setImmediate(() => res.send(req.search + big)) }
    }
    const { server } = await open({ routes: ways })
    for (const path of Object.keys(ways)) {
      const text = Array.from({ length: COUNT }, (_, i) => request('GET', `${path}?${i}`)).join('')
      const count = path.startsWith('/big') ? 130 : COUNT
      const answers = await exchange(server, text.split(/(?=GET )/).slice(0, count).join(''), Array(count).fill('GET'))
      answers.forEach(({ body }, i) => assert.strictEqual(body, `?${i}${path.startsWith('/big') ? big : ''}`))
    }
    await server.close({ deadline: 0 })
  })
})

test('answers of every size around the ring\'s, as text and bytes, at once and later', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { createHash } = require('node:crypto')
    const { open } = require('./_inside')
    const { ask, request, exchange } = require('../js/_client')
    const sizes = [0, 1, 47, 48, 49, 16383, 16384, 16385, 49151, 49152, 49153, 65536, 87381, 131072, 262143, 262144, 262145, 1 << 20, (1 << 20) + 1]
    const wide = 'ü€😀x' // 2, 3, 4 and 1 octets
    const make = {
      text: (n) => 'abcdefghij'.repeat(Math.ceil(n / 10)).slice(0, n),
      wide: (n) => wide.repeat(Math.ceil(n / 10)),
      bytes: (n) => Buffer.from('abcdefghij'.repeat(Math.ceil(n / 10)).slice(0, n)),
      shared: (n) => { const bytes = new Uint8Array(new SharedArrayBuffer(n)); bytes.fill(67); return bytes }
    }
    const hash = (body) => createHash('sha1').update(body).digest('hex')
    const { server } = await open({
      handler: async (req, res) => {
        const [kind, size, when] = req.path.slice(1).split('.')
        if (when === 'later') await new Promise((resolve) => { setTimeout(resolve) })
        res.send(make[kind](Number(size)))
      }
    })
    for (const kind of Object.keys(make)) {
      for (const when of ['now', 'later']) {
        const paths = sizes.map((size) => `/${kind}.${size}.${when}`)
        for (const [i, path] of paths.entries()) assert.strictEqual(hash((await ask(server, 'GET', path)).body), hash(Buffer.from(make[kind](sizes[i]))), path)
        const answers = await exchange(server, paths.map((path) => request('GET', path)).join(''), paths.map(() => 'GET'))
        answers.forEach(({ body }, i) => assert.strictEqual(hash(body), hash(Buffer.from(make[kind](sizes[i]))), paths[i]))
      }
    }
    await server.close({ deadline: 0 })
  })
})

test('an answer of 100 MiB', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const http = require('node:http')
    const { open } = require('./_inside')
    const SIZE = 100 << 20
    const { server } = await open({ routes: { '/bytes': () => Buffer.alloc(SIZE, 97), '/text': () => 'a'.repeat(SIZE) } })
    for (const path of ['/bytes', '/text']) {
      const size = await new Promise((resolve, reject) => {
        http.get(server.url + path, (res) => {
          let size = 0
          res.on('data', (chunk) => {
            assert.ok(chunk[0] === 97 && chunk[chunk.length - 1] === 97)
            size += chunk.length
          })
          res.on('end', () => resolve(size))
        }).on('error', reject)
      })
      assert.strictEqual(size, SIZE)
    }
    await server.close({ deadline: 0 })
  })
})

test('heads of 60 KiB, 150 in one go: more than there are chunks in a batch', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open, until } = require('./_inside')
    const { connect, request } = require('../js/_client')
    const COUNT = 150
    const held = []
    const { server, counts } = await open({
      limits: { headerBytes: 65535, headerCount: 1000 },
      handler: (req, res) => { held.push([req, res]) }
    })
    const clients = Array.from({ length: COUNT }, () => connect(server))
    await Promise.all(clients.map(({ socket }) => new Promise((resolve) => { socket.once('connect', resolve) })))
    const headers = (c) => ({ 'X-Number': String(c), 'X-Long': String(c % 10).repeat(60000), 'X-Last': `last ${c}` })
    clients.forEach((client, c) => client.write(request('POST', `/${c}`, headers(c), `body ${c}`)))
    await until('all have come', () => held.length === COUNT)
    assert.ok(counts[0] > 20 && counts[0] <= 64, `the first batch has ${counts[0]}`)
    // All of them are read only now: none may have been overwritten.
    for (const [req, res] of held) {
      const c = Number(req.path.slice(1))
      const { 'X-Long': long } = headers(c)
      assert.deepStrictEqual([req.header('x-number'), req.headers['x-last'], req.header('x-long') === long], [String(c), `last ${c}`, true])
      res.send(await req.text())
    }
    await Promise.all(clients.map(async (client, c) => {
      assert.strictEqual((await client.next()).body, `body ${c}`)
      client.destroy()
    }))
    await server.close({ deadline: 0 })
  })
})

test('1000 short fields in a head, and bodies around what lies in a chunk', async (t) => {
  await run(t, async () => {
    const assert = require('node:assert')
    const { open } = require('./_inside')
    const { exchange, request } = require('../js/_client')
    const { server } = await open({
      limits: { headerBytes: 65535, headerCount: 1000 },
      handler: async (req) => `${req.rawHeaders.length} ${req.header('h900')} ${(await req.bytes()).length}`
    })
    const headers = Object.fromEntries(Array.from({ length: 990 }, (_, i) => [`h${i}`, `v${i}`]))
    const sizes = [0, 1, 8191, 8192, 8193, 40000]
    const answers = await exchange(server, sizes.map((size) => request('POST', '/', headers, 'x'.repeat(size))).join(''), sizes.map(() => 'POST'))
    answers.forEach(({ body }, i) => assert.strictEqual(body, `${sizes[i] === 0 ? 1982 : 1984} v900 ${sizes[i]}`))
    await server.close({ deadline: 0 })
  })
})
